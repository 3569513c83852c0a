"""The cluster as the scheduler's cache holds it: node infos in the scheduler's order, pods on them, and the other objects.

A `World` is the working copy of one simulation: it is made from a frozen `Snapshot` and changes as pods are placed and removed.
It decides nothing. Source of the node order: pkg/scheduler/backend/cache/node_tree.go; finished pods are not seen at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast

from ragstow.cluster.objects import KubeObject, Node, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.scheduling.images import ImageTable
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.release import Release

_ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION_LABELS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Event:
    """A pod came to (+1) or left (-1) a node, by the node's number."""

    pod: PodInfo
    node: int
    delta: int


class World:
    """See the module. `events` lists every change since it was made, for views that follow it.

    Args:
        snapshot: the cluster; its pods with a node (and not finished) run there, others are not part of the world.
        release: decides how pods are summed.
        known: a world of an earlier snapshot and the same release: what was read of pods that are the same is read no more.
    """

    def __init__(self, snapshot: Snapshot, release: Release, known: World | None = None) -> None:
        self.snapshot = snapshot
        self.release = release
        self.nodes: list[NodeInfo] = [NodeInfo(node, index) for index, node in enumerate(tree_order(snapshot.nodes))]
        self._by_name = {info.name: info for info in self.nodes}
        self._priorities: Counter[int] = Counter()
        self.events: list[Event] = []
        self._where: dict[str, tuple[PodInfo, NodeInfo]] = {}
        self._views: dict[Callable[[World], Any], Any] = {}
        for pod in snapshot.pods:
            if pod.node is not None and not pod.finished and pod.node in self._by_name:
                self._put(_read(pod, release, known), self._by_name[pod.node])

    def node(self, name: str) -> NodeInfo | None:
        """A node by name."""
        return self._by_name.get(name)

    def add(self, pod: PodInfo, node: str) -> None:
        """Put a pod on a node; a pod of the same key must not be anywhere."""
        info = self._by_name[node]
        self._put(pod, info)
        self.events.append(Event(pod, info.index, 1))

    def _put(self, pod: PodInfo, info: NodeInfo) -> None:
        if pod.key in self._where:
            raise ValueError(f"{pod.key} is on a node already")
        info.add(pod)
        self._where[pod.key] = (pod, info)
        self._priorities[pod.priority] += 1

    def remove(self, key: str) -> tuple[PodInfo, NodeInfo]:
        """Take a pod off its node; KeyError if it is on none."""
        pod, info = self._where.pop(key)
        info.remove(pod)
        self._priorities[pod.priority] -= 1
        if not self._priorities[pod.priority]:
            del self._priorities[pod.priority]
        self.events.append(Event(pod, info.index, -1))
        return pod, info

    def located(self, key: str) -> tuple[PodInfo, NodeInfo] | None:
        """A placed pod and its node."""
        return self._where.get(key)

    def any_below(self, priority: int) -> bool:
        """Whether any placed pod has a lower priority."""
        return any(known < priority for known in self._priorities)

    @property
    def placed(self) -> Iterable[tuple[PodInfo, NodeInfo]]:
        """All pods on nodes, in the order they came."""
        return self._where.values()

    def pod_info(self, pod: Pod) -> PodInfo:
        """The scheduler's view of a pod that is not placed yet."""
        return PodInfo(pod, self.release)

    def view(self, kind: Callable[[World], V]) -> V:
        """What `kind(world)` makes of the world, made once: plugins of all profiles share it and may change it."""
        if kind not in self._views:
            self._views[kind] = kind(self)
        return cast(V, self._views[kind])

    def objects(self, kind: str, group: str = "") -> tuple[KubeObject, ...]:
        """All objects of a kind, as in the snapshot."""
        return self.snapshot.of(kind, group)

    def get(self, kind: str, name: str, namespace: str = "", group: str = "") -> KubeObject | None:
        """One object, as in the snapshot."""
        return self.snapshot.get(kind, name, namespace, group)

    @cached_property
    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """Namespace -> labels, for those that exist as objects."""
        return {item.name: item.labels for item in self.objects("Namespace")}

    def services(self, namespace: str) -> tuple[Mapping[str, str], ...]:
        """The selectors of a namespace's Services that have one."""
        return self._services.get(namespace, ())

    @cached_property
    def _services(self) -> Mapping[str, tuple[Mapping[str, str], ...]]:
        found: dict[str, tuple[Mapping[str, str], ...]] = {}
        for service in self.objects("Service"):
            selector = (service.raw.get("spec") or {}).get("selector")
            if selector is not None:
                found[service.namespace] = (*found.get(service.namespace, ()), selector)
        return found

    @cached_property
    def images(self) -> ImageTable:
        """Which images lie on which nodes."""
        return ImageTable(self.snapshot.nodes)


def _read(pod: Pod, release: Release, known: World | None) -> PodInfo:
    located = known.located(pod.key) if known is not None else None
    if located is not None and located[0].pod is pod and located[0].release == release:
        return located[0]
    return PodInfo(pod, release)


def zone_key(node: Node) -> str:
    """Region and zone as one key, "" where the node says neither (utilnode.GetZoneKey)."""
    zone = next((node.labels[label] for label in _ZONE_LABELS if label in node.labels), "")
    region = next((node.labels[label] for label in _REGION_LABELS if label in node.labels), "")
    return f"{region}:\0:{zone}" if zone or region else ""


def tree_order(nodes: Iterable[Node]) -> list[Node]:
    """Nodes round robin over zones, zones in order of first appearance, in a zone as listed."""
    zones: dict[str, list[Node]] = {}
    for node in nodes:
        zones.setdefault(zone_key(node), []).append(node)
    deepest = max((len(members) for members in zones.values()), default=0)
    return [members[depth] for depth in range(deepest) for members in zones.values() if depth < len(members)]
