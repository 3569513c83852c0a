"""NodeName: a pod that names its node goes nowhere else (plugins/nodename)."""

from __future__ import annotations

from ragstow.errors import Reason
from ragstow.scheduling.framework import CycleState, FilterPlugin, Status, unresolvable
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo

_REFUSED = unresolvable("node(s) didn't match the requested node name")


class NodeName(FilterPlugin):
    """See the module."""

    name = "NodeName"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refused where spec.nodeName is another node."""
        return None if pod.pod.node in (None, node.name) else _REFUSED

    def explain(self, state: CycleState, pod: PodInfo, node: NodeInfo, status: Status) -> tuple[Reason, ...]:
        """The name that the pod asks for."""
        return (Reason("node-name", f"{pod.key} asks for node {pod.pod.node}, this is {node.name}"),)
