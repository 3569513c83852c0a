"""A workload, or the autoscaler of one, wants more GPU slots than the nodes that it may use have in all.

What
    Against a cluster: replicas (parallelism of a Job, maxReplicas of a HorizontalPodAutoscaler, maxReplicaCount of a KEDA ScaledObject)
    times the GPUs of a pod exceed the allocatable slots of the nodes that match the pod's selector.

Why
    The pods above that number stay Pending whatever else ends. Where nodes are added by an autoscaler that may be meant: the rule is then
    quiet if the cluster shows one.

Fix
    Ask for less, add nodes, or make more slots of the cards that are there.

References
    - Kubernetes: extended resources are never overcommitted

Fires (lint): three replicas, two cards
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}}
    ---
    apiVersion: apps/v1
    kind: StatefulSet
    metadata: {name: llm, namespace: rag}
    spec:
      replicas: 3
      selector: {matchLabels: {app: llm}}
      template: {metadata: {labels: {app: llm}}, spec: {containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}]}}

Quiet (lint): two replicas
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}}
    ---
    apiVersion: apps/v1
    kind: StatefulSet
    metadata: {name: llm, namespace: rag}
    spec:
      replicas: 2
      selector: {matchLabels: {app: llm}}
      template: {metadata: {labels: {app: llm}}, spec: {containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}]}}

Fires (lint): an autoscaler up to eight
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      selector: {matchLabels: {app: llm}}
      template: {metadata: {labels: {app: llm}}, spec: {containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}]}}
    ---
    apiVersion: autoscaling/v2
    kind: HorizontalPodAutoscaler
    metadata: {name: llm, namespace: rag}
    spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: llm}, minReplicas: 1, maxReplicas: 8}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.rules.demand import Demand, demands, supply
from ragstow.rules.manifests import LintContext, Manifest
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule

_SCALERS: Mapping[str, tuple[str, str]] = {
    "HorizontalPodAutoscaler": ("maxReplicas", ""),
    "ScaledObject": ("maxReplicaCount", "100"),
}
"""Kind -> (field of the largest number, its default where there is one)."""


class ReplicasBeyondSupply(Rule):
    """See the page above."""

    cause = "replicas-beyond-supply"
    severity = "medium"
    needs = frozenset({"manifest", "snapshot"})
    asks_cluster = True

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each workload or autoscaler that can never have all its pods."""
        if context.cluster is None or context.cluster.stack.workloads("autoscaler"):
            return
        for demand in demands(context):
            known = supply(context, demand)
            if known is None or demand.count > known.total:
                continue  # a single pod that fits nowhere is another matter
            asked: list[tuple[Manifest, int, str]] = [(demand.manifest, demand.replicas, "spec.replicas")]
            asked += [found for manifest in context.of(*_SCALERS) if (found := _scaler(manifest, demand)) is not None]
            for manifest, pods, field in asked:
                if pods * demand.count <= known.total:
                    continue
                ref = ObjectRef.of(manifest.object)
                yield self.finding(
                    f"{ref} wants up to {pods} pods of {demand.count} {demand.resource}; {', '.join(known.nodes[:5])} have {known.total} in all",
                    f"{pods - known.total // demand.count} of them would stay Pending whatever else ends.",
                    Fix("Ask for fewer, add nodes, or make more slots of the cards that are there (MIG, MPS, time-slicing)."),
                    (ref, *(ObjectRef("Node", "", name) for name in known.nodes[:5])),
                    evidence=(Evidence(str(pods), ref, field),),
                    severity="medium" if manifest is demand.manifest and manifest.object.kind != "Job" else "low",
                    file=manifest.file,
                    line=manifest.line(*field.split(".")),
                )


def _scaler(manifest: Manifest, demand: Demand) -> tuple[Manifest, int, str] | None:
    spec: Mapping[str, Any] = manifest.object.raw.get("spec") or {}
    target: Mapping[str, Any] = spec.get("scaleTargetRef") or {}
    item = demand.manifest.object
    if target.get("name") != item.name or str(target.get("kind") or "Deployment") != item.kind:
        return None
    if manifest.object.namespace != item.namespace:
        return None
    field, default = _SCALERS[manifest.object.kind]
    value = spec.get(field, default)
    return (manifest, int(value), f"spec.{field}") if str(value).isdecimal() else None
