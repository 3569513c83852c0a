"""The startup (or liveness) probe ends before the model is loaded, and the kubelet kills the container while it starts.

What
    "Container … failed startup probe, will be restarted" again and again, or SIGTERM in the log while the model loads. Lint flags an
    inference server whose probe budget (initialDelaySeconds + periodSeconds x failureThreshold) is shorter than such a start takes.

Why
    A start is image, weights and, for vLLM, compilation and graph capture: minutes. Each kill throws the work away, so the
    pod never becomes ready, however long one waits.

Fix
    Raise the startup probe's failureThreshold to cover the slowest start (10 minutes and more for an LLM) and let the liveness
    probe begin after it.

References
    - Kubernetes: startup probes protect slow starting containers

Fires: killed while loading
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec:
      nodeName: gpu-1
      containers:
      - name: vllm
        image: vllm-openai
        startupProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 5, failureThreshold: 30}
        resources: {limits: {nvidia.com/gpu: 1}}
    status:
      phase: Running
      containerStatuses: [{name: vllm, ready: false, restartCount: 8, state: {running: {}}}]
    ---
    apiVersion: v1
    kind: Event
    metadata: {name: e, namespace: rag, uid: b}
    involvedObject: {kind: Pod, namespace: rag, name: llm-0}
    reason: Killing
    message: Container vllm failed startup probe, will be restarted

Quiet: a start-up probe failed while loading, and the pod is ready now
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec:
      nodeName: gpu-1
      containers: [{name: vllm, image: vllm-openai, resources: {limits: {nvidia.com/gpu: 1}}}]
    status:
      phase: Running
      containerStatuses: [{name: vllm, ready: true, restartCount: 0, state: {running: {}}}]
    ---
    apiVersion: v1
    kind: Event
    metadata: {name: e, namespace: rag, uid: b}
    involvedObject: {kind: Pod, namespace: rag, name: llm-0}
    reason: Unhealthy
    message: 'Startup probe failed: connection refused'

Fires (lint): 50 seconds for an LLM server
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      template:
        spec:
          containers:
          - name: vllm
            image: "vllm/vllm-openai:v0.19.0"
            startupProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 5, failureThreshold: 10}
            resources: {limits: {nvidia.com/gpu: 1}}

Quiet (lint): twenty minutes
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      template:
        spec:
          containers:
          - name: vllm
            image: "vllm/vllm-openai:v0.19.0"
            startupProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 10, failureThreshold: 120}
            resources: {limits: {nvidia.com/gpu: 1}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.cluster.objects import Container
from ragstow.rules.context import Context
from ragstow.rules.engines import gpu_limits, has_claims
from ragstow.rules.fixes import template_patch
from ragstow.rules.index.states import PodState
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef, Patch
from ragstow.rules.rule import Rule
from ragstow.rules.times import parse

_PATIENT_SECONDS = 1200
_SANE_SECONDS = 180
"""A budget below this is flagged by lint for a container with a GPU: weights of an 8 B model alone (16 GB) take two to three
minutes at 1 Gbit/s of a registry or volume; see vLLM's and production-stack's own probes (10 minutes)."""

_GRACE_SECONDS = 90
"""A probe's periods and time-outs, and 30 s until SIGKILL."""
_NEARLY = 0.7
"""A failure counts from the period in which it is found."""
_REFUSES = re.compile(r"statuscode: (?:4\d\d|30\d)")

_KILLED = frozenset({137, 143})
"""128 + SIGKILL, 128 + SIGTERM: what a container ends with that the kubelet stops."""


class StartupProbeTooShort(Rule):
    """See the page above."""

    cause = "startup-probe-too-short"
    severity = "medium"
    needs = frozenset({"manifest", "events", "logs"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload whose containers are killed by a probe while they start."""
        seen: dict[ObjectRef, list[tuple[PodState, tuple[Evidence, ...]]]] = {}
        for state in context.states.in_state("crashing", "unready", "starting"):
            found = _killed(context, state)
            if found:
                seen.setdefault(context.owners.workload(state.pod), []).append((state, found))
        for workload, members in seen.items():
            state = members[0][0]
            container = next((c for c in state.pod.containers if _probe(c.raw)), None)
            budget = _budget(container.raw) if container is not None else None
            restarts = max((c.restarts for c in state.containers), default=0)
            yield self.finding(
                f"{workload} is killed by its probe while it loads" + (f": {budget} s are not enough" if budget else ""),
                f"The kubelet killed the container {restarts} times before it answered. A start (image, weights, compilation, graphs) "
                "takes longer than the probe allows, and each kill throws the work away.",
                Fix(
                    "Raise failureThreshold of the startup probe to cover the slowest start (600 s and more for an LLM server); give a "
                    "container that has only a liveness probe a startup probe.",
                    patch=_longer(workload, container),
                    disruption=f"restarts {workload}",
                    check="the pod becomes Ready, restartCount stays",
                ),
                (workload, *(ObjectRef.of(item.pod) for item, _ in members)),
                evidence=[entry for _, entries in members for entry in entries][:3],
                held=(item.pod.key for item, _ in members),
            )

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each GPU container whose probe budget is shorter than a model's start."""
        for pod in context.pod_specs:
            if pod.manifest.object.kind in ("Job", "CronJob"):
                continue
            for path, container in pod.containers():
                budget = _budget(container)
                if budget is None or budget >= _SANE_SECONDS or not (gpu_limits(container) or has_claims(container)):
                    continue
                ref = ObjectRef.of(pod.manifest.object)
                yield self.finding(
                    f"container {container.get('name')} of {ref} is killed if its model is not loaded within {budget} s",
                    "initialDelaySeconds + periodSeconds x failureThreshold of the startup (or, without one, liveness) probe.",
                    Fix("Raise failureThreshold of the startup probe to cover the slowest start."),
                    (ref,),
                    evidence=(Evidence(f"{budget} s", ref, ".".join(map(str, path)) + "." + _probe(container)),),
                    severity="low",
                    confidence="likely",
                    file=pod.manifest.file,
                    line=pod.manifest.line(*path, _probe(container)),
                )


def _killed(context: Context, state: PodState) -> tuple[Evidence, ...]:
    unhealthy = [event for event in context.events.about(state.pod, "Unhealthy") if "robe failed" in event.message]
    if _answers(context, state, [event.message for event in unhealthy]):
        return ()
    killing = [
        event.evidence
        for event in context.events.about(state.pod, "Killing")
        if "probe" in event.message and ("startup" in event.message or not any(c.ready for c in state.containers))
    ]
    if killing:
        return tuple(killing[:2])
    terms = [hit.text.evidence for hit in context.texts.of_cause(StartupProbeTooShort.cause) if hit.text.pod is state.pod]
    failing = [event.evidence for event in unhealthy if not event.message.startswith("Readiness")]
    restarted = any(c.restarts for c in state.containers)
    if failing and any(
        c.restarts
        and not c.ready
        and c.last_reason != "OOMKilled"
        and (c.last_exit_code in _KILLED or (c.last_exit_code == 0 and _as_long_as_its_budget(state, c.name)))
        for c in state.containers
    ):
        return tuple(failing[:2])  # the kill itself is forgotten: events live an hour
    return (
        (*terms[:1], *failing[:1])
        if terms and restarted and (failing or any(_probe(c.raw) for c in state.pod.containers))
        else ()
    )


def _answers(context: Context, state: PodState, unhealthy: list[str]) -> bool:
    """Whether the server had started when the probe failed: it answers, knows no such path, says so itself, or ran for long."""
    if unhealthy and all(_REFUSES.search(message) for message in unhealthy):
        return True
    if any(hit.signature.id == "server-started" and hit.text.pod is state.pod for hit in context.texts.of_cause("none")):
        return True
    for container in state.pod.containers:
        budget, ran = _budget(container.raw), _ran(state, container.name)
        if budget is not None and "startupProbe" not in container.raw and ran is not None and ran > 2 * budget + _GRACE_SECONDS:
            return True
    return False


def _ran(state: PodState, container: str) -> float | None:
    """Seconds from start to end of the container's last run; None where the status does not say."""
    for status in state.pod.status.get("containerStatuses") or ():
        if isinstance(status, Mapping) and status.get("name") == container:
            ended = (status.get("lastState") or {}).get("terminated") or (status.get("state") or {}).get("terminated") or {}
            began, end = parse(ended.get("startedAt")), parse(ended.get("finishedAt"))
            return (end - began).total_seconds() if began is not None and end is not None else None
    return None


def _as_long_as_its_budget(state: PodState, container: str) -> bool:
    """Whether a container that ended by itself, without an error, was stopped: it ran just as long as its probe let it."""
    raw = next((item.raw for item in state.pod.containers if item.name == container), None)
    budget, ran = _budget(raw) if raw is not None else None, _ran(state, container)
    return budget is not None and ran is not None and _NEARLY * budget <= ran <= budget + _GRACE_SECONDS


def _longer(workload: ObjectRef, container: Container | None) -> Patch | None:
    """A start-up probe of twenty minutes, or twice as long as it is, where the container has one."""
    probe = container.raw.get("startupProbe") if container is not None else None
    if container is None or not isinstance(probe, Mapping):
        return None
    patient = -(-_PATIENT_SECONDS // max(1, int(probe.get("periodSeconds") or 10)))
    threshold = max(patient, 2 * int(probe.get("failureThreshold") or 3))
    return template_patch(workload, {"containers": [{"name": container.name, "startupProbe": {"failureThreshold": threshold}}]})


def _probe(container: Mapping[str, Any]) -> str:
    return next((name for name in ("startupProbe", "livenessProbe") if container.get(name)), "")


def _budget(container: Mapping[str, Any]) -> int | None:
    """Seconds until the first kill; None where nothing kills."""
    probe = container.get(_probe(container)) if _probe(container) else None
    if not isinstance(probe, Mapping):
        return None
    # Defaults of the API: period 10 s, failureThreshold 3, no initial delay.
    return int(probe.get("initialDelaySeconds") or 0) + int(probe.get("periodSeconds") or 10) * int(
        probe.get("failureThreshold") or 3
    )
