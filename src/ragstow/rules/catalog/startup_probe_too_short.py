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

_PATIENT_SECONDS = 1200
_SANE_SECONDS = 180
"""A budget below this is flagged by lint for a container with a GPU: weights of an 8 B model alone (16 GB) take two to three
minutes at 1 Gbit/s of a registry or volume; see vLLM's and production-stack's own probes (10 minutes)."""

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
    killing = [
        event.evidence
        for event in context.events.about(state.pod, "Killing")
        if "probe" in event.message and ("startup" in event.message or not any(c.ready for c in state.containers))
    ]
    if killing:
        return tuple(killing[:2])
    terms = [hit.text.evidence for hit in context.texts.of_cause(StartupProbeTooShort.cause) if hit.text.pod is state.pod]
    failing = [event.evidence for event in context.events.about(state.pod, "Unhealthy") if "robe failed" in event.message]
    restarted = any(c.restarts for c in state.containers)
    if failing and any(
        c.restarts and not c.ready and c.last_exit_code in _KILLED and c.last_reason != "OOMKilled" for c in state.containers
    ):
        return tuple(failing[:2])  # the kill itself is forgotten: events live an hour
    return (
        (*terms[:1], *failing[:1])
        if terms and restarted and (failing or any(_probe(c.raw) for c in state.pod.containers))
        else ()
    )


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
