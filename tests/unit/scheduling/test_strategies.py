"""Scores over resources: integers and floats as upstream computes them; ties; normalisation."""

from __future__ import annotations

from collections import Counter

import pytest

from ragstow.scheduling.cycle import nodes_to_find
from ragstow.scheduling.normalize import default_normalize
from ragstow.scheduling.strategies import (
    balance,
    least_allocated,
    most_allocated,
    requested_to_capacity,
    rounded,
    shape_of,
    truncated,
)
from ragstow.scheduling.ties import ByName, Seeded


def test_least_and_most_allocated() -> None:
    entries = [(1, 3000, 4000), (1, 5, 10)]
    assert least_allocated(entries) == (25 + 50) // 2
    assert most_allocated(entries) == (75 + 50) // 2
    assert least_allocated([(1, 5000, 4000), (3, 0, 10)]) == 75
    assert most_allocated([(1, 5000, 4000), (3, 0, 10)]) == 25
    assert least_allocated([]) == most_allocated([]) == 0


def test_requested_to_capacity_ratio_leaves_out_resources_that_score_nothing() -> None:
    score = requested_to_capacity(shape_of([{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]))
    assert score([(3, 0, 8), (1, 25, 100)]) == 25
    assert score([(3, 9, 8), (1, 25, 100)]) == rounded((300 + 25) / 4)
    assert score([(1, 0, 1)]) == 0


def test_a_falling_shape_rounds_towards_zero() -> None:
    shape = shape_of([{"utilization": 0, "score": 10}, {"utilization": 30, "score": 0}])
    assert [shape.at(percent) for percent in (0, 1, 29, 30, 99)] == [100, 100 - 3, 100 - 96, 0, 0]


@pytest.mark.parametrize(
    ("entries", "score"),
    [
        ([(1, 1, 2), (1, 1, 2)], 100),
        ([(1, 2, 2), (1, 0, 2)], 50),
        ([(1, 5, 2), (1, 0, 2)], 50),
        ([(1, 1, 3)], 100),
        ([], 100),
        ([(1, 0, 2), (1, 1, 2), (1, 2, 2)], 59),
    ],
)
def test_balance(entries: list[tuple[int, int, int]], score: int) -> None:
    assert balance(entries) == score


def test_rounding() -> None:
    assert [rounded(number) for number in (0.5, 1.5, 2.4999999, -0.5, 0.49999999999999994)] == [1, 2, 2, -1, 0]
    assert [truncated(-7, 2), truncated(7, -2), truncated(7, 2)] == [-3, -3, 3]


def test_default_normalisation() -> None:
    scores, reverse, none = [1, 2, 3], [0, 1, 3], [0, 0]
    default_normalize(scores)
    default_normalize(reverse, reverse=True)
    default_normalize(none, reverse=True)
    assert (scores, reverse, none) == ([33, 66, 100], [100, 67, 0], [100, 100])


@pytest.mark.parametrize(
    ("nodes", "percentage", "wanted"),
    [
        (99, 0, 99),
        (100, 0, 100),
        (1213, 0, 497),
        (5000, 0, 500),
        (6000, 0, 300),
        (1000, 30, 300),
        (1000, 5, 100),
        (1000, 100, 1000),
    ],
)
def test_adaptive_sampling_ends_after_so_many(nodes: int, percentage: int, wanted: int) -> None:
    assert nodes_to_find(nodes, percentage) == wanted


def test_ties() -> None:
    names = ("a", "b", "c")
    assert ByName().pick(names) == "a"
    drawn = Seeded(42)
    counts = Counter(drawn.pick(names) for _ in range(3000))
    assert set(counts) == set(names)
    assert max(counts.values()) - min(counts.values()) < 200
    again, other = Seeded(42), Seeded(42)
    assert [again.pick(names) for _ in range(9)] == [other.pick(names) for _ in range(9)]
