"""Dead ends where CPU limits a node: what cannot block is let through, what can is refused; an independent judge agrees."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import islice

import pytest

from plan_oracle import World, designs
from plan_problems import WHOLE, random_problem, slots
from ragstow.plan.after import after
from ragstow.plan.deadend import blocked
from ragstow.plan.problem import Component, Design, NodeSupply, Option, Problem, Steering
from ragstow.plan.promises import prove

GPU = Option("whole", 1, 8)
PAIR = Option("whole", 2, 8)


def whole(name: str, cards: int, cpu: int) -> NodeSupply:
    """A node of whole, free cards."""
    return NodeSupply(name, cards, (WHOLE,) * cards, {"whole": cards}, (), cpu_milli=cpu)


def pods(name: str, replicas: int, cpu: int, option: Option = GPU) -> Component:
    """A component that takes whole cards."""
    return Component(name, replicas, cpu, 0, (option,))


CASES: dict[str, tuple[list[Component], list[NodeSupply], bool]] = {
    "the smaller of the two": ([pods("a", 1, 500), pods("b", 1, 1000)], [whole("n1", 2, 1500)], True),
    "spare cards are taken first": ([pods("a", 2, 500), pods("b", 2, 1000)], [whole("n1", 4, 3000)], True),
    "CPU taken by the other": (
        [pods("a", 1, 500), pods("b", 1, 1000)],
        [whole("n1", 2, 1000), whole("n2", 1, 500)],
        False,
    ),
    "cards taken by the other": (
        [pods("a", 1, 100), pods("b", 1, 1000)],
        [whole("n1", 1, 1500), whole("n2", 1, 500)],
        False,
    ),
    "two nodes, each with a card too many": (
        [pods("a", 2, 500), pods("b", 2, 1000)],
        [whole("n1", 2, 1500), whole("n2", 2, 1500)],
        False,
    ),
    "pods of two cards": ([pods("a", 1, 500), pods("b", 1, 1000, PAIR)], [whole("n1", 3, 1500)], True),
    "one CPU short": ([pods("a", 1, 501), pods("b", 1, 1000)], [whole("n1", 2, 1500)], False),
}


@pytest.mark.parametrize("case", CASES)
def test_small_clusters(case: str) -> None:
    components, nodes, lands = CASES[case]
    problem = Problem(tuple(components), tuple(nodes), slots())
    design = Design({component.name: component.options[0] for component in components})
    assert (World(problem, design, {}).faults() == []) == lands
    assert (blocked(after(problem, design), {}) == []) == lands


def test_a_node_shut_by_another_is_not_the_one_whose_cards_suffice_to_fill() -> None:
    # Whoever shuts the node with cards to spare leaves the one that cards alone fill.
    components = [pods("a", 1, 1), pods("b", 2, 1), pods("c", 1, 1000)]
    problem = Problem(tuple(components), (whole("n1", 2, 2500), whole("n2", 9, 1500)), slots())
    design = Design({component.name: GPU for component in components})
    steering = {"a": Steering(not_beside=("c",)), "c": Steering(not_beside=("a",))}
    assert World(problem, design, steering).faults() != []
    assert blocked(after(problem, design), steering)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_proved_holds_where_cpu_is_short(seed: int) -> None:
    rng = random.Random(1000 + seed)
    problem = random_problem(rng)
    problem = replace(problem, nodes=tuple(replace(node, cpu_milli=rng.choice([2, 3, 4, 5, 6])) for node in problem.nodes))
    checked = 0
    for design in sorted(islice(designs(problem), 2000), key=lambda _: rng.random())[:300]:
        verdict = prove(problem, design)
        if verdict.holds:
            world = World(problem, design, verdict.steering)
            assert world.faults() == []
            assert world.cards() <= verdict.cards
            checked += 1
        if checked == 6:
            return
