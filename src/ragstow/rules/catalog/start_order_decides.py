"""Engines on shares of one card start only in one order.

What
    On shares of a time-sliced card an engine that reserves most of the card (vLLM, by its memory fraction) stands beside one whose
    memory nothing limits (TEI, infinity, Ollama, Triton ...), or fractions add up to nearly the whole card. Nothing among the manifests
    makes one wait for the other.

Why
    vLLM asks at start for its fraction of the TOTAL memory to be FREE. If the neighbour is there first, with more than the rest of the
    card, vLLM ends with "Free memory on device ... is less than desired"; if vLLM is first, the neighbour gets what is left, or runs out
    of memory. Contexts (about half a GiB for each process) lie outside every fraction.

Fix
    Pin vLLM's cache (`--kv-cache-memory-bytes`) and lower its fraction so that the sum leaves room for the neighbour and the contexts;
    start the largest first (an init container that waits for its endpoint); or give them MPS shares, MIG slices or whole cards.

References
    - vLLM documentation: gpu_memory_utilization, kv_cache_memory_bytes
    - `ragstow plan` works out budgets and a start order

Fires (lint): an LLM that takes 0.9 beside an embedder without a limit
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec: {containers: [{name: vllm, image: "vllm/vllm-openai:v0.23.0", args: [--model, m], resources: {limits: {nvidia.com/gpu.shared: 1}}}]}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: embedder, namespace: rag}
    spec: {containers: [{name: tei, image: "ghcr.io/huggingface/text-embeddings-inference:89-1.8", resources: {limits: {nvidia.com/gpu.shared: 1}}}]}

Quiet (lint): the LLM leaves half of the card
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec: {containers: [{name: vllm, image: "vllm/vllm-openai:v0.23.0", args: [--model, m, --gpu-memory-utilization=0.5], resources: {limits: {nvidia.com/gpu.shared: 1}}}]}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: embedder, namespace: rag}
    spec: {containers: [{name: tei, image: "ghcr.io/huggingface/text-embeddings-inference:89-1.8", resources: {limits: {nvidia.com/gpu.shared: 1}}}]}

Fires (lint): two halves and no room for their contexts
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      replicas: 2
      selector: {matchLabels: {app: llm}}
      template: {metadata: {labels: {app: llm}}, spec: {containers: [{name: vllm, image: "vllm/vllm-openai:v0.23.0", args: [--gpu-memory-utilization=0.5], resources: {limits: {nvidia.com/gpu.shared: 1}}}]}}

Quiet (lint): the second waits for the first
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec: {containers: [{name: vllm, image: "vllm/vllm-openai:v0.23.0", args: [--model, m, --gpu-memory-utilization=0.8], resources: {limits: {nvidia.com/gpu.shared: 1}}}]}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: embedder, namespace: rag}
    spec:
      initContainers: [{name: wait-for-llm, image: curlimages/curl, command: [sh, -c, "until curl -sf http://llm:8000/health; do sleep 5; done"]}]
      containers: [{name: tei, image: "ghcr.io/huggingface/text-embeddings-inference:89-1.8", resources: {limits: {nvidia.com/gpu.shared: 1}}}]
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ragstow.rules.demand import Demand, demands
from ragstow.rules.fractions import capped_shares, pinned, reserved
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule

_LARGE = Fraction(4, 5)
_CONTEXT = Fraction(2, 100)
"""Half a GiB of a card of 24 GiB: what a process takes outside its fraction."""


class StartOrderDecides(Rule):
    """See the page above."""

    cause = "start-order-decides"
    severity = "low"
    needs = frozenset({"manifest"})
    asks_cluster = True

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each shared resource whose sharers start in one order only."""
        by_resource: dict[str, list[Demand]] = {}
        sharing = capped_shares(context)
        for demand in demands(context):
            if sharing.shared(context, demand) and demand.resource not in sharing.capped:
                by_resource.setdefault(demand.resource, []).append(demand)
        for resource, members in by_resource.items():
            if any(map(_waits, members)):
                continue
            fractions = sorted(
                ((part, item) for item in members if (part := reserved(item)) is not None for _ in range(item.replicas)),
                key=lambda pair: pair[0],
                reverse=True,
            )[: max(sharing.most.get(resource, 2), 2)]
            free = [item for item in members if reserved(item) is None and not pinned(item)]
            total = sum((part for part, _ in fractions), Fraction(0))
            if total > 1:
                continue  # whatever the order: shared-card-overcommitted
            if fractions and fractions[0][0] >= _LARGE and free:
                first, others = fractions[0], free
            elif len(fractions) > 1 and total + len(fractions) * _CONTEXT > 1:
                first, others = fractions[0], [item for _, item in fractions[1:]]
            else:
                continue
            refs = tuple(dict.fromkeys(ObjectRef.of(item.manifest.object) for item in (first[1], *others)))
            beside = ", ".join(map(str, refs[1:])) or "its other replicas"
            yield self.finding(
                f"{refs[0]} reserves {float(first[0]):.2f} of a card that it shares with {beside}: which of them starts first decides whether all start",
                "vLLM asks for its fraction of the whole card to be free at start; what is outside fractions, and what nothing limits, may be "
                "there already.",
                Fix(
                    "Lower the fraction (or pin --kv-cache-memory-bytes) so that all fit with their contexts, start the largest first, or give "
                    "them MPS shares, MIG slices or whole cards."
                ),
                refs,
                evidence=[
                    Evidence(f"{float(part):.2f}", ObjectRef.of(item.manifest.object), "--gpu-memory-utilization")
                    for part, item in fractions[:3]
                ],
                confidence="possible",
                file=first[1].manifest.file,
                line=first[1].manifest.line(*first[1].spec.path),
            )


def _waits(demand: Demand) -> bool:
    """Whether an init container waits for something: then somebody thought of the order."""
    listed = demand.spec.spec.get("initContainers")
    return any(
        "until " in str(item.get("command")) + str(item.get("args")) or "wait" in str(item.get("name"))
        for item in (listed if isinstance(listed, list) else ())
        if isinstance(item, dict)
    )
