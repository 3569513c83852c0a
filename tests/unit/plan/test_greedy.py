"""The greedy solver: whatever it gives is proved and never below the bound; the bound is never above the exact answer."""

from __future__ import annotations

import random

import pytest

from plan_problems import random_problem
from ragstow.plan import exact, greedy
from ragstow.plan.bound import simple_bound
from ragstow.plan.promises import prove


@pytest.mark.parametrize("seed", range(30))
def test_greedy_is_sound_and_the_bound_is_a_bound(seed: int) -> None:
    problem = random_problem(random.Random(seed))
    bound, why = simple_bound(problem)
    best = exact.solve(problem).verdict
    quick = greedy.solve(problem).verdict
    assert why
    if quick is not None:
        assert prove(problem, quick.design).holds
        assert best is not None
        assert quick.cards >= best.cards
    if best is not None:
        assert best.cards >= bound
