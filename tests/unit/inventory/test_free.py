"""Free cards against every placement that the kubelet could have made, tried one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from ragstow.inventory import free
from ragstow.inventory.free import SliceSize
from ragstow.inventory.model import LayoutGroup, Range, between, bounds


def test_numbers_and_ranges() -> None:
    assert between(2, 2) == 2
    assert between(1, 2) == Range(1, 2)
    assert free.add(Range(1, 2), 3) == Range(4, 5)
    assert free.add(1, 2) == 3
    assert free.less(Range(0, 2), 1) == Range(0, 1)
    assert free.less(1, 5) == 0


def used_cards(slots: Sequence[int], held: int) -> Iterator[int]:
    """How many cards are touched by each way to hold `held` of the slots; slots[i] is the card of slot i."""
    for chosen in combinations(range(len(slots)), held):
        yield len({slots[index] for index in chosen})


@given(cards=st.integers(1, 4), replicas=st.integers(1, 4), data=st.data())
def test_shares(cards: int, replicas: int, data: st.DataObject) -> None:
    held = data.draw(st.integers(0, cards * replicas))
    touched = set(used_cards([card for card in range(cards) for _ in range(replicas)], held))
    assert bounds(free.shares(cards, replicas, held)) == (cards - max(touched), cards - min(touched))


def touched_sets(cards: Sequence[Mapping[str, int]], held: Mapping[str, int]) -> set[frozenset[int]]:
    """Every set of cards that some placement of the held slices touches."""
    found = {frozenset[int]()}
    for profile, count in held.items():
        slots = [index for index, cut in enumerate(cards) for _ in range(cut.get(profile, 0))]
        ways = {frozenset(slots[index] for index in chosen) for chosen in combinations(range(len(slots)), count)}
        found = {before | way for before in found for way in ways}
    return found


_PROFILES = ("1g.10gb", "2g.20gb", "3g.40gb")
_cut = st.dictionaries(st.sampled_from(_PROFILES), st.integers(1, 2), min_size=1)


@given(groups=st.lists(st.tuples(_cut, st.integers(1, 2)), min_size=1, max_size=3), data=st.data())
def test_slices_of_a_known_layout(groups: list[tuple[dict[str, int], int]], data: st.DataObject) -> None:
    cards = [cut for cut, count in groups for _ in range(count)]
    offered = {profile: sum(cut.get(profile, 0) for cut in cards) for profile in _PROFILES}
    held = {profile: data.draw(st.integers(0, min(count, 3)), label=profile) for profile, count in offered.items()}
    touched = {len(way) for way in touched_sets(cards, held)}
    layout = [LayoutGroup(count, cut) for cut, count in groups]
    found = free.slices(layout, {profile: (count, count) for profile, count in held.items()})
    assert bounds(found) == (len(cards) - max(touched), len(cards) - min(touched))


@given(groups=st.lists(st.tuples(_cut, st.integers(1, 2)), min_size=1, max_size=3), data=st.data())
def test_an_unknown_layout_is_never_narrower_than_the_truth(
    groups: list[tuple[dict[str, int], int]], data: st.DataObject
) -> None:
    cards = [cut for cut, count in groups for _ in range(count)]
    offered = {profile: sum(cut.get(profile, 0) for cut in cards) for profile in _PROFILES}
    held = {profile: data.draw(st.integers(0, min(count, 3)), label=profile) for profile, count in offered.items()}
    touched = {len(way) for way in touched_sets(cards, held)}
    # Two of each fit on a card of these groups, so a slice takes a sixth of it at most.
    sizes = {profile: SliceSize(Fraction(1, 6), 2) for profile in _PROFILES}
    low, high = bounds(free.unknown_cut(len(cards), held, sizes))
    assert low <= len(cards) - max(touched)
    assert high >= len(cards) - min(touched)
