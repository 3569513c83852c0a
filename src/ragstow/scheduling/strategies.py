"""The scoring strategies over resources: integer arithmetic exactly as upstream has it.

Sources: plugins/noderesources/{least_allocated,most_allocated,requested_to_capacity_ratio,balanced_allocation,
resource_allocation}.go. Every function takes (weight, requested with the pod, allocatable) of the resources that count; one
with an allocatable of 0 must have been left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragstow.scheduling.framework import MAX_NODE_SCORE

Entry = tuple[int, int, int]
"""(weight, requested with the pod, allocatable)."""

Strategy = Callable[[Sequence[Entry]], int]

MAX_UTILIZATION = 100
_MAX_CUSTOM_SCORE = 10


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource that a strategy looks at, with its weight."""

    name: str
    weight: int = 1


DEFAULT_RESOURCES = (Resource("cpu"), Resource("memory"))


def resources_of(raw: Sequence[Mapping[str, Any]] | None) -> tuple[Resource, ...]:
    """The `resources` of an argument; a weight of 0 or none is 1, no list is cpu and memory."""
    return tuple(Resource(str(item["name"]), int(item.get("weight") or 1)) for item in raw or ()) or DEFAULT_RESOURCES


def least_allocated(entries: Sequence[Entry]) -> int:
    """The weighted mean of what stays free, in percent."""
    total = weights = 0
    for weight, requested, allocatable in entries:
        total += weight * (0 if requested > allocatable else (allocatable - requested) * MAX_NODE_SCORE // allocatable)
        weights += weight
    return total // weights if weights else 0


def most_allocated(entries: Sequence[Entry]) -> int:
    """The weighted mean of what is taken, in percent."""
    total = weights = 0
    for weight, requested, allocatable in entries:
        total += weight * (min(requested, allocatable) * MAX_NODE_SCORE // allocatable)
        weights += weight
    return total // weights if weights else 0


@dataclass(frozen=True, slots=True)
class Shape:
    """A piecewise linear function: (utilisation in percent, score 0..100), ascending in utilisation."""

    points: tuple[tuple[int, int], ...]

    def at(self, utilization: int) -> int:
        """The score at a utilisation, interpolated with integers that round towards zero."""
        before: tuple[int, int] | None = None
        for point in self.points:
            if utilization <= point[0]:
                if before is None:
                    return point[1]
                rise, run = point[1] - before[1], point[0] - before[0]
                return before[1] + truncated(rise * (utilization - before[0]), run)
            before = point
        return self.points[-1][1]


def shape_of(raw: Sequence[Mapping[str, Any]]) -> Shape:
    """The `shape` of a requestedToCapacityRatio argument; scores 0..10 become 0..100."""
    scale = MAX_NODE_SCORE // _MAX_CUSTOM_SCORE
    return Shape(tuple((int(item.get("utilization") or 0), int(item.get("score") or 0) * scale) for item in raw))


def requested_to_capacity(shape: Shape) -> Strategy:
    """The weighted mean of the shape at each resource's utilisation; resources that score 0 do not count."""

    def score(entries: Sequence[Entry]) -> int:
        total = weights = 0
        for weight, requested, allocatable in entries:
            used = MAX_UTILIZATION if requested > allocatable else requested * MAX_UTILIZATION // allocatable
            points = shape.at(used)
            if points > 0:
                total += points * weight
                weights += weight
        return rounded(total / weights) if weights else 0

    return score


def balance(entries: Sequence[Entry]) -> int:
    """100 minus the standard deviation of the utilised shares, in percent, truncated."""
    shares = [min(requested / allocatable, 1.0) for _weight, requested, allocatable in entries]
    deviation = 0.0
    if len(shares) == 2:
        deviation = abs((shares[0] - shares[1]) / 2)
    elif len(shares) > 2:
        mean = 0.0
        for share in shares:
            mean += share
        mean /= len(shares)
        squares = 0.0
        for share in shares:
            squares += (share - mean) * (share - mean)
        deviation = math.sqrt(squares / len(shares))
    return int((1 - deviation) * MAX_NODE_SCORE)


def truncated(dividend: int, divisor: int) -> int:
    """Integer division that rounds towards zero, as Go's does."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend >= 0) == (divisor > 0) else -quotient


def rounded(number: float) -> int:
    """math.Round: halves away from zero."""
    size = abs(number)
    whole = math.floor(size)
    whole += size - whole >= 0.5
    return whole if number >= 0 else -whole
