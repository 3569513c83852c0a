"""Which pods are expected on which node: nominated by preemption, or in a pod's status (backend/queue/nominator.go)."""

from __future__ import annotations

from collections.abc import Sequence

from ragstow.scheduling.podinfo import PodInfo


class Nominations:
    """Pods by nominated node, in the order they were nominated. A pod is nominated to one node at most."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._where: dict[str, str] = {}

    def put(self, pod: PodInfo, node: str) -> None:
        """Nominate; an earlier nomination of the pod ends."""
        self.drop(pod.key)
        self._by_node.setdefault(node, {})[pod.key] = pod
        self._where[pod.key] = node

    def drop(self, key: str) -> None:
        """End a pod's nomination, if it has one."""
        node = self._where.pop(key, None)
        if node is not None:
            del self._by_node[node][key]

    def on(self, node: str) -> Sequence[PodInfo]:
        """The pods nominated to a node."""
        found = self._by_node.get(node)
        return tuple(found.values()) if found else ()

    def nodes(self) -> Sequence[str]:
        """Nodes that pods are nominated to."""
        return [node for node, pods in self._by_node.items() if pods]

    def __len__(self) -> int:
        return len(self._where)
