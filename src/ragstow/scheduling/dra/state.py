"""Which devices are taken, by the claims allocated so far.

A device given with admin access is not taken; a share of a shareable device takes capacity, not the device. Source:
foreachAllocatedDevice (pkg/scheduler/framework/plugins/dynamicresources/allocateddevices.go).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ragstow.scheduling.dra.model import Allocation, DeviceId

_NONE: Mapping[str, int] = {}


class AllocatedDevices:
    """Devices in use and capacity taken; `add` and `remove` allocations as claims come and go.

    Args:
        consumable: whether shares exist (else a result with a share ID takes the whole device).
    """

    def __init__(self, consumable: bool) -> None:
        self._consumable = consumable
        self._whole: Counter[DeviceId] = Counter()
        self._shares: Counter[DeviceId] = Counter()
        self._capacity: dict[DeviceId, Counter[str]] = {}
        self._consumers: Counter[DeviceId] = Counter()
        self.changes: Counter[str] = Counter()
        """How often devices of the pools of a name were given or freed."""

    def add(self, allocation: Allocation) -> None:
        """Books the devices of a claim."""
        self._book(allocation, 1)

    def remove(self, allocation: Allocation) -> None:
        """Frees the devices of a claim that was added before."""
        self._book(allocation, -1)

    def whole(self, device: DeviceId) -> bool:
        """Whether the whole device is taken."""
        return device in self._whole

    def any(self, device: DeviceId) -> bool:
        """Whether the device is taken, wholly or in shares: its counters are consumed."""
        return device in self._whole or device in self._shares or device in self._consumers

    def shared(self, device: DeviceId, *, with_capacity: bool) -> bool:
        """Whether shares of the device are in use (`with_capacity`: only shares that take some of its capacity)."""
        return device in (self._consumers if with_capacity else self._shares)

    def capacity(self, device: DeviceId) -> Mapping[str, int]:
        """Capacity taken of a device by name, in nano units."""
        return self._capacity.get(device, _NONE)

    def _book(self, allocation: Allocation, sign: int) -> None:
        for result in allocation.results:
            if result.admin:
                continue
            self.changes[result.device.pool] += 1
            if not (result.shared and self._consumable):
                _count(self._whole, result.device, sign)
                continue
            _count(self._shares, result.device, sign)
            if result.consumed is not None:
                _count(self._consumers, result.device, sign)
                taken = self._capacity.setdefault(result.device, Counter())
                for name, amount in result.consumed.items():
                    taken[name] += sign * amount.nano


def _count(counter: Counter[DeviceId], device: DeviceId, sign: int) -> None:
    counter[device] += sign
    if not counter[device]:
        del counter[device]
