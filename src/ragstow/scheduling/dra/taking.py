"""Devices taken for a while, during a search: what they use up, and how they are given back.

A device must be free, have counters left, have no untolerated taint, meet the constraints and have capacity left, in this
order. Source: allocateDevice and rollbackDevice of k8s.io/dynamic-resource-allocation/structured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from ragstow.quantity import Quantity
from ragstow.scheduling.dra import capacity, taints
from ragstow.scheduling.dra.counters import AvailableCounters, ConsumedCounters
from ragstow.scheduling.dra.model import Claim, Device, DeviceId
from ragstow.scheduling.dra.requests import AllocationError, Candidate, Key, Prepared, RequestData
from ragstow.scheduling.dra.rules import DraRules
from ragstow.scheduling.dra.state import AllocatedDevices


@dataclass(slots=True)
class Taken:
    """A device taken for a request."""

    data: RequestData
    candidate: Candidate
    shared: bool
    reserved: bool
    """Whether it consumed counters (a further share of a device does not)."""
    first: bool
    """Whether it is the first share of its device in this search."""
    consumed: Mapping[str, Quantity] | None = None


class Taking:
    """See the module; `result` lists what is taken for each claim.

    Args:
        rules: the release.
        claims: those to allocate.
        allocated: devices in use before.
        available: counters left before.
    """

    def __init__(
        self, rules: DraRules, claims: Sequence[Claim], allocated: AllocatedDevices, available: AvailableCounters
    ) -> None:
        self._rules = rules
        self._claims = claims
        self._allocated = allocated
        self._holders: dict[DeviceId, set[int]] = {}
        self._planned: dict[DeviceId, Counter[str]] = {}
        self._counters = ConsumedCounters(available)
        self._prepared = Prepared()
        self.result: list[list[Taken]] = [[] for _ in claims]

    def start(self, prepared: Prepared) -> None:
        """The claims are prepared: taking may begin."""
        self._prepared = prepared

    def blocked(self, claim: int, data: RequestData, device: DeviceId) -> bool:
        """Whether the device is in use; with admin access only when it is taken for the same claim."""
        holders = self._holders.get(device)
        if data.request.admin:
            return bool(holders) and claim in (holders or ())
        return bool(holders) or self._allocated.whole(device)

    def fits(self, data: RequestData, device: Device) -> bool:
        """Whether the request fits into what is left of the device's capacity."""
        if not self._rules.consumable:
            return True
        planned: Mapping[str, int] = self._planned.get(device.id, {})
        return capacity.fits(device, data.request.capacity, self._allocated.capacity(device.id), planned)

    def ever(self, data: RequestData, device: Device) -> bool:
        """Whether the request could take the device if nothing else were taken; counters and constraints apart."""
        if not data.request.admin and self._allocated.whole(device.id):
            return False
        if self._rules.taints and taints.prevented(device, data.request.tolerations):
            return False
        return not self._rules.consumable or capacity.fits(device, data.request.capacity, self._allocated.capacity(device.id))

    def take(self, key: Key, candidate: Candidate, *, must: bool) -> bool:
        """Takes the device for the request if all allows it.

        Args:
            key: the request or alternative.
            candidate: the device.
            must: exactly this device is wanted; an unmet constraint is then an error.

        Raises:
            AllocationError: a device that must be taken does not meet a constraint.
        """
        claim = key[0]
        pool, _, device = candidate
        data = self._prepared.data[key]
        shareable = self._rules.consumable and device.shareable
        if self.blocked(claim, data, device.id) and not (data.request.admin and shareable):
            return False
        reserved = False
        if device.consumes:
            if not self._rules.partitionable:
                return False
            if not (shareable and self._is_shared(device.id)):
                if not self._counters.take(pool, device):
                    return False
                reserved = True
        if not self._allowed(claim, data, device, must):
            if reserved:
                self._counters.give_back(pool, device)
            return False
        taken = Taken(data, candidate, shareable, reserved, device.id not in self._planned)
        if shareable:
            consumed = capacity.consumption(device, data.request.capacity, step_format=self._rules.step_format)
            planned = self._planned.setdefault(device.id, Counter())
            for name, amount in consumed.items():
                planned[name] += amount.nano
            taken.consumed = consumed or None
        else:
            self._holders.setdefault(device.id, set()).add(claim)
        self.result[claim].append(taken)
        return True

    def give_back(self, claim: int) -> None:
        """Undoes the latest `take` for the claim."""
        taken = self.result[claim].pop()
        pool, _, device = taken.candidate
        for tracker in self._prepared.constraints[claim]:
            tracker.remove(*taken.data.names)
        if taken.reserved:
            self._counters.give_back(pool, device)
        if not taken.shared:
            self._holders[device.id].discard(claim)
        elif taken.first:
            del self._planned[device.id]
        elif taken.consumed is not None:
            planned = self._planned[device.id]
            for name, amount in taken.consumed.items():
                planned[name] -= amount.nano

    def state(self) -> Hashable:
        """What the rest of the search depends on: which devices are taken, for which claim and kind of request."""
        return tuple(
            frozenset(Counter((taken.candidate[2].id, taken.data.kind) for taken in devices).items()) for devices in self.result
        )

    def _allowed(self, claim: int, data: RequestData, device: Device, must: bool) -> bool:
        if self._rules.taints and taints.prevented(device, data.request.tolerations):
            return False
        trackers = self._prepared.constraints[claim]
        for index, tracker in enumerate(trackers):
            if tracker.add(*data.names, device):
                continue
            if must:
                raise AllocationError(
                    f"claim {self._claims[claim].key}, request {data.request.name}: cannot add device {device.id} because "
                    "a claim constraint would not be satisfied"
                )
            for added in trackers[:index]:
                added.remove(*data.names)
            return False
        if self.fits(data, device):
            return True
        for tracker in trackers:
            tracker.remove(*data.names)
        return False

    def _is_shared(self, device: DeviceId) -> bool:
        return device in self._planned or self._allocated.shared(device, with_capacity=not self._rules.any_share)
