"""Columns over the nodes of a world, kept up to date from the world's events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.world import World

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]

MISSING = -1


class Domains:
    """The values of one node label as numbers: `ids` per node (MISSING where the label is absent), number 0 is the value ""."""

    def __init__(self, nodes: Iterable[NodeInfo], key: str) -> None:
        numbers: dict[str, int] = {"": 0}
        found = []
        for node in nodes:
            value = node.labels.get(key)
            found.append(MISSING if value is None else numbers.setdefault(value, len(numbers)))
        self.ids: Ints = np.array(found, dtype=np.int64)
        self.present: Bools = self.ids >= 0
        self.count = len(numbers)
        self.or_empty: Ints = np.maximum(self.ids, 0)
        """The ids with absent labels read as the value ""."""

    def sums(self, weights: Ints, where: Bools | None = None) -> Ints:
        """The sum of `weights` per value, over nodes that have the label (and are in `where`)."""
        chosen = self.present if where is None else self.present & where
        return np.bincount(self.ids[chosen], weights=weights[chosen], minlength=self.count).astype(np.int64)


class NodeArrays:
    """See the module. Call `refresh` before reading; columns of resources are made when first asked for."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.nodes = world.nodes
        self.count = len(world.nodes)
        self.names = [node.name for node in world.nodes]
        order = sorted(range(self.count), key=lambda i: self.names[i])
        self.rank: Ints = np.empty(self.count, dtype=np.int64)
        self.rank[order] = np.arange(self.count)
        self._allocatable: dict[str, Ints] = {}
        self._live: list[tuple[Ints, Callable[[NodeInfo], int]]] = []
        self._requested: dict[str, Ints] = {}
        self._domains: dict[str, Domains] = {}
        self.seen = self._first = len(world.events)
        self._changed: list[int] = []
        self._free: dict[str, Ints] = {}
        self.room = self._watch(lambda node: node.max_pods - len(node.pods))
        self.non_zero_cpu = self._watch(lambda node: node.non_zero_cpu_milli)
        self.non_zero_memory = self._watch(lambda node: node.non_zero_memory_bytes)

    def _column(self, value: Callable[[NodeInfo], int]) -> Ints:
        return np.fromiter((value(node) for node in self.nodes), dtype=np.int64, count=self.count)

    def _watch(self, value: Callable[[NodeInfo], int]) -> Ints:
        column = self._column(value)
        self._live.append((column, value))
        return column

    def refresh(self) -> None:
        """Bring the columns up to date with the world."""
        events = self.world.events
        if self.seen == len(events):
            return
        for event in events[self.seen :]:
            self._changed.append(event.node)
        for index in set(self._changed[self.seen - self._first :]):
            node = self.nodes[index]
            for column, value in self._live:
                column[index] = value(node)
        self.seen = len(events)

    def changed_since(self, seen: int) -> Ints | slice | None:
        """The nodes that changed since the world had `seen` events, some perhaps twice; all where those are most; or None."""
        if seen == self.seen:
            return None
        if 2 * (self.seen - seen) > self.count:
            return slice(None)
        return np.array(self._changed[seen - self._first :], dtype=np.int64)

    def allocatable(self, resource: str) -> Ints:
        """What the nodes offer of a resource."""
        column = self._allocatable.get(resource)
        if column is None:
            column = self._allocatable[resource] = self._column(lambda node: node.allocatable.get(resource, 0))
        return column

    def requested(self, resource: str) -> Ints:
        """What is requested of a resource (plain sums)."""
        column = self._requested.get(resource)
        if column is None:
            self.refresh()
            column = self._requested[resource] = self._watch(lambda node: node.requested.get(resource, 0))
        return column

    def free(self, resource: str) -> Ints:
        """What is left of a resource: allocatable minus plain sums."""
        column = self._free.get(resource)
        if column is None:
            self.refresh()
            column = self._free[resource] = self._watch(lambda node: node.free(resource))
        return column

    def domains(self, key: str) -> Domains:
        """The values of a node label."""
        found = self._domains.get(key)
        if found is None:
            found = self._domains[key] = Domains(self.nodes, key)
        return found
