"""NodePorts: a host port is taken once per address and protocol (plugins/nodeports)."""

from __future__ import annotations

from collections.abc import Sequence

from ragstow.errors import Reason
from ragstow.scheduling.framework import SKIP, CycleState, FilterPlugin, PreFilterPlugin, Status, unschedulable
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo

_REFUSED = unschedulable("node(s) didn't have free ports for the requested pod ports")


class NodePorts(PreFilterPlugin, FilterPlugin):
    """See the module."""

    name = "NodePorts"

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """Skip without host ports."""
        return None if pod.host_ports else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refused where any wanted port is in use."""
        return None if node.port_taken(pod.host_ports) is None else _REFUSED

    def explain(self, state: CycleState, pod: PodInfo, node: NodeInfo, status: Status) -> tuple[Reason, ...]:
        """The port and who holds it."""
        taken = node.port_taken(pod.host_ports)
        if taken is None:
            return super().explain(state, pod, node, status)
        address, protocol, number = taken
        holder = next((other.key for other in node.pods if node_uses(other, taken)), "another pod")
        return (Reason("host-port-taken", f"{node.name}: host port {address}:{number}/{protocol} is held by {holder}"),)


def node_uses(pod: PodInfo, port: tuple[str, str, int]) -> bool:
    """Whether a pod's host ports conflict with `port`."""
    address, protocol, number = port
    return any(
        number == used and protocol == other and (address == at or "0.0.0.0" in (address, at))
        for at, other, used in pod.host_ports
    )
