"""How much a pod asks for, as the scheduler sums it.

Source: k8s.io/component-helpers/resource/helpers.go (PodRequests) and pkg/scheduler/framework/types.go. Sums are made in nano
units and rounded up once at the end: cpu to millicores, everything else to whole units. Limits are not looked at (the API
server has made requests of them before). Resources that the scheduler does not know (no domain, no hugepages) do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ragstow import quantity
from ragstow.cluster.objects import Pod
from ragstow.errors import InputError
from ragstow.scheduling.behaviours import POD_LEVEL_RESIZE, POD_LEVEL_RESOURCES, RESIZE_THREE_SUMS
from ragstow.scheduling.release import Release

Nano = dict[str, int]
Amounts = Mapping[str, int]
"""Resource name -> amount: cpu in millicores, all others in whole units."""

DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024
_DEFAULTS: Mapping[str, int] = {
    "cpu": DEFAULT_CPU_MILLI * quantity.NANO // 1000,
    "memory": DEFAULT_MEMORY_BYTES * quantity.NANO,
}
"""What a container without an entry counts in the scores of LeastAllocated and its kin (util/pod_resources.go)."""


def is_extended(resource: str) -> bool:
    """Whether it is an extended resource: of a domain not kubernetes.io, no quota name (v1helper.IsExtendedResourceName)."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def is_scalar(resource: str) -> bool:
    """Whether it is counted as a scalar: extended, hugepages, attachable volumes or of kubernetes.io (IsScalarResourceName)."""
    return resource.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in resource or is_extended(resource)


def is_known(resource: str) -> bool:
    """Whether the scheduler counts it at all."""
    return resource in ("cpu", "memory", "ephemeral-storage") or is_scalar(resource)


def is_pod_level(resource: str) -> bool:
    """Whether it may stand in a pod's own spec.resources (IsSupportedPodLevelResource)."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


@dataclass(frozen=True, slots=True)
class Sums:
    """What a pod counts: `plain` for filters and BalancedAllocation; the rest with defaults for missing entries.

    `scored` are the plain sums that NodeResourcesFit's score uses of an arriving pod: container sums with defaults and
    overhead, without pod-level requests.
    """

    plain: Amounts
    non_zero_cpu_milli: int
    non_zero_memory_bytes: int
    scored: Amounts


def of_pod(pod: Pod, release: Release) -> Sums:
    """The sums of a pod: from its spec, and from its status too where the pod is on a node."""
    spec, status = pod.spec, pod.status
    containers = [_Item(raw) for raw in spec.get("containers") or ()]
    inits = [_Item(raw) for raw in spec.get("initContainers") or ()]
    overhead = _nano(spec.get("overhead"))
    level = _level(spec) if POD_LEVEL_RESOURCES.at(release) else {}
    if pod.node is not None and _resizing(status, [*containers, *inits]):
        if RESIZE_THREE_SUMS.at(release):
            return _three_sums(status, containers, inits, overhead, level, pod_level=POD_LEVEL_RESIZE.at(release))
        containers, inits = _per_container(status, containers, inits)
    return _sums(_frozen(containers), _frozen(inits), tuple(overhead.items()), tuple(level.items()))


_Frozen = tuple[tuple[bool, tuple[tuple[str, int], ...]], ...]


def _frozen(items: list[_Item]) -> _Frozen:
    return tuple((item.sidecar, tuple(item.requests.items())) for item in items)


@lru_cache(maxsize=65536)
def _sums(
    containers: _Frozen, inits: _Frozen, overhead: tuple[tuple[str, int], ...], level: tuple[tuple[str, int], ...]
) -> Sums:
    """The sums of a pod whose size is as its spec says; pods of one size share them."""
    main, first = [_Item.of(*item) for item in containers], [_Item.of(*item) for item in inits]
    extra, own = dict(overhead), dict(level)
    plain = _total(main, first, extra, own, {})
    non_zero = _total(main, first, extra, own, _missing(own, plain))
    return _made(plain, non_zero, _total(main, first, extra, {}, _DEFAULTS) if own else non_zero)


def _missing(level: Nano, plain: Nano) -> Mapping[str, int]:
    """Defaults of containers without an entry; with pod-level requests only of what the whole pod does not name."""
    return {name: amount for name, amount in _DEFAULTS.items() if name not in plain} if level else _DEFAULTS


def _made(plain: Nano, non_zero: Nano, scored: Nano) -> Sums:
    cpu, memory = _round("cpu", non_zero.get("cpu", 0)), _round("memory", non_zero.get("memory", 0))
    return Sums(_rounded(plain), cpu, memory, _rounded(scored))


class _Item:
    """A container in a sum: its name, whether it is a sidecar, and its requests in nano units."""

    __slots__ = ("name", "requests", "sidecar")

    def __init__(self, raw: Mapping[str, Any], requests: Nano | None = None) -> None:
        self.name = str(raw.get("name") or "")
        self.sidecar = raw.get("restartPolicy") == "Always"
        self.requests = _nano((raw.get("resources") or {}).get("requests")) if requests is None else requests

    @classmethod
    def of(cls, sidecar: bool, requests: tuple[tuple[str, int], ...]) -> _Item:
        """A container without a name."""
        item = cls.__new__(cls)
        item.name, item.sidecar, item.requests = "", sidecar, dict(requests)
        return item

    def asking(self, requests: Nano) -> _Item:
        """The same container with other requests."""
        item = _Item.__new__(_Item)
        item.name, item.sidecar, item.requests = self.name, self.sidecar, requests
        return item


def _total(
    containers: Iterable[_Item],
    inits: Iterable[_Item],
    overhead: Mapping[str, int],
    level: Mapping[str, int],
    missing: Mapping[str, int],
) -> Nano:
    """Containers and sidecars, or the largest init phase; pod-level entries instead of their sums; overhead on top."""
    total: Nano = {}
    for item in containers:
        _add(total, _filled(item.requests, missing))
    running: Nano = {}
    largest: Nano = {}
    for item in inits:
        asked = _filled(item.requests, missing)
        if item.sidecar:
            _add(total, asked)
            _add(running, asked)
            _raise(largest, running)
        else:
            phase = dict(running)
            _add(phase, asked)
            _raise(largest, phase)
    _raise(total, largest)
    total.update(level)
    _add(total, overhead)
    return total


def _filled(requests: Nano, missing: Mapping[str, int]) -> Mapping[str, int]:
    return {**missing, **requests} if missing else requests


def _add(total: Nano, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: Nano, other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def _largest(sums: Iterable[Nano]) -> Nano:
    made: Nano = {}
    for one in sums:
        _raise(made, one)
    return made


def _level(spec: Mapping[str, Any]) -> Nano:
    return {name: amount for name, amount in _nano((spec.get("resources") or {}).get("requests")).items() if is_pod_level(name)}


# --- pods on nodes whose size is being changed in place (KEP-1287) ------------------------------------------------------


def _resizing(status: Mapping[str, Any], items: list[_Item]) -> bool:
    """Whether the status says anything about the pod's size that the spec does not say too."""
    if status.get("resources") is not None or status.get("allocatedResources") is not None:
        return True
    found = _statuses(status)
    infeasible = bool(found) and _infeasible(status)
    for item in items:
        state = found.get(item.name)
        if state is None:
            if infeasible:
                return True
            continue
        actual, allocated = state.get("resources"), state.get("allocatedResources")
        if infeasible and actual is None and allocated is None:
            return True
        if actual is not None and _nano(actual.get("requests")) != item.requests:
            return True
        if allocated is not None and _nano(allocated) != item.requests:
            return True
    return False


def _infeasible(status: Mapping[str, Any]) -> bool:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False


def _statuses(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    listed = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    return {str(item.get("name") or ""): item for item in listed}


def _per_container(status: Mapping[str, Any], containers: list[_Item], inits: list[_Item]) -> tuple[list[_Item], list[_Item]]:
    """Up to 1.36: the largest of spec, status.resources and allocatedResources per container, where status.resources is set."""
    found, infeasible = _statuses(status), _infeasible(status)

    def seen(item: _Item) -> _Item:
        state = found.get(item.name)
        if state is None or state.get("resources") is None:
            return item
        parts = [_nano(state["resources"].get("requests")), _nano(state.get("allocatedResources"))]
        return item.asking(_largest(parts if infeasible else [item.requests, *parts]))

    return [seen(item) for item in containers], [seen(item) if item.sidecar else item for item in inits]


def _actual(status: Mapping[str, Any], containers: list[_Item], inits: list[_Item]) -> list[tuple[list[_Item], list[_Item]]]:
    """Since 1.37: the whole pod three times: as specified (not when the resize is infeasible), as allocated, as actuated."""
    found, infeasible = _statuses(status), _infeasible(status)

    def allocated(item: _Item) -> _Item:
        state = found.get(item.name) or {}
        if state.get("allocatedResources") is not None:
            return item.asking(_nano(state["allocatedResources"]))
        return item.asking({}) if infeasible else item

    def actuated(item: _Item) -> _Item:
        state = found.get(item.name) or {}
        if state.get("resources") is not None:
            return item.asking(_nano(state["resources"].get("requests")))
        return allocated(item)

    views = [] if infeasible else [(containers, inits)]
    views.append(([allocated(item) for item in containers], [allocated(item) for item in inits]))
    views.append(([actuated(item) for item in containers], [actuated(item) for item in inits]))
    return views


def _three_sums(
    status: Mapping[str, Any], containers: list[_Item], inits: list[_Item], overhead: Nano, level: Nano, *, pod_level: bool
) -> Sums:
    views = _actual(status, containers, inits)
    levels = _level_views(level, status, infeasible=_infeasible(status), counts=pod_level)

    def largest(missing: Mapping[str, int]) -> Nano:
        return _largest(_total(main, first, overhead, own, missing) for (main, first), own in zip(views, levels, strict=True))

    plain = largest({})
    non_zero = largest(_missing(level, plain))
    return _made(plain, non_zero, non_zero)


def _level_views(level: Nano, status: Mapping[str, Any], *, infeasible: bool, counts: bool) -> list[Nano]:
    """The pod-level requests of each of the three views."""
    allocated_raw = status.get("allocatedResources") if counts else None
    resources_raw = status.get("resources") if counts else None
    allocated = level if allocated_raw is None else _pod_level_only(allocated_raw)
    actuated = allocated if resources_raw is None else _pod_level_only(resources_raw.get("requests"))
    return [allocated, actuated] if infeasible else [level, allocated, actuated]


def _pod_level_only(raw: Mapping[str, Any] | None) -> Nano:
    return {name: amount for name, amount in _nano(raw).items() if is_pod_level(name)}


# --- amounts ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=65536)
def _parse(text: str | int | float) -> int:
    try:
        return quantity.parse(text).nano
    except InputError:
        return 0


def _nano(raw: Mapping[str, Any] | None) -> Nano:
    return {str(name): _parse(amount) for name, amount in raw.items()} if raw else {}


def _round(name: str, nano: int) -> int:
    unit = quantity.NANO // 1000 if name == "cpu" else quantity.NANO
    return -(-nano // unit) if nano >= 0 else nano // unit


def _rounded(amounts: Nano) -> Amounts:
    return {name: _round(name, nano) for name, nano in amounts.items() if is_known(name)}
