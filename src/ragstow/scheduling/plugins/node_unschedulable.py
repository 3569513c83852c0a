"""NodeUnschedulable: a cordoned node takes no pod that does not tolerate it (plugins/nodeunschedulable)."""

from __future__ import annotations

from ragstow.cluster.objects import Taint
from ragstow.errors import Reason
from ragstow.scheduling.framework import CycleState, FilterPlugin, Status, unresolvable
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.taints import CORDON_KEY, tolerated

_TAINT = Taint(CORDON_KEY, "", "NoSchedule")
_REFUSED = unresolvable("node(s) were unschedulable")


class NodeUnschedulable(FilterPlugin):
    """See the module."""

    name = "NodeUnschedulable"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refused on a cordoned node without a toleration of its taint."""
        return _REFUSED if node.node.unschedulable and not tolerated(_TAINT, pod.pod.tolerations) else None

    def explain(self, state: CycleState, pod: PodInfo, node: NodeInfo, status: Status) -> tuple[Reason, ...]:
        """Who is cordoned and how to undo it."""
        return (Reason("node-cordoned", f"{node.name} is cordoned (spec.unschedulable)", f"kubectl uncordon {node.name}"),)
