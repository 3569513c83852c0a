"""Shared counters (KEP-4815): what a pool has left, and what a search consumes.

All counter sets of a pool must stay within their values. Before 1.37 they are kept by the name of the pool alone, so equally
named pools of two drivers meet. Amounts are in nano units. Source: checkAvailableCounters of
k8s.io/dynamic-resource-allocation/structured.
"""

from __future__ import annotations

from ragstow.scheduling.dra.model import Device
from ragstow.scheduling.dra.pools import Pool
from ragstow.scheduling.dra.state import AllocatedDevices

CounterSets = dict[str, dict[str, int]]


Key = tuple[str, str]


class AvailableCounters:
    """Counters left by the claims allocated before; found once for each pool, for all nodes of a cycle.

    Args:
        allocated: the devices in use.
        by_driver: whether pools of different drivers are kept apart.
    """

    def __init__(self, allocated: AllocatedDevices, *, by_driver: bool = True) -> None:
        self._allocated = allocated
        self._by_driver = by_driver
        self._known: dict[Key, tuple[CounterSets, bool]] = {}

    def key(self, pool: Pool) -> Key:
        """What a pool's counters are kept under."""
        return (pool.driver if self._by_driver else "", pool.name)

    def of(self, pool: Pool) -> tuple[CounterSets, bool]:
        """What is left by counter set, and whether any counter of the pool is already overdrawn."""
        key = self.key(pool)
        known = self._known.get(key)
        if known is None:
            left = {name: dict(values) for name, values in (pool.counters or {}).items()}
            for item in (*pool.here, *pool.elsewhere):
                for device in item.devices:
                    if device.consumes and self._allocated.any(device.id):
                        _subtract(left, device)
            overdrawn = any(value < 0 for values in left.values() for value in values.values())
            known = self._known[key] = (left, overdrawn)
        return known


class ConsumedCounters:
    """Counters consumed within one search."""

    def __init__(self, available: AvailableCounters) -> None:
        self._available = available
        self._consumed: dict[Key, CounterSets] = {}

    def take(self, pool: Pool, device: Device) -> bool:
        """Consumes what the device needs; False, and nothing consumed, where some counter would be overdrawn."""
        left, overdrawn = self._available.of(pool)
        consumed = self._consumed.setdefault(self._available.key(pool), {})
        fits = not overdrawn
        for set_name, values in device.consumes:
            taken = consumed.setdefault(set_name, {})
            limits = left.get(set_name, {})
            for name, amount in values.items():
                taken[name] = taken.get(name, 0) + amount
                if name in limits and taken[name] > limits[name]:
                    fits = False
        if not fits:
            self.give_back(pool, device)
        return fits

    def give_back(self, pool: Pool, device: Device) -> None:
        """Returns what `take` consumed."""
        consumed = self._consumed[self._available.key(pool)]
        for set_name, values in device.consumes:
            for name, amount in values.items():
                consumed[set_name][name] -= amount


def _subtract(left: CounterSets, device: Device) -> None:
    for set_name, values in device.consumes:
        limits = left.get(set_name)
        if limits is None:
            continue
        for name, amount in values.items():
            if name in limits:
                limits[name] -= amount
