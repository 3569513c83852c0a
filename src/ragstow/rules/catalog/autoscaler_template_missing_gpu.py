"""Scaling from zero does not work: the autoscaler's template of the node group does not declare the GPU.

What
    The cluster autoscaler says NotTriggerScaleUp with "Insufficient nvidia.com/gpu" while no node offers that resource: it believes
    that a new node of the group would have no GPU. Taints or labels missing from the template look alike.

Why
    With no live node to copy, the autoscaler builds a template from instance data and tags of the group; nothing in there says that
    a device plugin will advertise GPUs later.

Fix
    Tag the group (AWS: k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu, plus label and taint tags), use an autoscaler
    that knows the machine type, or keep one node.

References
    - cluster-autoscaler, AWS: auto-discovery and scaling from 0

Fires: a new node would not fit
    apiVersion: v1
    kind: Node
    metadata: {name: cpu-1, uid: n}
    status: {capacity: {cpu: 2, memory: 8Gi, pods: 29}, allocatable: {cpu: 2, memory: 8Gi, pods: 29}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: nb-0, namespace: rag, uid: a}
    spec: {containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}
    ---
    apiVersion: v1
    kind: Event
    metadata: {name: e, namespace: rag, uid: e}
    involvedObject: {kind: Pod, namespace: rag, name: nb-0}
    reason: NotTriggerScaleUp
    message: "pod didn't trigger scale-up (it wouldn't fit if a new node is added): 2 Insufficient nvidia.com/gpu, 1 max node group size reached"

Quiet: a scale-up was triggered
    apiVersion: v1
    kind: Node
    metadata: {name: cpu-1, uid: n}
    status: {capacity: {cpu: 2, memory: 8Gi, pods: 29}, allocatable: {cpu: 2, memory: 8Gi, pods: 29}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: nb-0, namespace: rag, uid: a}
    spec: {containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}
    ---
    apiVersion: v1
    kind: Event
    metadata: {name: e, namespace: rag, uid: e}
    involvedObject: {kind: Pod, namespace: rag, name: nb-0}
    reason: TriggeredScaleUp
    message: "pod triggered scale-up: [{gpu-group 0->1 (max: 4)}]"
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.context import Context
from ragstow.rules.model import Finding, Fix
from ragstow.rules.rule import Rule
from ragstow.rules.scaling import is_share, refusals


class AutoscalerTemplateMissingGpu(Rule):
    """See the page above."""

    cause = "autoscaler-template-missing-gpu"
    severity = "high"
    needs = frozenset({"events", "snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload for which the autoscaler expects no GPU on a new node."""
        for refusal in refusals(context):
            resource = refusal.lacking
            if resource is None or is_share(resource):
                continue  # shares are the plugin's work: autoscaler-sharing-unaware
            if resource not in refusal.group.wants or _offered(context, resource):
                continue
            yield self.finding(
                f"{refusal.group.workload}: the autoscaler believes that a new node would have no {resource}",
                "No node offers it now, and the template from which the autoscaler judges a new node of the group does not declare it.",
                Fix(
                    "Declare the GPU (and the group's labels and taints) in the node group's template tags, use an autoscaler that knows the "
                    "machine type, or keep one node in the group. For an AWS group that is the tag "
                    f"k8s.io/cluster-autoscaler/node-template/resources/{resource} with the number of GPUs.",
                    check="the event becomes TriggeredScaleUp",
                ),
                refusal.group.objects,
                evidence=(refusal.event.evidence, *refusal.group.evidence),
                held=refusal.group.held,
                since=refusal.group.since,
                confidence="likely",
            )


def _offered(context: Context, resource: str) -> bool:
    return any(resource in node.resources and node.resources[resource].capacity for node in context.inventory.nodes)
