"""How many cards are free, as far as the API decides it.

The API says how many slots of a resource are held, not on which card each sits. So the answer is a number only where every
placement that the kubelet may have chosen leaves the same count of untouched cards, else a range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product

from ragstow.inventory.model import LayoutGroup, Range, between, bounds


def shares(cards: int, replicas: int, held: int) -> int | Range:
    """Untouched cards of `cards`, each advertised `replicas` times, when `held` of the shares are held."""
    least = -(-held // replicas)
    most = min(cards, held)
    return between(max(0, cards - most), max(0, cards - least))


def slices(groups: Sequence[LayoutGroup], held: Mapping[str, tuple[int, int]]) -> int | Range:
    """Untouched cards among cut ones of a known layout.

    Args:
        groups: the cut cards; whole ones are left out.
        held: profile -> fewest and most slices of it that can be in use (they differ where slices are time-sliced).
    """
    groups = [group for group in groups if group.mig]
    total = sum(group.count for group in groups)
    fewest = {profile: low for profile, (low, _) in held.items() if low}
    most = {profile: high for profile, (_, high) in held.items() if high}
    return between(total - _most_touched(groups, most), max(_most_untouched(groups, fewest), 0))


def _most_untouched(groups: Sequence[LayoutGroup], held: Mapping[str, int]) -> int:
    """The most cards that can stay untouched: the held slices must fit on the others, profile by profile."""
    best = 0
    for untouched in product(*(range(group.count + 1) for group in groups)):
        if sum(untouched) > best and all(
            sum((group.count - free) * (group.mig or {}).get(profile, 0) for group, free in zip(groups, untouched, strict=True))
            >= count
            for profile, count in held.items()
        ):
            best = sum(untouched)
    return best


def _most_touched(groups: Sequence[LayoutGroup], held: Mapping[str, int]) -> int:
    """The most cards that can be touched: a largest matching of held slices to cards that have their profile.

    By Koenig's theorem in its form for quotas it is the least, over all sets of profiles, of the slices held outside the set
    plus the cards that have a profile of the set.
    """
    profiles = sorted(held)
    least = sum(group.count for group in groups)
    for size in range(len(profiles) + 1):
        for chosen in combinations(profiles, size):
            outside = sum(count for profile, count in held.items() if profile not in chosen)
            inside = sum(group.count for group in groups if any((group.mig or {}).get(profile) for profile in chosen))
            least = min(least, outside + inside)
    return least


@dataclass(frozen=True, slots=True)
class SliceSize:
    """What one slice takes of a card, at least: its part of the memory slices, and one of `most` instances."""

    part: Fraction
    most: int


def unknown_cut(cards: int, held: Mapping[str, int], sizes: Mapping[str, SliceSize]) -> int | Range:
    """Untouched cards among `cards` cut ones whose layout is not in the data.

    Args:
        cards: how many are cut.
        held: profile -> slices held.
        sizes: profile -> what a slice takes.
    """
    room = sum((count * sizes[profile].part for profile, count in held.items()), Fraction())
    least = max([math.ceil(room), *(math.ceil(Fraction(count, sizes[profile].most)) for profile, count in held.items())])
    return between(max(0, cards - sum(held.values())), max(0, cards - least))


def add(left: int | Range, right: int | Range) -> int | Range:
    """The sum of two numbers or ranges."""
    (low, high), (more_low, more_high) = bounds(left), bounds(right)
    return between(low + more_low, high + more_high)


def less(value: int | Range, taken: int) -> int | Range:
    """What is left of a number or a range when `taken` cards more are in use."""
    low, high = bounds(value)
    return between(max(0, low - taken), max(0, high - taken))
