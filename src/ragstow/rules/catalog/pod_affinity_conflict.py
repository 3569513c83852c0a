"""Required pod affinity or anti-affinity leaves only nodes without the GPU that the pod asks for.

What
    Every node that offers the GPU refuses the pod only because of pod affinity, anti-affinity (its own or that of pods already
    there) or a hard topology spread.

Why
    "One replica a node" with fewer GPU nodes than replicas, or "beside the model server" where that node's cards are taken, cannot
    be met; the event lists the rule, not the way out.

Fix
    Make the rule preferred, widen its topology key, or give it as many suitable nodes as it wants.

References
    - Kubernetes: inter-pod affinity and anti-affinity; topology spread constraints

Fires: one replica a node, one GPU node
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {kubernetes.io/hostname: gpu-1}}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a, labels: {app: llm}}
    spec: {nodeName: gpu-1, containers: [{name: vllm, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Running}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-1, namespace: rag, uid: b, labels: {app: llm}}
    spec:
      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchLabels: {app: llm}}, topologyKey: kubernetes.io/hostname}]}}
      containers: [{name: vllm, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}

Quiet: the rule is only preferred
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {kubernetes.io/hostname: gpu-1}}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-1, namespace: rag, uid: b, labels: {app: llm}}
    spec:
      nodeName: gpu-1
      affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {labelSelector: {matchLabels: {app: llm}}, topologyKey: kubernetes.io/hostname}}]}}
      containers: [{name: vllm, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]
    status: {phase: Running}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.context import Context
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import FIT, for_work, waiting

_PLUGINS = ("InterPodAffinity", "PodTopologySpread")


class PodAffinityConflict(Rule):
    """See the page above."""

    cause = "pod-affinity-conflict"
    severity = "high"
    needs = frozenset({"snapshot", "events"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload that only such a rule keeps off its GPU nodes."""
        for group in waiting(context):
            if not group.by_default_scheduler or group.verdict.feasible:
                continue
            names = {node.name for node in group.offering}
            nodes = [node for node in context.snapshot.nodes if node.name in names and for_work(context, node.name)]
            blocked = [node for node in nodes if group.only(node, *_PLUGINS)]
            if not blocked:
                if any(group.only(node, FIT) for node in nodes):
                    continue
                blocked = [node for node in nodes if group.only(node, *_PLUGINS, FIT)]
            if not blocked:
                continue
            texts = sorted({text for node in blocked for r in group.refusals(node) if r.plugin in _PLUGINS for text in r.texts})
            yield self.finding(
                f"{group.workload}: a required pod affinity or spread rule leaves no node with its GPU",
                f"{', '.join(node.name for node in blocked[:5])} offer(s) what it asks for and refuse(s): {'; '.join(texts)}.",
                Fix(
                    "Make the rule preferred, widen its topology key, or add nodes so that it can be met.",
                    disruption=f"restarts {group.workload}",
                    check="the pod gets a node",
                ),
                (*group.objects, *map(ObjectRef.of, blocked[:5])),
                evidence=(
                    *group.evidence,
                    *(
                        Evidence("; ".join(r.words or r.texts), ObjectRef.of(node), r.plugin)
                        for node in blocked[:2]
                        for r in group.refusals(node)
                    ),
                ),
                held=group.held,
                since=group.since,
            )
