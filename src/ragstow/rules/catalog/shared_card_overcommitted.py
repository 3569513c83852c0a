"""Engines on shares of one card reserve together more than the card has.

What
    Workloads ask for shares (nvidia.com/gpu.shared, or a resource whose configuration in the manifests or cluster is time-sliced), and as
    many of them as fit on one card reserve, by --gpu-memory-utilization (0.9 where vLLM is given none) or --kv-cache-memory-bytes, more
    than the whole card.

Why
    Time-slicing caps no memory. vLLM takes its fraction of the card's total memory and requires it to be free at start: the second one
    fails with "Free memory on device … is less than desired GPU memory utilization", or a neighbour runs out of memory later.

Fix
    Fractions (or pinned bytes) that add up to less than 1 over the shares of a card; MPS or MIG where memory must be capped.

References
    - vLLM documentation: gpu_memory_utilization, kv_cache_memory_bytes
    - NVIDIA device plugin: time-slicing has no memory isolation

Fires (lint): two replicas with the default fraction
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      replicas: 2
      selector: {matchLabels: {app: llm}}
      template: {metadata: {labels: {app: llm}}, spec: {containers: [{name: vllm, image: "vllm/vllm-openai:v0.23.0", args: [--model, m], resources: {limits: {nvidia.com/gpu.shared: 1}}}]}}

Quiet (lint): two with 0.45
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      replicas: 2
      selector: {matchLabels: {app: llm}}
      template: {metadata: {labels: {app: llm}}, spec: {containers: [{name: vllm, image: "vllm/vllm-openai:v0.23.0", args: [--gpu-memory-utilization=0.45], resources: {limits: {nvidia.com/gpu.shared: 1}}}]}}

Fires (lint): two services on the cluster's time-sliced cards
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.product: NVIDIA-L4-SHARED, nvidia.com/gpu.count: "1", nvidia.com/gpu.replicas: "4", nvidia.com/gpu.sharing-strategy: time-slicing}}
    status: {capacity: {nvidia.com/gpu: 4}, allocatable: {nvidia.com/gpu: 4}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec: {containers: [{name: vllm, image: "vllm/vllm-openai:v0.23.0", args: [--gpu-memory-utilization=0.6], resources: {limits: {nvidia.com/gpu: 1}}}]}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: b, namespace: rag}
    spec: {containers: [{name: vllm, image: "vllm/vllm-openai:v0.23.0", args: [--gpu-memory-utilization=0.5], resources: {limits: {nvidia.com/gpu: 1}}}]}

Quiet (lint): whole cards
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      replicas: 2
      selector: {matchLabels: {app: llm}}
      template: {metadata: {labels: {app: llm}}, spec: {containers: [{name: vllm, image: "vllm/vllm-openai:v0.23.0", resources: {limits: {nvidia.com/gpu: 1}}}]}}
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ragstow.rules.demand import Demand, demands
from ragstow.rules.engines import MEMORY_FRACTION
from ragstow.rules.fractions import capped_shares, reserved
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule


class SharedCardOvercommitted(Rule):
    """See the page above."""

    cause = "shared-card-overcommitted"
    severity = "medium"
    needs = frozenset({"manifest"})
    asks_cluster = True

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each shared resource whose sharers add up to more than a card."""
        by_resource: dict[str, list[tuple[Fraction, Demand]]] = {}
        sharing = capped_shares(context)
        for demand in demands(context):
            fraction = reserved(demand)
            if fraction is not None and sharing.shared(context, demand) and demand.resource not in sharing.capped:
                by_resource.setdefault(demand.resource, []).extend([(fraction, demand)] * demand.replicas)
        for resource, members in by_resource.items():
            largest = sorted(members, key=lambda item: item[0], reverse=True)[: max(sharing.most.get(resource, 2), 2)]
            total = sum((fraction for fraction, _ in largest), Fraction(0))
            if len(largest) < 2 or total <= 1:
                continue
            involved = list({id(demand.manifest): demand for _, demand in largest}.values())
            refs = [ObjectRef.of(demand.manifest.object) for demand in involved]
            shown = " + ".join(f"{float(fraction):.2f}" for fraction, _ in largest)
            yield self.finding(
                f"sharers of {resource} reserve {float(total):.2f} of one card's memory when they meet on it: {', '.join(map(str, refs))}",
                f"{shown}, by their memory fraction. Which share is on which card is the kubelet's choice, and time-slicing caps nothing.",
                Fix(
                    "Give them fractions (or --kv-cache-memory-bytes) that add up to less than 1, or MPS shares, MIG slices, whole cards."
                ),
                refs,
                evidence=[
                    Evidence(f"{float(fraction):.2f}", ObjectRef.of(demand.manifest.object), MEMORY_FRACTION[0])
                    for fraction, demand in largest[:4]
                ],
                confidence="likely",
                file=involved[0].manifest.file,
                line=involved[0].manifest.line(*involved[0].spec.path),
            )
