"""The exact solver against trying every design of tiny problems: cards, changed nodes, and a bound that is never above."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from plan_oracle import designs
from plan_problems import random_problem
from ragstow.plan.exact import solve
from ragstow.plan.promises import prove

_MOST = 1500


@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_exact_equals_brute_force(seed: int, neighbours: bool) -> None:
    problem = random_problem(random.Random(seed), neighbours=neighbours)
    every = list(islice(designs(problem), _MOST + 1))
    if len(every) > _MOST:
        return
    proved = [verdict for verdict in (prove(problem, design) for design in every) if verdict.holds]
    best = min(((verdict.cards, len(verdict.design.changed)) for verdict in proved), default=None)
    answer = solve(problem)
    assert answer.complete
    if answer.verdict is None:
        assert best is None
        return
    assert (answer.verdict.cards, len(answer.verdict.design.changed)) == best
    assert answer.bound is not None
    assert answer.bound <= answer.verdict.cards
