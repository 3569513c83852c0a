"""Pods that name their node (spec.nodeName): no scheduler looks at them; what the node's kubelet says on its own.

Source: pkg/kubelet/lifecycle/predicate.go (generalFilter): resources, affinity, host ports, NoExecute taints, in that order.
Taints of effect NoSchedule and a cordon do not count. An extended resource that the node does not know is left out: the pod
runs without it.
"""

from __future__ import annotations

from ragstow.errors import Reason
from ragstow.scheduling.amounts import is_extended
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.plugins.node_affinity import required_matches
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.taints import tolerated

_FIRST = ("cpu", "memory", "ephemeral-storage")


def refusal(pod: PodInfo, node: NodeInfo) -> tuple[str, str] | None:
    """Reason and message of the event with which the kubelet rejects the pod; None where it takes it.

    Args:
        pod: not among the node's pods.
        node: the node that it names.
    """
    if len(node.pods) + 1 > node.max_pods:
        return _out_of("pods", 1, len(node.pods), node.max_pods)
    asked = pod.sums.plain
    others = sorted(name for name in asked if name not in _FIRST and not (is_extended(name) and name not in node.allocatable))
    for name in (*_FIRST, *others):
        if asked.get(name, 0) > max(node.free(name), 0):
            return _out_of(name, asked[name], node.requested.get(name, 0), node.allocatable.get(name, 0))
    if not required_matches(pod, node):
        return _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if node.port_taken(pod.host_ports) is not None:
        return _failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    if any(taint.effect == "NoExecute" and not tolerated(taint, pod.pod.tolerations) for taint in node.node.taints):
        return _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def warnings(pod: PodInfo, node: NodeInfo) -> list[Reason]:
    """What goes wrong although the node takes the pod: resources it does not know, and claims that only a scheduler serves."""
    found = []
    for name in sorted(pod.sums.plain):
        if is_extended(name) and name not in node.allocatable:
            text = f"{pod.key}: {node.name} does not know {name}, so its kubelet takes the pod, which runs without it"
            found.append(Reason("device-ignored", text, "leave spec.nodeName out, or name a node that offers it"))
    if pod.pod.spec.get("resourceClaims"):
        text = f"{pod.key} names its node, so no scheduler allocates devices for its claims and its containers never start"
        found.append(Reason("claims-without-scheduler", text, "leave spec.nodeName out"))
    return found


def no_such_node(pod: PodInfo, known: tuple[str, ...]) -> Reason:
    """Why a pod that names a node which does not exist never runs."""
    names = f"one of {', '.join(known[:5])}" if known else ""
    return Reason(
        "no-such-node",
        f'spec.nodeName: there is no node "{pod.pod.node}"; the pod stays Pending until pod garbage collection deletes it',
        names,
    )


def _out_of(name: str, requested: int, used: int, capacity: int) -> tuple[str, str]:
    text = f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
    return f"OutOf{name}", text


def _failed(plugin: str, text: str) -> tuple[str, str]:
    return plugin, f"Predicate {plugin} failed: {text}"
