"""Limits of a node pool or group forbid another GPU node.

What
    The autoscaler refuses to add a node because the group is at its maximum, a NodePool's limits (GPUs, CPU, memory) are used up, the
    cloud has no such machines, or the account's quota is.

Why
    Pods wait although a suitable node could exist; the scheduler's own event only says that GPUs are lacking.

Fix
    Raise the maximum or the NodePool's limits, ask the cloud for quota, allow another machine type or zone, or free GPUs.

References
    - cluster-autoscaler FAQ: events; Karpenter: NodePool limits

Fires: the group is at its maximum
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: holder, namespace: rag, uid: h}
    spec: {nodeName: gpu-1, containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Running}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec: {containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}
    ---
    apiVersion: v1
    kind: Event
    metadata: {name: e, namespace: rag, uid: e}
    involvedObject: {kind: Pod, namespace: rag, name: llm-0}
    reason: NotTriggerScaleUp
    message: "pod didn't trigger scale-up: 1 max node group size reached"

Quiet: nothing waits
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.context import Context
from ragstow.rules.model import Finding, Fix
from ragstow.rules.rule import Rule
from ragstow.rules.scaling import refusals


class NodepoolLimit(Rule):
    """See the page above."""

    cause = "nodepool-limit"
    severity = "high"
    needs = frozenset({"events"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload for which a limit stops the autoscaler."""
        for refusal in refusals(context):
            if refusal.limit is None or not refusal.group.wants:
                continue
            yield self.finding(
                f"{refusal.group.workload}: a limit stops the autoscaler from adding a node ({refusal.limit})",
                f"It says: {refusal.event.message}",
                Fix(
                    "Raise the maximum of the group or the NodePool's limits, get quota, allow another machine type or zone, or free GPUs.",
                    check="the event becomes TriggeredScaleUp, a new node joins",
                ),
                refusal.group.objects,
                evidence=(refusal.event.evidence, *refusal.group.evidence),
                held=refusal.group.held,
                since=refusal.group.since,
            )
