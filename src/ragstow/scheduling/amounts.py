"""Amounts of resources as the scheduler adds them up: names that count, nano units, rounding, the sum over containers.

Source: k8s.io/component-helpers/resource/helpers.go and pkg/apis/core/v1/helper. Sums are made in nano units and rounded up
once at the end: cpu to millicores, everything else to whole units. Resources that the scheduler does not know (no domain, no
hugepages) do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ragstow import quantity
from ragstow.errors import InputError

Nano = dict[str, int]
"""Resource name -> amount in nano units."""

Amounts = Mapping[str, int]
"""Resource name -> amount: cpu in millicores, all others in whole units."""


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
class Item:
    """A container in a sum: its name, whether it is a sidecar, and its requests."""

    name: str
    sidecar: bool
    requests: Mapping[str, int]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Item:
        """The container as its spec has it."""
        requests = nano((raw.get("resources") or {}).get("requests"))
        return cls(str(raw.get("name") or ""), raw.get("restartPolicy") == "Always", requests)

    def asking(self, requests: Mapping[str, int]) -> Item:
        """The same container with other requests."""
        return Item(self.name, self.sidecar, requests)


def container_total(containers: Iterable[Item], inits: Iterable[Item], missing: Mapping[str, int]) -> Nano:
    """Containers and sidecars added, or the largest phase of the init containers where that is more.

    An init container runs beside the sidecars before it. `missing` are defaults for entries that a container does not have.
    """
    total: Nano = {}
    for item in containers:
        add(total, _filled(item.requests, missing))
    running: Nano = {}
    most: Nano = {}
    for item in inits:
        asked = _filled(item.requests, missing)
        if item.sidecar:
            add(total, asked)
            add(running, asked)
            _raise(most, running)
        else:
            phase = dict(running)
            add(phase, asked)
            _raise(most, phase)
    _raise(total, most)
    return total


def add(total: Nano, more: Mapping[str, int]) -> None:
    """Add amounts to a total, in place."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def largest(sums: Iterable[Mapping[str, int]]) -> Nano:
    """The largest amount of every resource."""
    made: Nano = {}
    for one in sums:
        _raise(made, one)
    return made


def nano(raw: Mapping[str, Any] | None) -> Nano:
    """A resource list in nano units; what is no quantity counts 0 (the snapshot has reported it)."""
    return {str(name): _parse(amount) for name, amount in raw.items()} if raw else {}


def pod_level(raw: Mapping[str, Any] | None) -> Nano:
    """The entries of a resource list that may stand in a pod's own resources."""
    return {name: amount for name, amount in nano(raw).items() if is_pod_level(name)}


def rounded(amounts: Mapping[str, int]) -> Amounts:
    """Amounts in the units of the scheduler, of the resources that it knows."""
    return {name: round_up(name, amount) for name, amount in amounts.items() if is_known(name)}


_MOST = 2**60
"""More than any machine has of anything; sums of several still fit into 64 bits."""


def round_up(name: str, amount: int) -> int:
    """Nano units as millicores of cpu, or whole units; away from zero."""
    unit = quantity.NANO // 1000 if name == "cpu" else quantity.NANO
    return min(-(-amount // unit), _MOST) if amount >= 0 else amount // unit


@lru_cache(maxsize=65536)
def _parse(text: str | int | float) -> int:
    try:
        return quantity.parse(text).nano
    except InputError:
        return 0


def _filled(requests: Mapping[str, int], missing: Mapping[str, int]) -> Mapping[str, int]:
    return {**missing, **requests} if missing else requests


def _raise(total: Nano, other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount
