"""The proofs against an independent judge that plays every choice: what is proved must hold, and the card count is exact."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from plan_oracle import World, designs
from plan_problems import random_problem
from ragstow.plan.promises import prove


@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_what_is_proved_holds_for_every_choice(seed: int, neighbours: bool) -> None:
    rng = random.Random(seed)
    problem = random_problem(rng, neighbours=neighbours)
    checked = 0
    for design in sorted(islice(designs(problem), 3000), key=lambda _: rng.random())[:600]:
        verdict = prove(problem, design)
        if not verdict.holds:
            continue
        world = World(problem, design, verdict.steering)
        assert world.faults() == []
        assert world.cards() == verdict.cards
        checked += 1
        if checked == 8:
            return
