"""A label that a scheduler or selector needs is absent on a GPU node.

What
    A pod selects or is scheduled by a GPU label (`nvidia.com/gpu.memory`, `nvidia.com/gpu.product` and the like) that GPU nodes do not
    have at all: feature discovery is not installed, was kept off the node, or could not read the value (unified memory).

Why
    KAI turns `gpu-memory` into a fraction by the label nvidia.com/gpu.memory: without it a node counts as having no GPU memory. A
    nodeSelector on a label that nobody sets never matches.

Fix
    Install GPU feature discovery (chart value gfd.enabled), or set the label by hand; with KAI use gpu-fraction on such cards.

References
    - GPU feature discovery: labels; KAI scheduler: GPU sharing

Fires: KAI knows no memory of the node
    apiVersion: v1
    kind: Node
    metadata: {name: gb-1, uid: n, labels: {nvidia.com/gpu.present: "true", nvidia.com/gpu.product: NVIDIA-GB10, nvidia.com/gpu.count: "1"}}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a, labels: {kai.scheduler/queue: q}, annotations: {gpu-memory: "4096"}}
    spec: {schedulerName: kai-scheduler, containers: [{name: c, image: i}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}

Fires: a selector on a label that GPU nodes lack
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.present: "true"}}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
      containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}

Quiet: the labels are there
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.present: "true", nvidia.com/gpu.product: NVIDIA-L4, nvidia.com/gpu.memory: "23034"}}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec:
      nodeName: gpu-1
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
      containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]
    status: {phase: Running}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.cluster.objects import Node
from ragstow.rules.context import Context
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.selection import indispensable, wanted_values
from ragstow.rules.waiting import AFFINITY, GPU_LABELS, Waiting, gpu_nodes, waiting

_MEMORY = "nvidia.com/gpu.memory"
_DISCOVERED = (
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.memory",
    "nvidia.com/gpu.family",
    "nvidia.com/gpu.compute",
    "nvidia.com/gpu.count",
)
"""How labels begin that only feature discovery sets."""


class GpuLabelMissing(Rule):
    """See the page above."""

    cause = "gpu-label-missing"
    severity = "medium"
    needs = frozenset({"snapshot", "events"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload and label."""
        nodes = [node for item in gpu_nodes(context) if isinstance(node := context.snapshot.get("Node", item.name), Node)]
        for group in waiting(context):
            key = self._needed(group, nodes)
            bare = [node for node in nodes if not node.labels.get(key) or node.labels.get(key) == "0"] if key else []
            if not key or not bare or len(bare) < len(nodes):
                yield from self._passed_over(context, group, nodes)
                continue
            yield self.finding(
                f"{group.workload} depends on label {key}, which no GPU node carries",
                f"{len(bare)} GPU node(s) lack it ({', '.join(node.name for node in bare[:5])}): feature discovery does not run there or could "
                "not read the value.",
                Fix(
                    "Install GPU feature discovery, or set the label by hand"
                    + ("; on cards without a memory figure use gpu-fraction instead of gpu-memory." if key == _MEMORY else "."),
                    command=f"kubectl label node {bare[0].name} {key}=<value>",
                    check="the pod gets a node",
                ),
                (*group.objects, *map(ObjectRef.of, bare[:5])),
                evidence=(
                    *group.evidence,
                    *(
                        Evidence(node.labels.get(key, "(absent)"), ObjectRef.of(node), f"metadata.labels[{key}]")
                        for node in bare[:3]
                    ),
                    *(
                        Evidence(
                            group.pod.annotations["gpu-memory"], ObjectRef.of(group.pod), "metadata.annotations[gpu-memory]"
                        )
                        for _ in (1,)
                        if "gpu-memory" in group.pod.annotations
                    ),
                ),
                held=group.held,
                since=group.since,
            )

    def _passed_over(self, context: Context, group: Waiting, nodes: list[Node]) -> Iterator[Finding]:
        """A node with free GPUs that feature discovery has not labelled, while the nodes that it has labelled are full."""
        if not group.by_default_scheduler or group.verdict.feasible or not group.wants:
            return
        known = {key for node in nodes for key in node.labels if key.startswith(_DISCOVERED)}
        keys = [key for key in wanted_values(group.pod.spec) if key in known]
        bare = [
            node
            for node in nodes
            if keys
            and group.only(node, AFFINITY)
            and not any(key.startswith(_DISCOVERED) for key in node.labels)
            and all(
                (use := context.inventory.node(node.name).resources.get(name)) is not None and use.free >= count
                for name, count in group.wants.items()
            )
        ]
        if not bare:
            return
        yield self.finding(
            f"{group.workload} selects by {keys[0]}, which GPU node(s) {', '.join(node.name for node in bare[:5])} with free GPUs lack",
            "Feature discovery has labelled other nodes and not these, so that the scheduler cannot see what their cards are.",
            Fix(
                "Let GPU feature discovery run there (taints, selectors of its DaemonSet), or set the label by hand.",
                command=f"kubectl label node {bare[0].name} {keys[0]}=<value>",
                check="the pod gets a node, if the cards are those that it asks for",
            ),
            (*group.objects, *map(ObjectRef.of, bare[:5])),
            evidence=(
                *group.evidence,
                *(Evidence("(absent)", ObjectRef.of(node), f"metadata.labels[{keys[0]}]") for node in bare[:3]),
            ),
            held=group.held,
            since=group.since,
            confidence="likely",
            severity="high",
        )

    def _needed(self, group: Waiting, nodes: list[Node]) -> str:
        """The label that the pod cannot do without; "" where it depends on none."""
        if "kai" in group.pod.scheduler and "gpu-memory" in group.pod.annotations:
            return _MEMORY
        if not group.by_default_scheduler or group.verdict.feasible:
            return ""
        if not any(AFFINITY in group.plugins(node) for node in nodes):
            return ""
        present = {key for node in nodes for key in node.labels}
        return next((key for key in indispensable(group.pod.spec, present) if key.startswith(GPU_LABELS)), "")
