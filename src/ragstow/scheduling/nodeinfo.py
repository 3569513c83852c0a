"""A node as the scheduler's cache keeps it: the node, the pods on it and their sums.

A `NodeInfo` changes only through `add` and `remove`; `generation` grows with each change. Source: framework/types.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from ragstow.cluster.objects import Node
from ragstow.scheduling.amounts import is_known
from ragstow.scheduling.podinfo import HostPort, PodInfo

EVERY_ADDRESS = "0.0.0.0"


class NodeInfo:
    """See the module. `requested` holds plain sums (cpu in millicores), `non_zero_*` the sums with defaults for scoring."""

    __slots__ = (
        "affinity_pods",
        "allocatable",
        "anti_affinity_pods",
        "generation",
        "index",
        "labels",
        "max_pods",
        "name",
        "node",
        "non_zero_cpu_milli",
        "non_zero_memory_bytes",
        "pods",
        "ports",
        "requested",
    )  # fmt: skip

    def __init__(self, node: Node, index: int = -1) -> None:
        self.node = node
        self.name = node.name
        self.labels = node.labels
        self.index = index
        self.allocatable = {name: amount for name, amount in node.allocatable.items() if is_known(name)}
        self.max_pods = node.allocatable.get("pods", 0)
        self.pods: list[PodInfo] = []
        self.affinity_pods: list[PodInfo] = []
        self.anti_affinity_pods: list[PodInfo] = []
        self.requested: dict[str, int] = {}
        self.non_zero_cpu_milli = 0
        self.non_zero_memory_bytes = 0
        self.ports: dict[HostPort, int] = {}
        self.generation = 0

    def __repr__(self) -> str:
        return f"NodeInfo({self.name}, {len(self.pods)} pods)"

    def add(self, pod: PodInfo) -> None:
        """The pod now runs (or is assumed) here."""
        self.pods.append(pod)
        if pod.has_affinity:
            self.affinity_pods.append(pod)
            if pod.required_anti_affinity:
                self.anti_affinity_pods.append(pod)
        self._count(pod, 1)

    def remove(self, pod: PodInfo) -> None:
        """The pod is gone; ValueError if it was not here."""
        self.pods.remove(pod)
        if pod.has_affinity:
            self.affinity_pods.remove(pod)
            if pod.required_anti_affinity:
                self.anti_affinity_pods.remove(pod)
        self._count(pod, -1)

    def _count(self, pod: PodInfo, sign: int) -> None:
        sums, requested = pod.sums, self.requested
        for name, amount in sums.plain.items():
            requested[name] = requested.get(name, 0) + sign * amount
        self.non_zero_cpu_milli += sign * sums.non_zero_cpu_milli
        self.non_zero_memory_bytes += sign * sums.non_zero_memory_bytes
        for port in pod.host_ports:
            left = self.ports.get(port, 0) + sign
            if left > 0:
                self.ports[port] = left
            else:
                self.ports.pop(port, None)
        self.generation += 1

    def clone(self) -> NodeInfo:
        """A copy that may change without this one changing."""
        copy = NodeInfo.__new__(NodeInfo)
        copy.node, copy.name, copy.labels, copy.index = self.node, self.name, self.labels, self.index
        copy.allocatable, copy.max_pods = self.allocatable, self.max_pods
        copy.pods, copy.affinity_pods = list(self.pods), list(self.affinity_pods)
        copy.anti_affinity_pods, copy.requested = list(self.anti_affinity_pods), dict(self.requested)
        copy.non_zero_cpu_milli, copy.non_zero_memory_bytes = self.non_zero_cpu_milli, self.non_zero_memory_bytes
        copy.ports, copy.generation = dict(self.ports), self.generation
        return copy

    def free(self, resource: str) -> int:
        """Allocatable minus requested; may be negative."""
        return self.allocatable.get(resource, 0) - self.requested.get(resource, 0)

    def port_taken(self, wanted: Iterable[HostPort]) -> HostPort | None:
        """The first wanted port that conflicts with one in use (HostPortInfo.CheckConflict), or None."""
        for address, protocol, number in wanted:
            for other, used_protocol, used in self.ports:
                if number == used and protocol == used_protocol and (address == other or EVERY_ADDRESS in (address, other)):
                    return (address, protocol, number)
        return None
