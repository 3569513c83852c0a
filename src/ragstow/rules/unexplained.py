"""What no rule explains is said, never passed over: pods that wait, with the scheduler's answer grouped over the nodes, and GPU
pods that do not run, with the command that collects what is missing.

These are no findings: they stand in `unknown`, outside the exit code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta

from ragstow.cluster.objects import Pod
from ragstow.rules.context import Context
from ragstow.rules.engines import GPU_DOMAIN
from ragstow.rules.fixes import flags
from ragstow.rules.index.states import ContainerState, PodState, State
from ragstow.rules.model import Finding, ObjectRef, Unknown
from ragstow.rules.times import parse
from ragstow.rules.waiting import Waiting, waiting
from ragstow.rules.youth import still_starting

NAME = "unexplained"
_FEW_NODES = 3
_CLOSE = 2
_SHOWN = 200
_FAILS = re.compile(r"(?i)error|exception|fatal|panic|denied|refused|killed|cannot|could not|unable|failed|not found")
_STARTING = timedelta(minutes=10)
"""A pod that pulls an image and loads weights is not yet a riddle."""
_ENDED: tuple[State, ...] = ("rejected", "crashing", "unready", "starting")


def unexplained(context: Context, findings: Iterable[Finding]) -> Iterator[Unknown]:
    """What is left after these findings."""
    if context.snapshot.nodes and not context.snapshot.pods:
        # A list that failed to be saved looks like a cluster without pods; no cluster with nodes has none for long.
        yield Unknown(
            NAME, "no pod is in the data, so nothing that waits or crashes can be seen", "kubectl get pods -A -o json"
        )
    if not context.snapshot.nodes:
        yield Unknown(NAME, "no node is in the data, so what the cluster offers cannot be seen", "kubectl get nodes -o json")
    covered = _covered(findings)
    waits = [group for group in waiting(context) if not covered.issuperset(group.held)]
    troubled = [state for state in context.states.in_state(*_ENDED) if state.pod.key not in covered and _ours(context, state)]
    if (waits or troubled) and not context.events.all:
        yield Unknown(NAME, "the events of the cluster are not in the data", "kubectl get events -A -o json")
    yield from _waiting(waits)
    yield from _gated(context)
    yield from _not_running(context, troubled)


def _covered(findings: Iterable[Finding]) -> set[str]:
    found: set[str] = set()
    for finding in findings:
        found.update(finding.held)
        found.update(f"{ref.namespace}/{ref.name}" for ref in finding.objects if ref.kind == "Pod")
        found |= _covered(finding.follows)
    return found


def _waiting(groups: list[Waiting]) -> Iterator[Unknown]:
    """Pods with one answer of the scheduler are one entry."""
    alike: dict[tuple[str, ...], list[Waiting]] = {}
    for group in groups:
        alike.setdefault(_answer(group), []).append(group)
    for answer, members in alike.items():
        first = members[0]
        refs = tuple(ObjectRef.of(pod) for group in members for pod in group.pods)
        count = len(refs)
        who = (
            f"{refs[0]} waits"
            if count == 1
            else f"{count} pods wait ({first.workload}" + (", ...)" if len(members) > 1 else ")")
        )
        yield Unknown(
            NAME,
            f"{who} for a node, and no rule explains it: {answer[0]}",
            f"kubectl {flags(refs[0])}describe pod {refs[0].name}",
            refs,
            answer[1:],
        )


def _answer(group: Waiting) -> tuple[str, ...]:
    """The scheduler's answer in one line, then the nodes grouped by what they say."""
    if not group.by_default_scheduler:
        said = group.evidence[0].value if group.evidence else "it has said nothing yet"
        return (f"scheduler {group.pod.scheduler} decides about it; {said}",)
    verdict = group.verdict
    if verdict.feasible:
        names = ", ".join(verdict.feasible[:_FEW_NODES]) + (", ..." if len(verdict.feasible) > _FEW_NODES else "")
        return (
            f"{len(verdict.feasible)} node(s) would take it now ({names}): the scheduler has not tried again, or does not run",
        )
    if verdict.prefilter:
        return (verdict.prefilter,)
    by_texts: dict[tuple[str, ...], list[str]] = {}
    for node, refusals in verdict.refused.items():
        by_texts.setdefault(tuple(text for refusal in refusals for text in refusal.texts), []).append(node)
    lines = []
    for texts, members in sorted(by_texts.items(), key=lambda item: (len(item[0]), -len(item[1]), item[1])):
        named = ", ".join(members[:_FEW_NODES]) + (
            f" and {len(members) - _FEW_NODES} more" if len(members) > _FEW_NODES else ""
        )
        words = [text for refusal in verdict.refused[members[0]] for text in refusal.words]
        # Numbers and labels help where one or two things are in the way; of a node that is wrong in every way they say nothing.
        example = f" ({'; '.join(words)})" if len(words) <= _CLOSE else ""
        lines.append(f"{named}: {'; '.join(dict.fromkeys(texts))}{example.replace(group.pod.key, 'the pod')}")
    return (verdict.message or "the data hold no node", *lines)


def _gated(context: Context) -> Iterator[Unknown]:
    alike: dict[str, list[Pod]] = {}
    for state in context.states.in_state("gated"):
        gates = state.pod.spec.get("schedulingGates")
        names = [str(gate.get("name")) for gate in gates if isinstance(gate, dict)] if isinstance(gates, list) else []
        alike.setdefault(", ".join(names), []).append(state.pod)
    for gate_names, pods in alike.items():
        refs = tuple(map(ObjectRef.of, pods))
        yield Unknown(
            NAME,
            f"{len(refs)} pod(s) wait for their scheduling gate {gate_names} to be removed; whoever set it decides",
            f"kubectl {flags(refs[0])}get pod {refs[0].name} -o yaml",
            refs,
        )


def _ours(context: Context, state: PodState) -> bool:
    """Whether a pod uses GPUs or is part of the GPU stack, and should be running by now."""
    pod = state.pod
    if pod.phase == "Failed" and _tried_again(context, pod):
        return False
    if still_starting(context, pod):
        return False
    if state.state in ("starting", "unready"):
        since, now = parse(state.since), parse(context.now)
        if since is not None and now is not None and now - since < _STARTING:
            return False
    uses = any(name.startswith(GPU_DOMAIN) and count for name, count in context.requests(pod).items())
    return uses or bool(pod.spec.get("resourceClaims")) or bool(context.stack.roles(pod))


def _tried_again(context: Context, pod: Pod) -> bool:
    """Whether a failed pod's Job has not failed: it has made another pod, or will."""
    owner = pod.controller
    if owner is None or owner.kind != "Job":
        return False
    job = context.snapshot.get("Job", owner.name, pod.namespace, "batch")
    status = job.raw.get("status") if job is not None else None
    conditions = status.get("conditions") if isinstance(status, dict) else None
    listed = conditions if isinstance(conditions, list) else []
    return job is not None and not any(
        isinstance(c, dict) and c.get("type") == "Failed" and c.get("status") == "True" for c in listed
    )


def _not_running(context: Context, states: list[PodState]) -> Iterator[Unknown]:
    by_workload: dict[ObjectRef, list[PodState]] = {}
    for state in states:
        by_workload.setdefault(context.owners.workload(state.pod), []).append(state)
    for workload, members in by_workload.items():
        first = members[0]
        pod = first.pod
        refs = (*dict.fromkeys((workload, *(ObjectRef.of(state.pod) for state in members))),)
        here = flags(ObjectRef.of(pod))
        container = next((c for c in first.containers if c.crashing), None)
        how = _how(first, container)
        count = f" (and {len(members) - 1} more of its pods)" if len(members) > 1 else ""
        if (
            container is None
            or first.state in ("rejected", "starting")
            or (container.state == "waiting" and not container.restarts)
        ):
            text = f"{ObjectRef.of(pod)}{count} {how}, and no rule explains it"
            yield Unknown(NAME, text, f"kubectl {here}describe pod {pod.name}", refs)
        elif context.logs.of(pod):
            text = f"{ObjectRef.of(pod)}{count} {how}; its log says nothing that a rule knows{_last_words(context, pod)}"
            yield Unknown(NAME, text, f"kubectl {here}describe pod {pod.name}", refs)
        else:
            text = f"{ObjectRef.of(pod)}{count} {how}, and the log of container {container.name} is not in the data"
            yield Unknown(NAME, text, f"kubectl {here}logs {pod.name} -c {container.name} --previous", refs)


def _last_words(context: Context, pod: Pod) -> str:
    """The last line of the pod's logs that speaks of a failure, else the last line."""
    lines = [line.strip() for log in context.logs.of(pod) for line in log.lines if line.strip()]
    failing = [line for line in lines if _FAILS.search(line)]
    last = (failing or lines)[-1:]
    return f"; it ends with: {last[0][:_SHOWN]}" if last else ""


def _how(state: PodState, container: ContainerState | None) -> str:
    reason = state.reason or (container.reason if container is not None else "")
    if state.state == "crashing" and container is not None:
        if container.state == "waiting" and container.message and not container.message.startswith("back-off"):
            return f"does not stay up ({container.reason}: {container.message.strip()[:_SHOWN]})"
        ended = container.last_reason or (container.reason if container.state == "terminated" else "")
        code = container.last_exit_code if container.last_exit_code is not None else container.exit_code
        detail = ", ".join(
            part
            for part in (
                container.reason,
                f"{container.restarts} restarts" if container.restarts else "",
                f"last ended with {ended}" + (f" ({code})" if code is not None else "") if ended else "",
            )
            if part
        )
        said = (container.last_message or container.message).strip()
        if ended == "OOMKilled":
            detail += ": it went beyond the limit of its host memory, which is none of a GPU's"
        elif said and not said.startswith("back-off"):
            detail += f": {said[-_SHOWN:]}"
        return f"does not stay up ({detail})" if detail else "does not stay up"
    words = {"rejected": "was refused by the kubelet", "unready": "runs but is not ready", "starting": "has not started"}
    said = "; ".join(part for part in (reason, state.message) if part)
    return words.get(state.state, "does not run") + (f" ({said})" if said else "")
