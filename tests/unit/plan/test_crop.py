"""Large clusters: few nodes of each kind are asked first, what is found is proved on all; alike nodes are asked once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plan_clusters import A100, FACTS, L4, T4, chart, cluster, gpu_node, holder, service
from plan_problems import WHOLE, slots
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import Reason
from ragstow.plan import attempt as attempt_
from ragstow.plan.alike import Memo, asked
from ragstow.plan.attempt import attempt
from ragstow.plan.crop import crop
from ragstow.plan.hosts import host_of
from ragstow.plan.problem import Component, NodeSupply, Option
from ragstow.plan.situation import situation
from ragstow.plan.waysout import not_all_ways
from ragstow.sharing.host import Host

GPU = Option("whole", 1, 8)


def nodes(name: str, number: int, cards: int, **more: int) -> list[NodeSupply]:
    """Nodes of whole, free cards."""
    return [
        NodeSupply(f"{name}{index:03d}", cards, (WHOLE,) * cards, {"whole": cards}, (), **more)  # type: ignore[arg-type]  # amounts only
        for index in range(number)
    ]


def test_of_each_kind_as_many_as_are_needed_and_every_kind_is_there() -> None:
    every = [*nodes("a", 50, 1), *nodes("b", 50, 4), *nodes("c", 2, 8), *nodes("d", 30, 0)]
    kept, cropped = crop(every, [Component("x", 6, 1, 0, (GPU,)), Component("y", 2, 1, 0)], {"whole"}, 40)
    assert cropped
    names = [node.name for node in kept]
    assert names == sorted(names)
    assert len([name for name in names if name[0] == "a"]) == 6 + 1 + 2
    assert len([name for name in names if name[0] == "b"]) == 2 + 1 + 2
    assert {name[0] for name in names} == {"a", "b", "c", "d"}


def test_of_one_kind_the_roomiest_are_kept_and_nothing_is_where_all_fit() -> None:
    every = [*nodes("a", 50, 1, cpu_milli=1000), *nodes("b", 5, 1, cpu_milli=9000)]
    kept, cropped = crop(every, [Component("x", 3, 2000, 0, (GPU,))], {"whole"}, 5)
    assert cropped
    assert {"b000", "b001", "b002"} <= {node.name for node in kept}
    assert slots()["whole"].alone
    assert crop(every, [Component("x", 3, 2000, 0, (GPU,))], {"whole"}, 55) == (tuple(every), False)


def large() -> Snapshot:
    """Eighty-four nodes of three products, every second one held in part."""
    kinds = [(L4, 1), (A100, 4), (T4, 2)]
    made = [chart()]
    for number in range(84):
        product, cards = kinds[number % 3]
        made.append(gpu_node(f"g{number:02d}", product, cards))
        if number % 2:
            made += [holder(f"h{number}-{index}", f"g{number:02d}") for index in range(number % cards + 1)]
    return cluster(*made)


@pytest.mark.parametrize("rows", ["llm 30000 6\nemb 4000 30", "llm 30000 4 2\nemb 20000 12"])
def test_a_large_cluster_gets_as_few_cards_as_when_all_nodes_are_asked(rows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where = situation(large(), FACTS, service="demo", namespace="rag")
    few = attempt(where, service(rows), quick=True)
    monkeypatch.setattr(attempt_, "_on_few", lambda _, every, solver, quick, **__: attempt_._answer(every, solver, quick=quick))
    every = attempt(where, service(rows), quick=True)
    assert few.cards == every.cards > 0
    assert few.posed.problem == every.posed.problem


def test_what_does_not_fit_on_few_nodes_is_asked_of_all() -> None:
    made = attempt(situation(large(), FACTS, service="demo", namespace="rag"), service("llm 30000 90"))
    assert not made.feasible
    assert made.answer.complete
    assert [reason.code for reason in not_all_ways(made)] == ["ways-not-all"]


def test_a_question_is_put_once_for_nodes_that_are_alike_and_a_refusal_names_the_node() -> None:
    where = situation(cluster(chart(), gpu_node("n1", L4, 1), gpu_node("n10", L4, 1)), FACTS, service="demo", namespace="rag")
    made = attempt(where, service("a 4000"), quick=True)
    hosts = [host_of(where, where.nodes[name], where.gpus[name], made.offered.cards[name]) for name in ("n1", "n10")]
    times: list[str] = []
    memo: Memo = {}
    for host, name in zip(hosts, ("n1", "n10"), strict=True):
        assert host is not None

        def refuse(alike: Host) -> Reason:
            times.append("asked")
            return Reason("no", f"{alike.name} cannot", f"change {alike.name}")

        assert asked(memo, "q", host, refuse) == Reason("no", f"{name} cannot", f"change {name}")
    assert times == ["asked"]
    assert hosts[0] is not None
    asked(memo, "q", replace(hosts[0], driver="470.1"), lambda _: Reason("other", "", ""))
    assert len(memo) == 2
