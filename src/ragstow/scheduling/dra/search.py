"""The search for devices on one node: claims in order, requests in order, devices in order, the first full solution.

Depth first with backtracking; within one request only ascending combinations are tried, as they are sets. A candidate must be
free, pass the selectors, have capacity and counters left, have no untolerated taint and meet the constraints, in this order.
Source: allocateOne and allocateDevice of k8s.io/dynamic-resource-allocation/structured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragstow.cluster.objects import Node
from ragstow.quantity import Quantity
from ragstow.scheduling.dra import capacity, taints
from ragstow.scheduling.dra.cel import Selectors
from ragstow.scheduling.dra.counters import AvailableCounters, ConsumedCounters
from ragstow.scheduling.dra.model import MAX_DEVICES_PER_CLAIM, Claim, Device, DeviceClass, DeviceId
from ragstow.scheduling.dra.pools import Pool, device_reaches
from ragstow.scheduling.dra.requests import AllocationError, Candidate, Key, NodeFailure, Preparation, Prepared, RequestData
from ragstow.scheduling.dra.rules import DraRules
from ragstow.scheduling.dra.state import AllocatedDevices

MAX_STEPS = 200_000
"""Steps after which a search is given up, about what the real one manages in its 10 s."""


class _TooManyDevices(Exception):
    """The claim would exceed 32 devices on this path."""


class SearchTooLong(Exception):
    """The search was given up; the real one runs into its filter timeout of 10 s."""


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
    consumed: Mapping[str, Quantity] | None


@dataclass(frozen=True, slots=True)
class Inputs:
    """What stays the same for all nodes of one pod's cycle."""

    rules: DraRules
    classes: Mapping[str, DeviceClass]
    selectors: Selectors
    allocated: AllocatedDevices
    available: AvailableCounters


class Search:
    """One allocation attempt.

    Args:
        inputs: what holds for the cycle.
        node: the node.
        pools: its pools in order.
        claims: the claims to allocate, in order.
    """

    def __init__(self, inputs: Inputs, node: Node, pools: Sequence[Pool], claims: Sequence[Claim]) -> None:
        self._in = inputs
        self._rules = inputs.rules
        self._node = node
        self._pools = pools
        self._claims = claims
        self._candidates = _candidates(pools, inputs.rules)
        self._matches: dict[tuple[Key, DeviceId], bool] = {}
        self._allocating: dict[DeviceId, set[int]] = {}
        self._planned: dict[DeviceId, Counter[str]] = {}
        self._counters = ConsumedCounters(inputs.available)
        self._steps = 0
        self._prepared = Prepared()
        self.result: list[list[Taken]] = [[] for _ in claims]

    def run(self) -> bool:
        """Whether a solution was found; it is then in `result`, a list for each claim.

        Raises:
            AllocationError: the pod's scheduling must be aborted with this text.
            NodeFailure: refused with this reason on this node.
            NotEvaluated: a selector could not be evaluated here.
            SearchTooLong: given up.
        """
        preparation = Preparation(self._in.classes, self._pools, self._rules, self._selectable, self._counts_for_all)
        self._prepared = preparation.prepare(self._claims)
        self._matches.clear()
        try:
            found = self._claim(0)
        except _TooManyDevices:
            raise AllocationError("allocation max size exceeded") from None
        if not found and not self._rules.invalid_is_error and any(pool.invalid for pool in self._pools):
            raise NodeFailure("invalid resource pools were encountered")
        return found

    def _claim(self, claim: int) -> bool:
        return claim >= len(self._claims) or self._request(claim, 0)

    def _request(self, claim: int, request: int) -> bool:
        if request >= len(self._claims[claim].requests):
            try:
                return self._claim(claim + 1)
            except _TooManyDevices:
                return False
        if not self._claims[claim].requests[request].alternatives:
            return self._device((claim, request, 0), 0, 0)
        all_exceeded = True
        for alternative in range(len(self._claims[claim].requests[request].alternatives)):
            try:
                success = self._device((claim, request, alternative), 0, 0)
            except _TooManyDevices:
                continue
            all_exceeded = False
            if success:
                return True
        if all_exceeded:
            raise _TooManyDevices
        return False

    def _device(self, key: Key, number: int, start: int) -> bool:
        """Takes device `number` of a request, looking from candidate `start` on, and all that comes after it."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise SearchTooLong
        claim, request, _ = key
        data = self._prepared.data[key]
        wants_all = data.request.mode == "All"
        if wants_all and not data.all_devices:
            return False
        if number >= data.count:
            return self._request(claim, request + 1)
        if len(self.result[claim]) + data.count - number > MAX_DEVICES_PER_CLAIM:
            raise _TooManyDevices
        if wants_all:
            candidate = data.all_devices[number]
            # Before 1.36 the rest of an alternative that asks for All is taken from the first alternative.
            rest = (claim, request, 0) if self._rules.first_alternative_only else key
            return self._try(key, candidate, rest, number + 1, 0, must=True)
        for position in range(start, len(self._candidates)):
            candidate = self._candidates[position]
            pool, _, device = candidate
            if pool.invalid:
                raise AllocationError(f"pool {pool.name} is invalid: {pool.invalid}")
            if data.request.admin:
                if claim in self._allocating.get(device.id, ()):
                    continue
            elif self._in_use(device.id):
                continue
            if not self._selectable(key, data, candidate) or not self._fits(data, device):
                continue
            if self._try(key, candidate, key, number + 1, position + 1, must=False):
                return True
        return False

    def _try(self, key: Key, candidate: Candidate, rest: Key, number: int, start: int, must: bool) -> bool:
        if not self._take(key, candidate, must):
            return False
        try:
            found = self._device(rest, number, start)
        except (_TooManyDevices, AllocationError):
            self._give_back(key, candidate)
            raise
        if not found:
            self._give_back(key, candidate)
        return found

    def _take(self, key: Key, candidate: Candidate, must: bool) -> bool:
        claim = key[0]
        pool, _, device = candidate
        data = self._prepared.data[key]
        shareable = self._rules.consumable and device.shareable
        holders = self._allocating.get(device.id, ())
        if data.request.admin:
            if not shareable and claim in holders:
                return False
        elif self._in_use(device.id):
            return False
        reserved = False
        if device.consumes:
            if not self._rules.partitionable:
                return False
            if not (shareable and (self._in.allocated.has_capacity(device.id) or device.id in self._planned)):
                if not self._counters.take(pool, device):
                    return False
                reserved = True
        if not self._allowed(claim, data, device, must):
            if reserved:
                self._counters.give_back(pool, device)
            return False
        taken = Taken(data, candidate, shareable, reserved, device.id not in self._planned, None)
        if shareable:
            consumed = capacity.consumption(device, data.request.capacity, step_format=self._rules.step_format)
            planned = self._planned.setdefault(device.id, Counter())
            for name, amount in consumed.items():
                planned[name] += amount.nano
            taken.consumed = consumed or None
        else:
            self._allocating.setdefault(device.id, set()).add(claim)
        self.result[claim].append(taken)
        return True

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
        if self._fits(data, device):
            return True
        for tracker in trackers:
            tracker.remove(*data.names)
        return False

    def _give_back(self, key: Key, candidate: Candidate) -> None:
        claim = key[0]
        pool, _, device = candidate
        taken = self.result[claim].pop()
        for tracker in self._prepared.constraints[claim]:
            tracker.remove(*taken.data.names)
        if taken.reserved:
            self._counters.give_back(pool, device)
        if not taken.shared:
            self._allocating[device.id].discard(claim)
        elif taken.first:
            del self._planned[device.id]
        elif taken.consumed is not None:
            planned = self._planned[device.id]
            for name, amount in taken.consumed.items():
                planned[name] -= amount.nano

    def _in_use(self, device: DeviceId) -> bool:
        return self._in.allocated.whole(device) or bool(self._allocating.get(device))

    def _fits(self, data: RequestData, device: Device) -> bool:
        if not self._rules.consumable:
            return True
        planned: Mapping[str, int] = self._planned.get(device.id, {})
        return capacity.fits(device, data.request.capacity, self._in.allocated.capacity(device.id), planned)

    def _counts_for_all(self, data: RequestData, device: Device) -> bool:
        if self._rules.consumable and self._rules.all_static:
            return capacity.fits(device, data.request.capacity)
        return self._fits(data, device)

    def _selectable(self, key: Key, data: RequestData, candidate: Candidate) -> bool:
        _, item, device = candidate
        if device.has_binding_conditions and not self._rules.binding:
            return False
        known = self._matches.get((key, device.id))
        if known is None:
            known = self._matches[(key, device.id)] = self._passes(key[0], data, device) and (
                not item.per_device or device_reaches(device, self._node)
            )
        return known

    def _passes(self, claim: int, data: RequestData, device: Device) -> bool:
        for owner, selectors in (
            (f"class {data.device_class.name}", data.device_class.selectors),
            (f"claim {self._claims[claim].key}", data.request.selectors),
        ):
            for index, expression in enumerate(selectors):
                verdict = self._in.selectors.verdict(expression or "", device)
                if isinstance(verdict, str):
                    raise AllocationError(_runtime_error(owner, index, device, verdict, self._rules))
                if not verdict:
                    return False
        return True


def _candidates(pools: Sequence[Pool], rules: DraRules) -> tuple[Candidate, ...]:
    found: list[Candidate] = []
    for pool in pools:
        if pool.invalid and rules.invalid_is_error:
            found.extend((pool, item, device) for item in pool.here for device in item.devices[:1])
        if pool.invalid or (pool.incomplete and not rules.incomplete_used):
            continue
        found.extend((pool, item, device) for item in pool.here for device in item.devices)
    return tuple(found)


def _runtime_error(owner: str, index: int, device: Device, text: str, rules: DraRules) -> str:
    if not rules.device_in_error:
        return f"{owner}: selector #{index}: CEL runtime error: {text}"
    hint = (
        ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields"
        if "no such key:" in text
        else ""
    )
    return f"{owner}: selector #{index} on device {device.id}: CEL runtime error: {text}{hint}"
