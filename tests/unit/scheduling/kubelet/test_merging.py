"""Merging of topology hints against the definition: every combination of one hint from each list, tried one by one."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from ragstow.scheduling.kubelet.hints import ANY, IMPOSSIBLE, Hint, _convolve, merge

EVERYTHING = 0b1111

masks = st.lists(st.tuples(st.integers(1, EVERYTHING), st.booleans()), min_size=1, max_size=6).map(
    lambda rows: tuple(Hint(mask, preferred) for mask, preferred in rows)
)
lists = st.lists(st.one_of(masks, st.just(ANY), st.just(IMPOSSIBLE)), min_size=1, max_size=3)


@given(lists)
def test_merge_is_the_best_of_all_combinations(hints: list[tuple[Hint, ...]]) -> None:
    wanted = max(min(h.mask.bit_count() if h.mask is not None else 0 for h in one) for one in hints)
    candidates: list[Hint] = []
    for combination in product(*hints):
        affinities = [h.mask for h in combination if h.mask is not None]
        merged = EVERYTHING
        for mask in affinities:
            merged &= mask
        preferred = all(h.preferred for h in combination) and len(set(affinities)) <= 1
        if merged:
            candidates.append(Hint(merged, preferred))

    def rank(hint: Hint) -> tuple[bool, bool, int, int]:
        assert hint.mask is not None
        size = hint.mask.bit_count()
        if hint.preferred:
            return (False, False, size, hint.mask)
        return (True, size > wanted, size if size > wanted else -size, hint.mask)

    expected = min(candidates, key=rank) if candidates else Hint(EVERYTHING, False)
    assert merge(hints, EVERYTHING) == expected


@given(st.sets(st.integers(0, 31), min_size=1), st.sets(st.integers(0, 31), min_size=1))
def test_counted_ands_are_all_pairwise_ands(one: set[int], other: set[int]) -> None:
    assert _convolve(one, other, 5) == {a & b for a in one for b in other}


def test_distance_decides_between_equal_sizes() -> None:
    hints = [(Hint(0b0011, True), Hint(0b1001, True))]
    far_low = {0b0011: 40, 0b1001: 24}
    assert merge(hints, EVERYTHING).mask == 0b0011
    assert merge(hints, EVERYTHING, lambda mask: far_low[mask]).mask == 0b1001
