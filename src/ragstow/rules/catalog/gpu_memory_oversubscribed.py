"""The sharers of one GPU together claim more memory than it has.

What
    An engine refuses to start or runs out of memory because its neighbours hold the card's memory: "Free memory on device (…) on
    startup is less than desired GPU memory utilization", memory that changes while vLLM profiles, CUDA out of memory beside another process.

Why
    Time-slicing caps nothing, and vLLM's fraction is of the whole card's memory, checked against what is free at start. Two servers
    with 0.9 each never fit on one card; which of them starts depends on the order.

Fix
    Give the sharers fractions that add up to less than 1 (better: --kv-cache-memory-bytes, which does not depend on neighbours), start
    them one after the other, or give them slices (MIG), capped shares (MPS) or cards of their own.

References
    - vLLM documentation: gpu_memory_utilization, kv_cache_memory_bytes
    - NVIDIA device plugin: time-slicing has no memory isolation

Fires: the second server on the card
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.product: NVIDIA-L40S-SHARED, nvidia.com/gpu.replicas: "4", nvidia.com/gpu.sharing-strategy: time-slicing, nvidia.com/gpu.count: "1"}}
    status: {capacity: {nvidia.com/gpu: 4}, allocatable: {nvidia.com/gpu: 4}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-a, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: vllm, image: vllm-openai, resources: {limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Running, containerStatuses: [{name: vllm, ready: true, restartCount: 0, state: {running: {}}}]}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-b, namespace: rag, uid: b}
    spec: {nodeName: gpu-1, containers: [{name: vllm, image: vllm-openai, resources: {limits: {nvidia.com/gpu: 1}}}]}
    status:
      phase: Running
      containerStatuses: [{name: vllm, ready: false, restartCount: 9, state: {waiting: {reason: CrashLoopBackOff}}}]
    ---
    kind: Log
    name: vllm.txt
    text: |
      ValueError: Free memory on device (4.61/47.53 GiB) on startup is less than desired GPU memory utilization (0.9, 42.78 GiB).

Quiet: fractions that add up
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.product: NVIDIA-L40S-SHARED, nvidia.com/gpu.replicas: "2", nvidia.com/gpu.sharing-strategy: time-slicing, nvidia.com/gpu.count: "1"}}
    status: {capacity: {nvidia.com/gpu: 2}, allocatable: {nvidia.com/gpu: 2}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-a, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: vllm, image: vllm-openai, args: [--gpu-memory-utilization=0.45], resources: {limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Running, containerStatuses: [{name: vllm, ready: true, restartCount: 0, state: {running: {}}}]}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.context import Context
from ragstow.rules.crowding import crowded, neighbours
from ragstow.rules.engines import KV_BYTES, MEMORY_FRACTION, flag
from ragstow.rules.grouping import by_workload, evidence, sure
from ragstow.rules.index.texts import Hit
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule


class GpuMemoryOversubscribed(Rule):
    """See the page above."""

    cause = "gpu-memory-oversubscribed"
    severity = "high"
    needs = frozenset({"logs", "snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload that a neighbour's memory keeps from starting."""
        for site, members in by_workload(context, _of_the_unwell(context)):
            pods = [hit.text.pod for hit in members if hit.text.pod is not None]
            others = neighbours(context, pods[0]) if pods else []
            groups = next((hit.match.groupdict() for hit in members if "free" in hit.match.groupdict()), {})
            numbers = (
                f": {groups['free']} of {groups['total']} GiB free, {groups['wanted']} wanted" if groups.get("free") else ""
            )
            told = [
                Evidence(value, ObjectRef.of(pod), f"container {container.name} {name}")
                for pod in [*pods[:1], *others[:3]]
                for container in pod.containers
                for name, value in (
                    (MEMORY_FRACTION[0], flag(container.raw, MEMORY_FRACTION)),
                    (KV_BYTES[0], flag(container.raw, KV_BYTES)),
                )
                if value
            ]
            yield self.finding(
                f"{site.words} cannot start: its GPU's memory is taken by a neighbour{numbers}",
                "Nothing caps what sharers take, and vLLM asks for its fraction of the whole card to be free at start."
                + (f" On the node the GPU is also held by {', '.join(pod.key for pod in others[:4])}." if others else ""),
                Fix(
                    "Give the sharers budgets that add up to less than the card (--kv-cache-memory-bytes, or --gpu-memory-utilization), start "
                    "them one after the other, or give them MIG slices, MPS shares or cards of their own.",
                    command="ragstow plan service.yaml   # works out budgets and a start order that hold",
                    disruption="restarts the sharers",
                    check="nvidia-smi on the node: memory used stays below the total",
                ),
                (*site.objects, *map(ObjectRef.of, others[:5])),
                evidence=(*evidence(members), *told),
                held=site.pods,
                confidence=sure(members),
            )


def _of_the_unwell(context: Context) -> list[Hit]:
    """What pods said that run by now is history."""
    found = []
    for hit in crowded(context):
        state = context.states.of(hit.text.pod) if hit.text.pod is not None else None
        if hit.signature.cause == GpuMemoryOversubscribed.cause or (state is not None and not state.healthy):
            found.append(hit)
    return found
