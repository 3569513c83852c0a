"""How much a pod asks for, as the scheduler sums it (component-helpers/resource/helpers.go, framework/types.go).

Limits are not looked at: the API server has made requests of them before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ragstow import quantity
from ragstow.cluster.objects import Pod
from ragstow.scheduling import resizing
from ragstow.scheduling.amounts import Amounts, Item, Nano, add, container_total, nano, pod_level, round_up, rounded
from ragstow.scheduling.behaviours import POD_LEVEL_RESIZE, POD_LEVEL_RESOURCES, RESIZE_THREE_SUMS
from ragstow.scheduling.release import Release

DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024
_DEFAULTS: Mapping[str, int] = {
    "cpu": DEFAULT_CPU_MILLI * quantity.NANO // 1000,
    "memory": DEFAULT_MEMORY_BYTES * quantity.NANO,
}
"""What a container without an entry counts in the scores of LeastAllocated and its kin (util/pod_resources.go)."""

_Frozen = tuple[tuple[str, int], ...]
_Containers = tuple[tuple[bool, _Frozen], ...]


@dataclass(frozen=True, slots=True)
class Sums:
    """What a pod counts: `plain` for filters and BalancedAllocation; the rest with defaults for missing entries.

    `scored` are the sums that NodeResourcesFit's score uses of an arriving pod: containers with defaults and overhead, without
    pod-level requests.
    """

    plain: Amounts
    non_zero_cpu_milli: int
    non_zero_memory_bytes: int
    scored: Amounts


def of_pod(pod: Pod, release: Release) -> Sums:
    """The sums of a pod: from its spec, and from its status too where the pod is on a node."""
    spec, status = pod.spec, pod.status
    containers = [Item.of(raw) for raw in spec.get("containers") or ()]
    inits = [Item.of(raw) for raw in spec.get("initContainers") or ()]
    overhead = nano(spec.get("overhead"))
    level = pod_level((spec.get("resources") or {}).get("requests")) if POD_LEVEL_RESOURCES.at(release) else {}
    if pod.node is not None and resizing.is_resizing(status, [*containers, *inits]):
        own = POD_LEVEL_RESIZE.at(release)
        in_force = resizing.own_level(status, level) if own else level
        if RESIZE_THREE_SUMS.at(release):
            plain = _finished(resizing.whole_pod(status, containers, inits, {}, own=own), in_force, overhead)
            missing = _missing(level, plain)
            non_zero = _finished(resizing.whole_pod(status, containers, inits, missing, own=own), in_force, overhead)
            return _made(plain, non_zero, non_zero)
        containers, inits = resizing.per_container(status, containers, inits)
        level = in_force
    return _sums(_frozen(containers), _frozen(inits), tuple(overhead.items()), tuple(level.items()))


@lru_cache(maxsize=65536)
def _sums(containers: _Containers, inits: _Containers, overhead: _Frozen, level: _Frozen) -> Sums:
    """The sums of a pod whose size is settled; pods of one size share them."""
    main, first = _items(containers), _items(inits)
    extra, own = dict(overhead), dict(level)
    plain = _finished(container_total(main, first, {}), own, extra)
    non_zero = _finished(container_total(main, first, _missing(own, plain)), own, extra)
    scored = _finished(container_total(main, first, _DEFAULTS), {}, extra) if own else non_zero
    return _made(plain, non_zero, scored)


def _finished(total: Nano, level: Mapping[str, int], overhead: Mapping[str, int]) -> Nano:
    """Pod-level entries instead of the containers' sums, overhead on top."""
    total.update(level)
    add(total, overhead)
    return total


def _missing(level: Nano, plain: Nano) -> Mapping[str, int]:
    """Defaults of containers without an entry; with pod-level requests only of what the whole pod does not name."""
    return {name: amount for name, amount in _DEFAULTS.items() if name not in plain} if level else _DEFAULTS


def _made(plain: Nano, non_zero: Nano, scored: Nano) -> Sums:
    cpu, memory = round_up("cpu", non_zero.get("cpu", 0)), round_up("memory", non_zero.get("memory", 0))
    return Sums(rounded(plain), cpu, memory, rounded(scored))


def _frozen(items: list[Item]) -> _Containers:
    return tuple((item.sidecar, tuple(item.requests.items())) for item in items)


def _items(frozen: _Containers) -> list[Item]:
    return [Item("", sidecar, dict(requests)) for sidecar, requests in frozen]
