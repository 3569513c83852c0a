"""Pods wait for nodes that take none now: cordoned, not ready, or out of disk, memory or processes.

What
    A Pending pod that a node would take but for its cordon (`spec.unschedulable`) or a taint that the control plane sets by the
    node's condition (`node.kubernetes.io/not-ready`, `unreachable`, `disk-pressure`, ...), while no other node takes it.

Why
    A cordoned node is no fault in itself, and nothing is said about one that nobody waits for. But a drain that was never ended
    looks like a shortage: the free GPUs of that node are counted by nobody, and the autoscaler may buy another node.

Fix
    `kubectl uncordon` the node when the maintenance is over; mend the node whose condition is bad. A toleration of such a taint
    is not what is missing: the kubelet would refuse or lose the pod.

References
    - Kubernetes: safely drain a node
    - Kubernetes: taints and tolerations, taint nodes by condition

Fires: the only GPU node is cordoned
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec: {containers: [{name: vllm, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}

Fires: the kubelet of the only GPU node does not answer
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    spec: {taints: [{key: node.kubernetes.io/unreachable, effect: NoSchedule}, {key: node.kubernetes.io/unreachable, effect: NoExecute}]}
    status:
      conditions: [{type: Ready, status: Unknown, reason: NodeStatusUnknown, message: Kubelet stopped posting node status.}]
      capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}
      allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec: {containers: [{name: vllm, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}

Quiet: cordoned, and nobody waits for it
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec: {nodeName: gpu-1, containers: [{name: vllm, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Running}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.cluster.objects import Node
from ragstow.rules.context import Context
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.taints import stuck_taints
from ragstow.rules.waiting import Waiting, out_of_service, waiting


class NodeOutOfService(Rule):
    """See the page above."""

    cause = "node-out-of-service"
    severity = "high"
    needs = frozenset({"snapshot", "events"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each set of nodes out of service, with every workload that waits for them."""
        by_nodes: dict[tuple[str, ...], tuple[list[Node], list[Waiting]]] = {}
        for group in waiting(context):
            nodes = out_of_service(context, group)
            if nodes:
                by_nodes.setdefault(tuple(node.name for node in nodes), (nodes, []))[1].append(group)
        for nodes, groups in by_nodes.values():
            yield self._finding(nodes, groups)

    def _finding(self, nodes: list[Node], groups: list[Waiting]) -> Finding:
        states = {node.name: _state(node) for node in nodes}
        pods = [key for group in groups for key in group.held]
        shown = ", ".join(f"{name} ({state})" for name, state in list(states.items())[:5])
        cordoned = [node.name for node in nodes if states[node.name] == "cordoned"]
        sick = [node.name for node in nodes if node.name not in cordoned]
        words = []
        if cordoned:
            words.append(f"Uncordon {', '.join(cordoned[:5])} when the maintenance is over.")
        if sick:
            words.append(f"Mend {', '.join(sick[:5])}: its conditions say what is wrong.")
        return self.finding(
            f"{len(nodes)} node(s) that would take them are out of service: {len(pods)} pod(s) wait",
            f"Nothing else stands in the way on {shown}, and no other node takes "
            + ("the pod." if len(pods) == 1 else "the pods."),
            Fix(
                " ".join(words),
                command=f"kubectl uncordon {' '.join(cordoned[:5])}" if cordoned else f"kubectl describe node {sick[0]}",
                check="the pod gets a node",
            ),
            (*map(ObjectRef.of, nodes[:10]), *(ref for group in groups for ref in group.objects)),
            evidence=(
                *(entry for group in groups for entry in group.evidence[:1]),
                *(_evidence(node) for node in nodes[:3]),
            ),
            held=pods,
            since=min((group.since for group in groups if group.since), default=None),
        )


def _state(node: Node) -> str:
    sick = sorted({key.rpartition("/")[2] for key in stuck_taints(node)} - {"unschedulable"})
    return ", ".join(sick) or "cordoned"


def _evidence(node: Node) -> Evidence:
    ref = ObjectRef.of(node)
    for condition in node.status.get("conditions") or ():
        if isinstance(condition, dict) and condition.get("type") == "Ready" and condition.get("status") != "True":
            said = condition.get("message") or condition.get("reason") or ""
            return Evidence(f"{condition.get('status')} {said}".strip(), ref, "status.conditions[Ready]")
    if node.unschedulable:
        return Evidence("true", ref, "spec.unschedulable")
    return Evidence(", ".join(stuck_taints(node)), ref, "spec.taints")
