"""One pod asks for more GPUs than any single node has.

What
    The request of a Pending pod is larger than the supply of every node that offers the resource. Under HAMi the number in
    `nvidia.com/gpu` counts distinct physical cards, however many slices a card is cut into.

Why
    A pod runs on one node. Adding nodes of the same size never helps, and the autoscaler stays silent or adds nodes in vain.

Fix
    Ask for what one node has (smaller tensor parallel size), use a larger machine, or spread the engine over several pods.

References
    - Kubernetes: extended resources
    - HAMi documentation: nvidia.com/gpu is the number of physical GPUs

Fires: four cards wanted, two in the largest node
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec: {containers: [{name: vllm, image: i, resources: {requests: {nvidia.com/gpu: 4}, limits: {nvidia.com/gpu: 4}}}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}

Quiet: two wanted, two there
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec: {nodeName: gpu-1, containers: [{name: vllm, image: i, resources: {requests: {nvidia.com/gpu: 2}, limits: {nvidia.com/gpu: 2}}}]}
    status: {phase: Running}

Fires (lint): no node of the cluster has four
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.product: NVIDIA-L4}}
    spec: {taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      selector: {matchLabels: {app: llm}}
      template:
        metadata: {labels: {app: llm}}
        spec: {tolerations: [{key: nvidia.com/gpu, operator: Exists}], containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 4}}}]}

Quiet (lint): two it has
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.product: NVIDIA-L4}}
    spec: {taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      selector: {matchLabels: {app: llm}}
      template:
        metadata: {labels: {app: llm}}
        spec: {tolerations: [{key: nvidia.com/gpu, operator: Exists}], containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 2}}}]}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.inventory.model import NodeGpus
from ragstow.rules.context import Context
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.prospects import in_cluster
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import AFFINITY, waiting


class GpuCountExceedsNode(Rule):
    """See the page above."""

    cause = "gpu-count-exceeds-node"
    severity = "high"
    needs = frozenset({"manifest", "snapshot", "events"})
    asks_cluster = True

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload whose request no node could ever meet."""
        for group in waiting(context):
            for resource, count in group.wants.items():
                chosen = tuple(node for node in group.offering if AFFINITY not in {r.plugin for r in group.refusals(node)})
                offering = chosen or group.offering
                most = max((_supply(node, resource) for node in offering), default=0)
                if not offering or count <= most or len(group.wants) != 1:
                    continue
                largest = [node for node in offering if _supply(node, resource) == most]
                hami = all(node.sharing == "hami" for node in largest)
                unit = "physical cards" if hami else resource
                yield self.finding(
                    f"{group.workload} asks for {count} {resource} in one pod; the largest node has {most}",
                    (
                        f"Under HAMi {resource} counts distinct physical cards, and the shares of one card cannot be combined: the node "
                        f"has {most} card(s)."
                        if hami
                        else f"A pod runs on one node, and no node offers more than {most} {unit}."
                    ),
                    Fix(
                        f"Ask for at most {most} {resource}"
                        + (
                            " and say with gpumem and gpucores how much of the card"
                            if hami
                            else " (a smaller tensor parallel size), or use a larger machine"
                        )
                        + ".",
                        disruption=f"restarts {group.workload}",
                        check="the pod gets a node",
                    ),
                    (*group.objects, *(ObjectRef("Node", "", node.name) for node in largest[:3])),
                    evidence=(
                        *group.evidence,
                        Evidence(str(count), ObjectRef.of(group.pod), f"spec.containers[*].resources.limits[{resource}]"),
                        *(Evidence(str(most), ObjectRef("Node", "", node.name), f"{unit} of the node") for node in largest[:2]),
                    ),
                    held=group.held,
                    since=group.since,
                )

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """The same for pods that these manifests would make, against the cluster."""
        yield from in_cluster(context, self.diagnose)


def _supply(node: NodeGpus, resource: str) -> int:
    return node.cards if node.sharing == "hami" else node.resources[resource].capacity
