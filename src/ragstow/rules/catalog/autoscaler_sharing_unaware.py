"""The autoscaler counts physical GPUs and cannot reason about shares.

What
    Pods ask for shares (`nvidia.com/gpu.shared`, or more `nvidia.com/gpu` than cards under time-slicing), and the autoscaler refuses to scale up for
    them although nodes of the group do offer shares once their plugin runs.

Why
    The template of a new node knows the machine's GPUs, not what the plugin will make of them: a renamed resource is unknown to it, and
    replicas are not counted.

Fix
    Declare the shared resource in the node group's template tags (with its number of replicas), or let pods ask for a name that the
    autoscaler knows.

References
    - cluster-autoscaler FAQ: GPU node groups; NVIDIA device plugin: renameByDefault

Fires: nodes offer shares, the template does not
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu.shared: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu.shared: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: holder, namespace: rag, uid: h}
    spec: {nodeName: gpu-1, containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu.shared: 1}, limits: {nvidia.com/gpu.shared: 1}}}]}
    status: {phase: Running}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec: {containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu.shared: 1}, limits: {nvidia.com/gpu.shared: 1}}}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}
    ---
    apiVersion: v1
    kind: Event
    metadata: {name: e, namespace: rag, uid: e}
    involvedObject: {kind: Pod, namespace: rag, name: llm-0}
    reason: NotTriggerScaleUp
    message: "pod didn't trigger scale-up (it wouldn't fit if a new node is added): 1 Insufficient nvidia.com/gpu.shared"

Quiet: whole cards, and the group is at its limit
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
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
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.inventory.model import NodeGpus
from ragstow.rules.context import Context
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.scaling import is_share, refusals


class AutoscalerSharingUnaware(Rule):
    """See the page above."""

    cause = "autoscaler-sharing-unaware"
    severity = "high"
    needs = frozenset({"events", "snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload that waits for shares the autoscaler does not expect on a new node."""
        for refusal in refusals(context):
            resource = refusal.lacking
            nodes = [node for node in context.inventory.nodes if resource in node.resources and _shares(node, str(resource))]
            if resource is None or not context.requests(refusal.group.pod).get(resource) or not (nodes or is_share(resource)):
                continue
            first = nodes[0].name if nodes else ""
            yield self.finding(
                f"{refusal.group.workload}: the autoscaler does not expect shares ({resource}) on a new node",
                (
                    f"Node {first} offers {resource} because its plugin shares the cards"
                    if nodes
                    else f"{resource} is made by sharing cards"
                )
                + "; the template of a new node knows the machine's GPUs only.",
                Fix(
                    f"Declare {resource} with its number of replicas in the node group's template tags, or scale the group by hand.",
                    check="the event becomes TriggeredScaleUp",
                ),
                (*refusal.group.objects, *(ObjectRef("Node", "", node.name) for node in nodes[:2])),
                evidence=(
                    refusal.event.evidence,
                    *(
                        Evidence(
                            str(node.resources[resource].capacity),
                            ObjectRef("Node", "", node.name),
                            f"status.capacity[{resource}]",
                        )
                        for node in nodes[:1]
                    ),
                ),
                held=refusal.group.held,
                since=refusal.group.since,
                confidence="likely",
            )


def _shares(node: NodeGpus, resource: str) -> bool:
    return node.resources[resource].capacity > 0 and (node.sharing in ("time-slicing", "mps") or is_share(resource))
