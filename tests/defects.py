"""Recorded clusters with one defect each: the registry, and what the makers of defects share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from variants import Variant

Raw = dict[str, Any]
CHART = "nvdp-nvidia-device-plugin"


@dataclass(frozen=True)
class Defect:
    """A broken cluster: what must be found in it; `held` are the pods that wait or fail for it."""

    variant: Variant
    cause: str
    objects: tuple[str, ...]
    held: tuple[str, ...] | None = ()
    also: tuple[str, ...] = ()


DEFECTS: dict[str, Callable[[], Defect]] = {}


def defect(make: Callable[[], Defect]) -> Callable[[], Defect]:
    DEFECTS[make.__name__.replace("_", "-")] = make
    return make


def keys(pods: Iterable[Raw]) -> tuple[str, ...]:
    return tuple(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods)


def require(spec: Raw, key: str, *values: str) -> None:
    """Replaces the required node affinity."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
