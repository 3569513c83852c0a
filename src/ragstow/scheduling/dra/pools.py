"""Resource pools as one node sees them: which slices count, whether the pool is complete, whether it is valid.

Only slices of the newest generation count. A pool is incomplete while slices are missing and invalid when a device or counter
set name occurs twice or a device consumes an undeclared counter. Order: by driver, then pool, pools with binding conditions
last; slices by name; devices as listed (releases before 1.36 have no order; we use this one). Source: pools_*.go of
k8s.io/dynamic-resource-allocation/structured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragstow.cluster.objects import Node
from ragstow.scheduling.dra.model import Device, NodeScope, Slice
from ragstow.scheduling.dra.rules import DraRules

PoolId = tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """A pool on a node: the slices whose devices reach the node, the others, and the counters of the whole pool."""

    driver: str
    name: str
    incomplete: bool = False
    invalid: str = ""
    """Why the pool is invalid; "" if it is not."""
    here: tuple[Slice, ...] = ()
    elsewhere: tuple[Slice, ...] = ()
    counters: Mapping[str, Mapping[str, int]] | None = None
    """Counter set -> counter -> nano units; None where partitionable devices are off."""

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"


class PoolIndex:
    """All slices of a cluster, found by node and by pool.

    Args:
        slices: in any order; what the release drops must have been dropped (`strategy`).
        rules: the release.
    """

    def __init__(self, slices: Iterable[Slice], rules: DraRules) -> None:
        self._rules = rules
        self._of_node: dict[str, list[Slice]] = {}
        self._shared: list[Slice] = []
        self._of_pool: dict[PoolId, list[Slice]] = {}
        self._known: dict[str, tuple[Node, tuple[Pool, ...]]] = {}
        for item in sorted(slices, key=lambda entry: entry.name):
            self._of_pool.setdefault((item.driver, item.pool), []).append(item)
            if item.node_name and not self._everywhere(item):
                self._of_node.setdefault(item.node_name, []).append(item)
            else:
                self._shared.append(item)

    def on(self, node: Node) -> tuple[Pool, ...]:
        """The pools that reach a node, in the order in which the allocator tries them."""
        known = self._known.get(node.name)
        if known is not None and known[0] is node:
            return known[1]
        found: dict[PoolId, list[Slice]] = {}
        for item in (*self._of_node.get(node.name, ()), *self._shared):
            if self._everywhere(item) or reaches(item, node):
                _add(found, item)
        pools = [pool for pool_id, slices in found.items() if (pool := self._build(pool_id, slices)) is not None]
        pools.sort(key=lambda pool: (_has_binding_conditions(pool), pool.driver, pool.name))
        made = tuple(pools)
        self._known[node.name] = (node, made)
        return made

    def devices_on(self, node: Node) -> Iterable[Device]:
        """All devices that reach a node, whatever the state of their pools."""
        for item in (*self._of_node.get(node.name, ()), *self._shared):
            if reaches(item, node):
                yield from (device for device in item.devices if not item.per_device or device_reaches(device, node))

    def _everywhere(self, item: Slice) -> bool:
        return self._rules.counters_everywhere and bool(item.counter_sets)

    def _build(self, pool_id: PoolId, here: Sequence[Slice]) -> Pool | None:
        driver, name = pool_id
        first = here[0]
        whole: list[Slice] = list(here)
        incomplete = len(here) != first.slice_count
        if incomplete and self._rules.whole_pool:
            everywhere = self._of_pool[pool_id]
            if any(item.generation > first.generation for item in everywhere):
                return None
            whole = [item for item in everywhere if item.generation == first.generation]
            if len(whole) != first.slice_count:
                return Pool(driver, name, incomplete=True)
            incomplete = False
        partitionable = self._rules.partitionable
        device_slices = [item for item in here if not (partitionable and item.counter_sets)]
        names = {item.name for item in here}
        others = [item for item in whole if item.name not in names and not (partitionable and item.counter_sets)]
        counters: dict[str, Mapping[str, int]] = {}
        invalid = _duplicate_device(device_slices)
        if not invalid and partitionable:
            counter_slices = [item for item in whole if item.counter_sets]
            invalid = _collect_counters(counter_slices, counters) or _undeclared_counter(counters, (*device_slices, *others))
        if invalid:
            return Pool(driver, name, incomplete, invalid, here=tuple(device_slices))
        return Pool(driver, name, incomplete, "", tuple(device_slices), tuple(others), counters if partitionable else None)


def reaches(item: Slice, node: Node) -> bool:
    """Whether a slice has devices for the node (counter sets for it, where it holds those)."""
    if item.node_name or item.all_nodes or item.scope is not None:
        return _at(node, item.node_name, item.all_nodes, item.scope)
    return item.per_device and any(device_reaches(device, node) for device in item.devices)


def device_reaches(device: Device, node: Node) -> bool:
    """Whether a device of a slice with per-device node selection is for the node."""
    return _at(node, device.node_name, device.all_nodes, device.scope)


def _at(node: Node, node_name: str, all_nodes: bool, scope: NodeScope | None) -> bool:
    if node_name:
        return node.name == node_name
    if all_nodes:
        return True
    return scope is not None and scope.compiled.matches(node)


def _add(found: dict[PoolId, list[Slice]], item: Slice) -> None:
    known = found.get((item.driver, item.pool))
    if known is None or item.generation > known[0].generation:
        found[(item.driver, item.pool)] = [item]
    elif item.generation == known[0].generation:
        known.append(item)


def _has_binding_conditions(pool: Pool) -> bool:
    return not pool.invalid and any(device.has_binding_conditions for item in pool.here for device in item.devices)


def _duplicate_device(slices: Sequence[Slice]) -> str:
    seen: set[str] = set()
    for item in slices:
        for device in item.devices:
            if device.id.device in seen:
                return f"duplicate device name {device.id.device}"
            seen.add(device.id.device)
    return ""


def _collect_counters(slices: Sequence[Slice], counters: dict[str, Mapping[str, int]]) -> str:
    for item in slices:
        for name, values in item.counter_sets:
            if name in counters:
                return f"duplicate counter set name {name}"
            counters[name] = values
    return ""


def _undeclared_counter(counters: Mapping[str, Mapping[str, int]], slices: Sequence[Slice]) -> str:
    for item in slices:
        for device in item.devices:
            for set_name, values in device.consumes:
                if set_name not in counters:
                    return f"counter set {set_name} not found"
                for name in values:
                    if name not in counters[set_name]:
                        return f"counter {name} not found in counter set {set_name}"
    return ""
