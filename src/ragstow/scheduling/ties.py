"""How equal nodes are told apart: kube-scheduler draws one at random, we take the lowest name or a repeatable draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

_MASK = 2**64 - 1


class TieBreaker(Protocol):
    """Picks one of several equally good nodes."""

    def pick(self, names: Sequence[str]) -> str:
        """One of `names`, which are sorted and not empty."""


class ByName:
    """The lowest name."""

    def pick(self, names: Sequence[str]) -> str:
        """The first."""
        return names[0]


class Seeded:
    """A uniform draw from a generator of its own (splitmix64), so that a seed gives the same answer on every machine.

    Args:
        seed: any integer.
    """

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def pick(self, names: Sequence[str]) -> str:
        """The next draw; a single name takes none."""
        if len(names) == 1:
            return names[0]
        limit = (_MASK + 1) - (_MASK + 1) % len(names)
        while (drawn := self._next()) >= limit:
            pass
        return names[drawn % len(names)]

    def _next(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)
