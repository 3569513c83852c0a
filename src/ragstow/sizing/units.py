"""Bytes and bands. Small arithmetic that every formula of this room uses."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, sqrt

from ragstow.sizing.model import Term

MIB = 2**20
GIB = 2**30

_SMALL_BLOCK = 512
_LARGE_REQUEST = 10 * MIB
_LARGE_STEP = 2 * MIB


def mib(amount: float) -> int:
    """Whole bytes of an amount in MiB."""
    return round(amount * MIB)


def allocated(bytes_: int) -> int:
    """What PyTorch's CUDA allocator counts for a tensor of so many bytes.

    Requests of 10 MiB and more are made in steps of 2 MiB; a rest of at most 1 MiB is not split off and stays with the tensor
    (PyTorch c10/cuda/CUDACachingAllocator: round_size, get_allocation_size, should_split).
    """
    if bytes_ < _LARGE_REQUEST:
        return -(-bytes_ // _SMALL_BLOCK) * _SMALL_BLOCK
    stepped = -(-bytes_ // _LARGE_STEP) * _LARGE_STEP
    return stepped if stepped - bytes_ <= MIB else bytes_


def term(
    name: str, bytes_: float, source: str, factors: tuple[float, float] = (1.0, 1.0), *, lever: str = "", inside: bool = True
) -> Term:
    """A term whose band is a pair of factors on its bytes."""
    return Term(
        name, round(bytes_), source, (round(bytes_ * factors[0]), round(bytes_ * factors[1])), lever, inside_budget=inside
    )


def band_of(terms: Iterable[Term]) -> tuple[int, int]:
    """The band of a sum: the terms are independent of each other, so their deviations add as squares."""
    listed = tuple(terms)
    total = sum(item.bytes for item in listed)
    down = sqrt(sum((item.bytes - item.band[0]) ** 2 for item in listed))
    up = sqrt(sum((item.band[1] - item.bytes) ** 2 for item in listed))
    return max(0, total - ceil(down)), total + ceil(up)
