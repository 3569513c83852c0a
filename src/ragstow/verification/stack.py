"""The GPU stack under the service: its pods run, and neither their logs nor the kubelet's hold the signature of a failure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragstow.cluster.objects import Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.facts import Facts
from ragstow.facts.stack import Signature
from ragstow.plan.model import Plan
from ragstow.rules.index.stack import GpuStack
from ragstow.rules.index.states import state_of
from ragstow.verification.model import Check, Evidence, ObjectRef, Outcome, Unknown

_ON_NODES = (
    "device-plugin",
    "feature-discovery",
    "config-manager",
    "mps-daemon",
    "mig-manager",
    "driver",
    "container-toolkit",
    "dra-driver",
    "hami-device-plugin",
)
_IN_CLUSTER = ("operator", "hami-scheduler", "kai-scheduler")
_REGISTERED = "Registered device plugin for "
"""k8s-device-plugin internal/plugin/server.go."""
_SHOWN = 400
"""Characters of a log line that are shown."""


@dataclass(frozen=True, slots=True)
class Log:
    """A log of a container or of a kubelet: whose, the command that shows it, its text; or why it could not be read."""

    object: ObjectRef
    command: str
    text: str = ""
    missing: str = ""
    forbidden: bool = False


def stack_pods(snapshot: Snapshot, facts: Facts, nodes: Iterable[str]) -> tuple[tuple[Pod, str], ...]:
    """The pods of the GPU stack that the service depends on, each with what it is: those on its nodes, and the controllers."""
    stack = GpuStack(snapshot, facts.stack)
    found: dict[str, tuple[Pod, str]] = {}
    for node in sorted(set(nodes)):
        for role in _ON_NODES:
            for pod in stack.pods(role, node=node):
                found.setdefault(pod.key, (pod, _title(facts, role)))
    for role in _IN_CLUSTER:
        for pod in stack.pods(role):
            found.setdefault(pod.key, (pod, _title(facts, role)))
    return tuple(item for item in found.values() if not item[0].deleted and not item[0].finished)


def check_stack(
    pods: Sequence[tuple[Pod, str]], plan: Plan | None, snapshot: Snapshot, facts: Facts, nodes: Sequence[str]
) -> Outcome:
    """One check for each pod of the stack, and one for each node that should have a device plugin and has none."""
    checks = [_pod(pod, title) for pod, title in pods]
    kind = plan.cluster.plugin.kind if plan is not None else ""
    if kind in ("chart", "operator", "static"):
        stack = GpuStack(snapshot, facts.stack)
        for node in nodes:
            running = [pod for pod in stack.pods("device-plugin", node=node) if not pod.deleted]
            if not running:
                checks.append(
                    Check(
                        "stack-pod",
                        ObjectRef("Node", "", node),
                        "a device plugin pod",
                        "none",
                        False,
                        (
                            Evidence(
                                f"kubectl get pods -A --field-selector spec.nodeName={node}", "no device plugin among them"
                            ),
                        ),
                        "the DaemonSet's node selector or tolerations keep it off: `ragstow diagnose` says which",
                    )
                )
    return Outcome(tuple(checks))


def check_logs(logs: Sequence[Log], facts: Facts, what: str) -> Outcome:
    """The logs that could be read are free of known signatures; those that could not are unknown.

    Args:
        logs: the logs.
        facts: signatures.
        what: the name of the check, "stack-log", "pod-log" or "kubelet-log".
    """
    checks: list[Check] = []
    unknown: list[Unknown] = []
    for log in logs:
        if log.missing:
            unknown.append(Unknown(what, log.object, log.missing, log.command, forbidden=log.forbidden))
            continue
        hits = _hits(log.text, facts)
        said = "; ".join(f"{signature.id} ({signature.cause})" for signature in hits) or "none"
        evidence = tuple(Evidence(log.command, line[:_SHOWN]) for line in hits.values())
        hint = "" if not hits else f"ragstow explain {next(iter(hits)).cause}"
        checks.append(
            Check(what, log.object, "no signature of a known failure", said, not hits, evidence or (_clean(log),), hint)
        )
    return Outcome(tuple(checks), tuple(unknown))


def _clean(log: Log) -> Evidence:
    return Evidence(log.command, f"{len(log.text.splitlines())} lines read")


def _hits(text: str, facts: Facts) -> Mapping[Signature, str]:
    """Signatures that prove a failure by themselves, each with the last line that shows it.

    What a device plugin said before it registered (again) with the kubelet is over: it waits for the MPS daemon by failing, and
    starts anew with all devices healthy.
    """
    found: dict[Signature, str] = {}
    for line in text[max(text.rfind(_REGISTERED), 0) :].splitlines():
        found |= {signature: line.strip() for signature, _ in facts.signatures.search(line) if signature.strong}
    return found


def _pod(pod: Pod, title: str) -> Check:
    state = state_of(pod)
    right = state.state == "running"
    bad = next((item for item in state.containers if item.crashing), None)
    reason = (bad.reason if bad is not None else "") or state.reason
    said = "runs and is ready" if right else f"{state.state}{f' ({reason})' if reason else ''}"
    if bad is not None:
        said += f", container {bad.name}, {bad.restarts} restarts"
    message = (bad.last_message or bad.message) if bad is not None else state.message
    source = f"kubectl get pod -n {pod.namespace} {pod.name}"
    evidence = (Evidence(source, f"{pod.phase or 'no phase'} on {pod.node or 'no node'}{f': {message}' if message else ''}"),)
    hint = "" if right else f"ragstow diagnose {pod.namespace}/{pod.name}"
    return Check("stack-pod", ObjectRef.of(pod), f"{title} runs and is ready", said, right, evidence, hint)


def _title(facts: Facts, role: str) -> str:
    program = facts.stack.role(role)
    return program.title if program is not None else role
