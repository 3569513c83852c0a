"""Claims made ready for the search: classes found, counts known, the devices of "All" requests listed.

Everything that makes an allocation fail on any node is found here, before the search, as in the real allocator: an unknown
class, an incomplete or invalid pool where all devices are asked for, more than 32 devices. Texts as upstream. Source:
Allocate and validateDeviceRequest of k8s.io/dynamic-resource-allocation/structured.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from ragstow.scheduling.dra.constraints import DistinctAttribute, MatchAttribute, Tracker
from ragstow.scheduling.dra.model import MAX_DEVICES_PER_CLAIM, Claim, Device, DeviceClass, DeviceRequest, Request, Slice
from ragstow.scheduling.dra.pools import Pool
from ragstow.scheduling.dra.rules import DraRules

Key = tuple[int, int, int]
"""Claim, request, alternative."""

Candidate = tuple[Pool, Slice, Device]
"""A device with its slice and pool."""


class AllocationError(Exception):
    """Makes the allocation fail for good: the scheduling of the pod is aborted with this text."""


class NodeFailure(Exception):
    """Makes the allocation fail on this node only; the text is the reason given."""


@dataclass(slots=True)
class RequestData:
    """One request or alternative to satisfy; `parent` is the name of the request that lists the alternatives."""

    request: Request
    parent: str
    device_class: DeviceClass
    count: int = 0
    all_devices: tuple[Candidate, ...] = ()
    kind: Hashable = None
    """Equal for requests of one claim that leave the same behind when they take a device."""

    @property
    def name(self) -> str:
        """The name of the request in results: "request" or "request/alternative"."""
        return f"{self.parent}/{self.request.name}" if self.parent else self.request.name

    @property
    def names(self) -> tuple[str, str]:
        """Request and alternative ("" for none), as constraints name them."""
        return (self.parent, self.request.name) if self.parent else (self.request.name, "")


@dataclass(slots=True)
class Prepared:
    """All claims, ready for the search."""

    data: dict[Key, RequestData] = field(default_factory=dict)
    constraints: list[list[Tracker]] = field(default_factory=list)
    memorable: bool = True
    """Whether what is taken, whatever the order, decides the rest of a search."""


Selectable = Callable[[Key, RequestData, Candidate], bool]
FitsCapacity = Callable[[RequestData, Device], bool]


class Preparation:
    """Checks claims and prepares them.

    Args:
        classes: device classes by name.
        pools: the pools on the node.
        rules: the release.
        selectable: whether a device passes the selectors of a request.
        fits_capacity: whether a device counts for an All request, by its capacity.
    """

    def __init__(
        self,
        classes: Mapping[str, DeviceClass],
        pools: Sequence[Pool],
        rules: DraRules,
        selectable: Selectable,
        fits_capacity: FitsCapacity,
    ) -> None:
        self._classes = classes
        self._pools = pools
        self._rules = rules
        self._selectable = selectable
        self._fits_capacity = fits_capacity

    def prepare(self, claims: Sequence[Claim]) -> Prepared:
        """The claims, ready for the search.

        Raises:
            AllocationError: no allocation can succeed.
        """
        made = Prepared()
        for claim_index, claim in enumerate(claims):
            devices = 0
            for request_index, request in enumerate(claim.requests):
                found = self._prepare_request(made, claim, request, (claim_index, request_index))
                if self._rules.limit_by_request and devices + found > MAX_DEVICES_PER_CLAIM:
                    raise AllocationError(
                        f"claim {claim.key}, request {request.name}: adding {found} devices exceeds the claim limit of "
                        f"{MAX_DEVICES_PER_CLAIM}, with {devices} already accounted for"
                    )
                devices += found
            if devices > MAX_DEVICES_PER_CLAIM:
                raise AllocationError(
                    f"claim {claim.key}: number of requested devices {devices} exceeds the claim limit of "
                    f"{MAX_DEVICES_PER_CLAIM}"
                )
            made.constraints.append(self._trackers(claim))
            if self._rules.distinct == "latest" and any(entry.distinct_attribute is not None for entry in claim.constraints):
                made.memorable = False
        for (claim_index, _, _), data in made.data.items():
            concerned = tuple(tracker.concerns(*data.names) for tracker in made.constraints[claim_index])
            requested = frozenset((data.request.capacity or {}).items())
            data.kind = (data.request.admin, requested, concerned)
        return made

    def _prepare_request(self, made: Prepared, claim: Claim, request: DeviceRequest, at: tuple[int, int]) -> int:
        if not self._rules.consumable:
            self._refuse_capacity(claim, request)
        if not request.alternatives:
            if request.exactly is None:
                raise AllocationError(
                    f"claim {claim.key}, request {request.name}: missing device class name (unsupported request type?)"
                )
            key = (*at, 0)
            made.data[key] = self._validate(claim, request.exactly, "", key)
            return made.data[key].count
        fewest: int | None = None
        for index, alternative in enumerate(request.alternatives):
            # Before 1.36 the selectors of an alternative are looked up under the index of the one before it.
            looked_up = max(index - 1, 0) if self._rules.first_alternative_only else index
            data = self._validate(claim, alternative, request.name, (*at, looked_up))
            made.data[(*at, index)] = data
            fewest = data.count if fewest is None else min(fewest, data.count)
        return fewest or 0

    def _refuse_capacity(self, claim: Claim, request: DeviceRequest) -> None:
        off = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        if request.exactly is not None and request.exactly.capacity is not None:
            raise AllocationError(f"claim {claim.key}, request {request.name}: {off}")
        for alternative in request.alternatives:
            if alternative.capacity is not None:
                raise AllocationError(f"claim {claim.key}, subrequest {alternative.name}: {off}")

    def _validate(self, claim: Claim, request: Request, parent: str, key: Key) -> RequestData:
        where = f"claim {claim.key}, request {request.name}"
        for index, selector in enumerate(request.selectors):
            if selector is None:
                raise AllocationError(f"{where}, selector #{index}: CEL expression empty (unsupported selector type?)")
        if not request.class_name:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        device_class = self._classes.get(request.class_name)
        if device_class is None:
            raise AllocationError(
                f"{where}: could not retrieve device class {request.class_name}: "
                f'deviceclass.resource.k8s.io "{request.class_name}" not found'
            )
        data = RequestData(request, parent, device_class)
        if request.mode == "ExactCount":
            data.count = request.count
        elif request.mode == "All":
            data.all_devices = self._all_devices(where, data, key)
            data.count = len(data.all_devices)
        else:
            raise AllocationError(f"{where}: unsupported count mode {request.mode}")
        return data

    def _all_devices(self, where: str, data: RequestData, key: Key) -> tuple[Candidate, ...]:
        found: list[Candidate] = []
        for pool in self._pools:
            if pool.incomplete:
                raise AllocationError(f"{where}: asks for all devices, but resource pool {pool} is currently being updated")
            if pool.invalid:
                raise AllocationError(f"{where}: asks for all devices, but resource pool {pool} is currently invalid")
            for item in pool.here:
                for device in item.devices:
                    candidate = (pool, item, device)
                    if self._selectable(key, data, candidate) and self._fits_capacity(data, device):
                        found.append(candidate)
        return tuple(found)

    def _trackers(self, claim: Claim) -> list[Tracker]:
        made: list[Tracker] = []
        for index, constraint in enumerate(claim.constraints):
            if constraint.match_attribute is not None:
                made.append(MatchAttribute(constraint, constraint.match_attribute))
            elif constraint.distinct_attribute is not None and self._rules.distinct != "dropped":
                made.append(DistinctAttribute(constraint, constraint.distinct_attribute, self._rules.distinct))
            else:
                raise AllocationError(
                    f"claim {claim.key}, constraint #{index}: empty constraint (unsupported constraint type?)"
                )
        return made
