"""The engine's parallel size differs from the GPUs that its container has.

What
    vLLM, SGLang or TGI is told to spread over more GPUs than the container's limit gives ("Tensor parallel size (4) exceeds available
    GPUs (1)", a Ray placement group that never comes, "invalid device ordinal"), or has GPUs that it leaves idle.

Why
    The engine sees the GPUs of its own container only. With too few it hangs or crashes at start; with too many the rest is held
    and unused. Slices and shares do not add up to a larger GPU.

Fix
    Make --tensor-parallel-size (times pipeline and data parallel size) equal to the GPU limit; several pods for one model need
    a multi-node launcher (LeaderWorkerSet, Ray).

References
    - vLLM documentation: distributed inference and serving

Fires: four wanted, one given
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: vllm, image: vllm-openai, args: [--tensor-parallel-size, "4"], resources: {limits: {nvidia.com/gpu: 1}}}]}
    status:
      phase: Running
      containerStatuses: [{name: vllm, ready: false, restartCount: 3, state: {waiting: {reason: CrashLoopBackOff}}}]

Quiet: four and four
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: vllm, image: vllm-openai, args: [--tensor-parallel-size, "4"], resources: {limits: {nvidia.com/gpu: 4}}}]}
    status: {phase: Running, containerStatuses: [{name: vllm, ready: true, restartCount: 0, state: {running: {}}}]}

Fires (lint): two wanted, one given
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec: {containers: [{name: vllm, image: vllm-openai, args: [--tensor-parallel-size=2], resources: {limits: {nvidia.com/gpu: 1}}}]}

Quiet (lint): no parallel size, one GPU
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec: {containers: [{name: vllm, image: vllm-openai, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.rules.context import Context
from ragstow.rules.engines import gpu_limits, parallel, words
from ragstow.rules.grouping import by_workload, evidence
from ragstow.rules.index.texts import Hit
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule


class TensorParallelMismatch(Rule):
    """See the page above."""

    cause = "tensor-parallel-mismatch"
    severity = "high"
    needs = frozenset({"manifest", "logs"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload that fails and was given another number of GPUs than it was told to use."""
        seen: set[ObjectRef] = set()
        hits = context.texts.of_cause(self.cause)
        for state in context.states.in_state("crashing", "unready", "starting"):
            workload = context.owners.workload(state.pod)
            for container in state.pod.containers:
                numbers = mismatch(container.raw)
                if numbers is None or workload in seen or _said_otherwise(context, state.pod.key):
                    continue
                seen.add(workload)
                mine = [hit for hit in hits if hit.text.pod is state.pod]
                yield self._finding(workload, (state.pod.key,), *numbers, mine, container.raw)
        for site, members in by_workload(context, [hit for hit in hits if hit.signature.strong or _has_one(context, hit)]):
            if site.workload is not None and site.workload not in seen:
                groups = members[0].match.groupdict()
                yield self._finding(
                    site.workload,
                    site.pods,
                    int(groups.get("tp") or 0),
                    int(groups.get("gpus") or 0),
                    list(members),
                    {},
                )

    def _finding(
        self,
        workload: ObjectRef,
        pods: tuple[str, ...],
        wanted: int,
        given: int,
        hits: Any,
        container: Mapping[str, Any],
    ) -> Finding:
        numbers = f"wants {wanted} GPUs and has {given}" if wanted else "wants more GPUs than it has"
        return self.finding(
            f"{workload}: the engine {numbers}",
            "The parallel size is for the GPUs of one container; it waits for, or fails on, those that are not there.",
            Fix(
                "Make the tensor parallel size (times pipeline and data parallel size) equal to the GPU limit.",
                disruption=f"restarts {workload}",
                check="the log shows the model loading on every rank",
            ),
            (workload, *(ObjectRef("Pod", *key.split("/", 1)) for key in pods)),
            evidence=(
                *evidence(hits),
                *(
                    [Evidence(f"parallel size {wanted}, GPU limit {given}", workload, f"container {container.get('name')}")]
                    if container
                    else []
                ),
            ),
            held=pods,
            confidence="certain" if hits else "likely",
        )

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each container whose parallel size differs from its GPU limit."""
        for pod in context.pod_specs:
            for path, container in pod.containers():
                numbers = mismatch(container)
                if numbers is not None:
                    ref = ObjectRef.of(pod.manifest.object)
                    yield self.finding(
                        f"container {container.get('name')} of {ref} wants {numbers[0]} GPUs and asks for {numbers[1]}",
                        "The engine sees the GPUs of its own container only.",
                        Fix("Make the parallel size equal to the GPU limit."),
                        (ref,),
                        evidence=(
                            Evidence(f"parallel size {numbers[0]}, GPU limit {numbers[1]}", ref, ".".join(map(str, path))),
                        ),
                        file=pod.manifest.file,
                        line=pod.manifest.line(*path, "resources", "limits"),
                    )


def mismatch(container: Mapping[str, Any]) -> tuple[int, int] | None:
    """(wanted, given) where one engine is told to use more GPUs than the container has; None where they agree.

    An engine that spreads over pods (Ray, a node rank among its arguments) is nobody's mistake.
    """
    given = sum(gpu_limits(container).values())
    wanted = parallel(container)
    return (wanted, given) if given and wanted > given and not _spread(container) else None


def _spread(container: Mapping[str, Any]) -> bool:
    return any(
        word.startswith(("ray", "--node-rank", "--nnodes", "--distributed-executor-backend=ray")) or "leader" in word
        for word in words(container)
    )


def _has_one(context: Context, hit: Hit) -> bool:
    """Whether a pod that is not well speaks of a second GPU and has one: nothing else is needed to know that it lacks it."""
    pod = hit.text.pod
    state = context.states.of(pod) if pod is not None else None
    return (
        pod is not None
        and state is not None
        and not state.healthy
        and sum(sum(gpu_limits(container.raw).values()) for container in pod.containers) == 1
        and not any(_spread(container.raw) for container in pod.containers)
    )


def _said_otherwise(context: Context, pod: str) -> bool:
    """Whether the pod's own words prove another cause."""
    causes = (
        "shm-too-small",
        "gpu-memory-insufficient",
        "gpu-memory-oversubscribed",
        "driver-cuda-mismatch",
        "gpu-arch-unsupported",
    )
    return any(hit.text.pod is not None and hit.text.pod.key == pod for hit in context.texts.of_cause(*causes, strong=True))
