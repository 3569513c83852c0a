"""The score of a node by how full its storage would be (KEP-4049, StorageCapacityScoring).

For each storage class the requests over the capacity: of the volumes that would be bound, or, where none would, of what would
be provisioned from a published capacity. The utilisation goes through a shape (by default emptier is better), the mean over the
classes is the score. Source: pkg/scheduler/framework/plugins/volumebinding (volume_binding.go, scorer.go).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragstow.scheduling.volumes.binding import PodVolumes

Shape = tuple[tuple[int, int], ...]
"""(utilisation in percent, score 0..100), by utilisation."""

_DEFAULT: Shape = ((0, 100), (100, 0))
_SCALE = 10
"""Scores are configured from 0 to 10."""


def shape_of(raw: Sequence[Mapping[str, Any]] | None) -> Shape:
    """The shape that the plugin's arguments give, or the default."""
    if not raw:
        return _DEFAULT
    return tuple((int(point.get("utilization") or 0), int(point.get("score") or 0) * _SCALE) for point in raw)


def score(volumes: PodVolumes, shape: Shape) -> int:
    """0..100; 0 where there is nothing to compare."""
    requested: dict[str, int] = {}
    capacity: dict[str, int] = {}
    for claim, volume in volumes.static:
        name = volume.class_name
        requested[name] = requested.get(name, 0) + (claim.requested.value if claim.requested else 0)
        capacity[name] = capacity.get(name, 0) + volume.capacity.value
    if not volumes.static:
        for claim, published in volumes.dynamic:
            if published is None:
                continue
            requested[claim.class_name] = requested.get(claim.class_name, 0) + (claim.requested.value if claim.requested else 0)
            capacity[claim.class_name] = published.capacity.value if published.capacity else 0
    if not requested:
        return 0
    total = sum(_at(shape, _utilisation(requested[name], capacity[name])) for name in requested)
    return (2 * total + len(requested)) // (2 * len(requested))


def _utilisation(requested: int, capacity: int) -> int:
    return 100 if capacity == 0 or requested > capacity else requested * 100 // capacity


def _at(shape: Shape, utilisation: int) -> int:
    """Piecewise linear, in integers (helper.BuildBrokenLinearFunction)."""
    for index, (x, y) in enumerate(shape):
        if utilisation <= x:
            if index == 0:
                return y
            x0, y0 = shape[index - 1]
            return y0 + _towards_zero((y - y0) * (utilisation - x0), x - x0)
    return shape[-1][1]


def _towards_zero(amount: int, by: int) -> int:
    return amount // by if amount >= 0 else -(-amount // by)
