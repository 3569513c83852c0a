"""The model and its cache do not fit the GPU that the pod has to itself.

What
    The engine says that no memory is left for the KV cache, that not even one request of the model's length fits, or the program ends
    with CUDA out of memory, on a card that nobody shares with it.

Why
    Weights, activation peak, CUDA graphs and the cache for one request of the full context must fit; MIG slices are smaller than their
    names, and the memory that CUDA sees is less than the label says.

Fix
    A shorter context (--max-model-len), fewer requests at once (--max-num-seqs), a quantised model or KV cache, more GPUs (tensor
    parallel), or a larger card or slice. `ragstow size` shows the sum term by term.

References
    - vLLM documentation: conserving memory

Fires: nothing left for the cache
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: vllm, image: vllm-openai, resources: {limits: {nvidia.com/gpu: 1}}}]}
    status:
      phase: Running
      containerStatuses: [{name: vllm, ready: false, restartCount: 4, state: {waiting: {reason: CrashLoopBackOff}}}]
    ---
    kind: Log
    name: vllm.txt
    text: |
      ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.

Quiet: it serves
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: vllm, image: vllm-openai, resources: {limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Running, containerStatuses: [{name: vllm, ready: true, restartCount: 0, state: {running: {}}}]}
    ---
    kind: Log
    name: vllm.txt
    text: |
      GPU KV cache size: 476,000 tokens
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.context import Context
from ragstow.rules.crowding import crowded
from ragstow.rules.grouping import by_workload, evidence, sure
from ragstow.rules.model import Finding, Fix
from ragstow.rules.rule import Rule

_SHARED = frozenset({"time-slicing", "hami", "kai"})


class GpuMemoryInsufficient(Rule):
    """See the page above."""

    cause = "gpu-memory-insufficient"
    severity = "high"
    needs = frozenset({"logs"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload that runs out of memory on a card of its own."""
        taken = {hit.text.pod.key for hit in crowded(context) if hit.text.pod is not None}
        hits = [
            hit
            for hit in context.texts.of_cause(self.cause, "gpu-memory-oversubscribed")
            if hit.text.pod is not None and hit.text.pod.key not in taken and _unwell(context, hit.text.pod.key)
        ]
        for site, members in by_workload(context, hits):
            node = context.inventory.find(site.node)
            sharing = node.sharing if node is not None else "unknown"
            yield self.finding(
                f"{site.words} does not fit the GPU memory that it has",
                f"It says: {members[0].text.value.strip()[:200]}"
                + (
                    " The node's cards are shared, so that a neighbour may hold part of the memory."
                    if sharing in _SHARED
                    else ""
                ),
                Fix(
                    "Shorten the context (--max-model-len), serve fewer requests at once (--max-num-seqs), use a quantised model or KV "
                    "cache, more GPUs, or a larger card or slice.",
                    command="ragstow size service.yaml   # the sum, term by term, with the lever of each",
                    disruption=f"restarts {site.words}",
                    check="the log prints the size of the KV cache; the pod is Ready",
                ),
                site.objects,
                evidence=evidence(members),
                held=site.pods,
                confidence="likely" if sharing in _SHARED else sure(members),
            )


def _unwell(context: Context, pod: str) -> bool:
    state = context.states.of(pod)
    return state is not None and not state.healthy
