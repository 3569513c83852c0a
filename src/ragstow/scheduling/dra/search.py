"""The search for devices on one node: claims in order, requests in order, devices in order, the first full solution.

Depth first with backtracking; within one request only ascending combinations are tried, as they are sets. Two shortcuts leave
the answer as it is: devices that can never be taken are counted beforehand, so a request that lacks some fails at once; and a
long search remembers from which states it failed. Where an error could be met on the way, the first is not taken.
Source: allocateOne of k8s.io/dynamic-resource-allocation/structured.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from ragstow.cluster.objects import Node
from ragstow.scheduling.dra import capacity
from ragstow.scheduling.dra.cel import NotEvaluated, Selectors
from ragstow.scheduling.dra.counters import AvailableCounters
from ragstow.scheduling.dra.model import MAX_DEVICES_PER_CLAIM, Claim, Device, DeviceClass
from ragstow.scheduling.dra.pools import Pool
from ragstow.scheduling.dra.requests import AllocationError, Candidate, Key, NodeFailure, Preparation, Prepared, RequestData
from ragstow.scheduling.dra.rules import DraRules
from ragstow.scheduling.dra.selection import Selection, candidates
from ragstow.scheduling.dra.state import AllocatedDevices
from ragstow.scheduling.dra.taking import Taken, Taking

MAX_STEPS = 50_000
"""Steps of our own after which a search is given up."""

REMEMBER_AFTER = 500
"""Steps after which failed states are remembered; below that it would cost more than it saves."""


class _TooManyDevices(Exception):
    """The claim would exceed 32 devices on this path."""


class SearchTooLong(Exception):
    """The search was given up; the real one runs into its filter timeout of 10 s."""


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
        self._pools = pools
        self._claims = claims
        self._candidates = candidates(pools, inputs.rules)
        self._selection = Selection(inputs.rules, inputs.selectors, node, claims)
        self._taking = Taking(inputs.rules, claims, inputs.allocated, inputs.available)
        self._prepared = Prepared()
        self._steps = 0
        self._failed: set[Hashable] = set()
        self._possible: dict[Key, Sequence[int] | None] = {}

    @property
    def result(self) -> Sequence[Sequence[Taken]]:
        """The solution: the devices of each claim."""
        return self._taking.result

    def run(self) -> bool:
        """Whether a solution was found; it is then in `result`.

        Raises:
            AllocationError: the pod's scheduling must be aborted with this text.
            NodeFailure: refused with this reason on this node.
            NotEvaluated: a selector could not be evaluated here.
            SearchTooLong: given up.
        """
        preparation = Preparation(self._in.classes, self._pools, self._rules, self._selection.allows, self._counts_for_all)
        self._prepared = preparation.prepare(self._claims)
        self._taking.start(self._prepared)
        self._selection.forget()
        self._possible = {key: self._positions(key, data) for key, data in self._prepared.data.items()}
        try:
            found = not self._hopeless() and self._claim(0)
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
        alternatives = len(self._claims[claim].requests[request].alternatives)
        if not alternatives:
            return self._device((claim, request, 0), 0, 0)
        all_exceeded = True
        for alternative in range(alternatives):
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
        if self._steps <= REMEMBER_AFTER or not self._prepared.memorable:
            return self._look(key, number, start)
        if self._steps > MAX_STEPS:
            raise SearchTooLong
        state = (key, number, start, self._taking.state())
        if state in self._failed:
            return False
        found = self._look(key, number, start)
        if not found:
            self._failed.add(state)
        return found

    def _look(self, key: Key, number: int, start: int) -> bool:
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
            # Before 1.36 the rest of an alternative that asks for All is taken from the first alternative.
            rest = (claim, request, 0) if self._rules.first_alternative_only else key
            return self._try(key, data.all_devices[number], rest, number + 1, 0, must=True)
        positions: Sequence[int] = range(start, len(self._candidates))
        possible = self._possible[key]
        if possible is not None:
            positions = possible[bisect_left(possible, start) :]
            if len(positions) < data.count - number:
                return False
        for position in positions:
            candidate = self._candidates[position]
            pool, _, device = candidate
            if pool.invalid:
                raise AllocationError(f"pool {pool.name} is invalid: {pool.invalid}")
            if self._taking.blocked(claim, data, device.id):
                continue
            if not self._selection.allows(key, data, candidate) or not self._taking.fits(data, device):
                continue
            if self._try(key, candidate, key, number + 1, position + 1, must=False):
                return True
        return False

    def _try(self, key: Key, candidate: Candidate, rest: Key, number: int, start: int, *, must: bool) -> bool:
        if not self._taking.take(key, candidate, must=must):
            return False
        try:
            found = self._device(rest, number, start)
        except _TooManyDevices:
            self._taking.give_back(key[0])
            raise
        if not found:
            self._taking.give_back(key[0])
        return found

    def _positions(self, key: Key, data: RequestData) -> Sequence[int] | None:
        """The candidates that the request may ever take; None where looking at one may be an error."""
        if data.request.mode == "All":
            return None
        found: list[int] = []
        try:
            for position, candidate in enumerate(self._candidates):
                if candidate[0].invalid:
                    return None
                if self._selection.allows(key, data, candidate) and self._taking.ever(data, candidate[2]):
                    found.append(position)
        except (AllocationError, NotEvaluated):
            return None
        return found

    def _hopeless(self) -> bool:
        """Whether some request can never be met, and nothing on the way to finding out would be an error."""
        met: dict[tuple[int, int], bool] = {}
        for key, data in self._prepared.data.items():
            claim, request, _ = key
            possible = self._possible[key]
            if data.request.mode == "All":
                if self._prepared.constraints[claim] or self._rules.first_alternative_only:
                    return False
                enough = bool(data.all_devices) and all(self._taking.ever(data, device) for _, _, device in data.all_devices)
            elif possible is None:
                return False
            else:
                enough = len(possible) >= data.count
            met[(claim, request)] = met.get((claim, request), False) or enough
        return not all(met.values())

    def _counts_for_all(self, data: RequestData, device: Device) -> bool:
        if self._rules.consumable and self._rules.all_static:
            return capacity.fits(device, data.request.capacity)
        return self._taking.fits(data, device)
