"""What stands in the way is named only if the problem has an answer without it."""

from __future__ import annotations

from dataclasses import replace

from plan_problems import CARD, CONFIGS, WHOLE, slots
from ragstow.plan import exact
from ragstow.plan.obstacles import obstacles
from ragstow.plan.problem import Component, NodeSupply, Option, Problem


def two_of_a_card_each(**changes: object) -> Problem:
    """Two pods that need a card each, with 4 CPU and 100 bytes of memory, on a node of two cards."""
    wanted = Component("llm", 2, 4000, 100, (Option("whole", 1, CARD),))
    node = NodeSupply("a", 2, (WHOLE, WHOLE), {"whole": 2}, cpu_milli=16_000, memory_bytes=2**40, pods=110)
    return replace(Problem((wanted,), (node,), slots()), **changes)  # type: ignore[arg-type]  # fields of a Problem


def found(problem: Problem) -> list[tuple[str, str]]:
    assert exact.solve(problem).verdict is None
    return [(reason.code, reason.text) for reason in obstacles(problem, "rag")]


def test_quota_of_a_resource_is_named_with_what_it_leaves() -> None:
    assert found(two_of_a_card_each(quota={"gpu": 1, "mig-small": 0})) == [
        ("quota", "llm: the ResourceQuotas of namespace rag leave 1 x gpu, which is too few")
    ]


def test_processor_and_memory_of_nodes_are_told_apart() -> None:
    wide = two_of_a_card_each()
    short_of_cpu = replace(wide, nodes=(replace(wide.nodes[0], cpu_milli=7500),))
    assert found(short_of_cpu) == [
        ("node-resources", "llm: too little CPU on the nodes: 8 CPU asked for, left are a 7.5"),
    ]
    short_of_memory = replace(wide, nodes=(replace(wide.nodes[0], memory_bytes=150),))
    assert [code for code, text in found(short_of_memory) if "too little memory" in text] == ["node-resources"]
    short_of_pods = replace(wide, nodes=(replace(wide.nodes[0], pods=1),))
    assert found(short_of_pods) == [("node-resources", "llm: too few pods on the nodes: 2 asked for, left are a 1")]
    short_of_both = replace(wide, nodes=(replace(wide.nodes[0], cpu_milli=7500, memory_bytes=150),))
    assert [text.partition(":")[2][:25] for _, text in found(short_of_both)] == [" too little CPU and memory"[:25]]


def test_survival_needs_a_second_node() -> None:
    assert found(two_of_a_card_each(survive=True)) == [
        ("survive", "placement.survive: node cannot be kept with 1 usable GPU node (a)")
    ]


def test_a_limit_of_cards_is_named_with_the_number_that_would_do() -> None:
    assert found(two_of_a_card_each(max_cards=1)) == [
        ("max-cards", "placement.maxCards allows 1; what fits takes up to 2 cards")
    ]


def test_a_wish_that_cannot_be_kept_is_named() -> None:
    one = Component("one", 1, 0, 0, (Option("ts2", 1, 10),))
    two = Component("two", 1, 0, 0, (Option("ts2", 1, 10),))
    node = NodeSupply("a", 1, (WHOLE,), {"whole": 1}, (CONFIGS["time-slicing x2"],))
    problem = Problem((one, two), (node,), slots(), apart=(("one", "two"),))
    assert found(problem) == [("apart", "placement.apart [one, two] cannot be kept here")]


def test_where_cards_are_simply_too_few_no_condition_is_blamed() -> None:
    wide = two_of_a_card_each(survive=True, quota={"gpu": 1})
    assert found(replace(wide, nodes=(replace(wide.nodes[0], cards=1, present=(WHOLE,), free={"whole": 1}),))) == []
