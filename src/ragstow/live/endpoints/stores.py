"""What any vector store is asked: keep some vectors, find the nearest, and forget them again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ragstow.verification.answers import Vector
from ragstow.verification.model import Evidence
from ragstow.verification.vectors import length


@dataclass(frozen=True, slots=True)
class Kept:
    """What a store found: indices of the vectors, nearest first, with scores or distances as the store tells them.

    `about` says what the store is ("PostgreSQL 18.6, pgvector 0.8.1"), `left` the name of what could not be taken away again.
    """

    nearest: tuple[tuple[int, float], ...]
    seconds: float
    about: str
    evidence: tuple[Evidence, ...] = ()
    left: str | None = None


def made_up(size: int) -> tuple[tuple[Vector, ...], Vector]:
    """Three vectors of a size, and one whose nearest is the second of them; for a store without an embedder."""
    rows = [_unit([math.cos((row + 1) * (at + 1)) for at in range(size)]) for row in range(3)]
    near = _unit([0.9 * b + 0.1 * a for a, b in zip(rows[0], rows[1], strict=True)])
    return tuple(rows), near


NEAREST = 1
"""The index that `made_up` promises."""


def _unit(numbers: Sequence[float]) -> Vector:
    size = length(numbers)
    return tuple(number / size for number in numbers)
