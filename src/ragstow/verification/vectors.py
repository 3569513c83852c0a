"""What must hold of the vectors of an embedder: finite, not zero, of length 1 where the engine says so, alike or not."""

from __future__ import annotations

import math
from collections.abc import Sequence

LENGTH_TOLERANCE = 0.01
"""How far from 1 the length of a normalised vector may be: half precision, and numbers that were rounded for JSON."""
SAME = 0.999
"""Cosine of two vectors of the same text: batches and kernels differ in the last bits only."""
DIFFERENT = 0.9999
"""Cosine of two different texts must stay below; models with a narrow cone reach 0.9 and more."""


def broken(vector: Sequence[float]) -> int:
    """How many numbers are not finite."""
    return sum(not math.isfinite(number) for number in vector)


def length(vector: Sequence[float]) -> float:
    """The Euclidean length."""
    return math.sqrt(math.fsum(number * number for number in vector))


def normalised(vector: Sequence[float]) -> bool:
    """Whether the length is 1 within the tolerance."""
    return abs(length(vector) - 1) <= LENGTH_TOLERANCE


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of the angle between two vectors; NaN where one of them is zero, not finite or of another size."""
    if len(one) != len(other):
        return math.nan
    lengths = length(one) * length(other)
    if not math.isfinite(lengths) or lengths == 0:
        return math.nan
    return math.fsum(a * b for a, b in zip(one, other, strict=True)) / lengths
