"""Preemption: who may, whom it takes, budgets, texts."""

from __future__ import annotations

from typing import Any

import pytest

from ragstow.cluster.build import build
from ragstow.scheduling.preemption import Budget, charge
from ragstow.scheduling.release import Release
from ragstow.simulate.engine import Attempt, Engine, Options

Raw = dict[str, Any]


def node(name: str, cpu: str = "2") -> Raw:
    status = {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, priority: int, cpu: str = "2", on: str | None = None, start: str = "", **spec: Any) -> Raw:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    made: Raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name[0]}}}
    made["spec"] = {"containers": containers, "priority": priority, **({"nodeName": on} if on else {}), **spec}
    if start:
        made["status"] = {"phase": "Running", "startTime": start}
    return made


def budget(name: str, app: str, allowed: int) -> Raw:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


def play(*objects: Raw, release: str = "1.37.2") -> list[Attempt]:
    cluster = build(objects)
    arrivals = [item for item in cluster.pods if item.node is None]
    return list(Engine(cluster, arrivals, Options(Release.parse(release), order="list")).run())


def test_a_preemptor_is_tried_again_and_its_victims_are_named() -> None:
    first, second = play(node("n1"), node("n2"), pod("a", 5, on="n1"), pod("b", 3, on="n2"), pod("p", 10))
    assert (first.node, first.nominated_node, [victim.key for victim in first.victims]) == (None, "n2", ["default/b"])
    assert first.message == (
        "0/2 nodes are available: 2 Insufficient cpu. "
        "preemption: found a potential placement for pod on node n2, preempting 1 victims"
    )
    assert (second.number, second.node, second.decision.by_nomination) == (2, "n2", True)


def test_a_success_had_no_text_before_1_37() -> None:
    first, _ = play(node("n1"), pod("a", 5, on="n1"), pod("p", 10), release="1.36.3")
    assert first.message == "0/1 nodes are available: 1 Insufficient cpu."


def test_nobody_of_equal_priority_goes() -> None:
    (only,) = play(node("n1"), pod("a", 10, on="n1"), pod("p", 10))
    assert only.message == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_a_request_above_the_node_is_no_reason_to_evict() -> None:
    objects = (node("n1"), pod("a", 1, on="n1"), pod("p", 10, cpu="3"))
    assert "1 Preemption is not helpful for scheduling." in play(*objects)[0].message
    assert "1 Insufficient cpu." in play(*objects, release="1.33.13")[0].message.partition("preemption: ")[2]


def test_a_pod_that_must_not_preempt() -> None:
    (only,) = play(node("n1"), pod("a", 1, on="n1"), pod("p", 10, preemptionPolicy="Never"))
    assert only.message.endswith("preemption: not eligible due to preemptionPolicy=Never.")


def test_a_victim_that_is_still_going_is_waited_for() -> None:
    going = pod("a", 1, on="n1")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    going["status"] = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}
    waiting = pod("p", 10)
    waiting["status"] = {"nominatedNodeName": "n1"}
    (only,) = play(node("n1"), going, waiting)
    assert only.message.endswith("preemption: not eligible due to a terminating pod on the nominated node.")


def test_budgets_first_then_priorities_then_numbers_then_start() -> None:
    nodes = [node("n1"), node("n2")]
    kept = play(*nodes, pod("a", 1, on="n1"), pod("b", 2, on="n2"), budget("x", "a", 0), pod("p", 10))
    assert kept[0].nominated_node == "n2"
    spent = play(*nodes, pod("a", 1, on="n1"), pod("b", 2, on="n2"), budget("x", "a", 1), pod("p", 10))
    assert spent[0].nominated_node == "n1"
    fewer = play(*nodes, pod("a", 1, cpu="1", on="n1"), pod("c", 1, cpu="1", on="n1"), pod("b", 1, on="n2"), pod("p", 10))
    assert fewer[0].nominated_node == "n2"
    start = [pod("a", 1, on="n1", start="2026-01-02T00:00:00Z"), pod("b", 1, on="n2", start="2026-01-01T00:00:00Z")]
    assert play(*nodes, *start, pod("p", 10))[0].nominated_node == "n1"


def test_equal_nodes_are_all_named() -> None:
    first, _ = play(node("n2"), node("n1"), pod("a", 1, on="n1"), pod("b", 1, on="n2"), pod("p", 10))
    assert (first.nominated_node, first.nominated_ties) == ("n1", ("n1", "n2"))


def test_as_many_as_possible_stay_the_most_important_first() -> None:
    running = [pod("a", 1, cpu="1", on="n1"), pod("b", 5, cpu="1", on="n1"), pod("c", 3, cpu="2", on="n1")]
    first, _ = play(node("n1", cpu="4"), *running, pod("p", 10, cpu="2"))
    assert [victim.name for victim in first.victims] == ["c"]


@pytest.mark.parametrize(("stop", "violating"), [(False, ["a", "b"]), (True, ["a"])])
def test_overlapping_budgets(stop: bool, violating: list[str]) -> None:
    # The first budget is exhausted; the second covers both pods and has room for one.
    second = budget("y", "", 1)
    second["spec"] = {"selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}
    cluster = build([node("n1"), pod("a", 1, on="n1"), pod("b", 1, on="n1"), budget("x", "a", 0), second])
    engine = Engine(cluster, (), Options(Release.parse("1.37.2")))
    budgets = [Budget(item, {}) for item in cluster.of("PodDisruptionBudget", "policy")]
    pods = [info for info, _ in engine.world.placed]
    assert [info.name for info in charge(pods, budgets, stop=stop)[0]] == violating


def test_what_is_not_played_is_said() -> None:
    cluster = build([node("n1"), pod("a", 1, on="n1"), pod("p", 10)])
    engine = Engine(cluster, [cluster.pods[1]], Options(Release.parse("1.37.2")))
    assert not engine.assumptions
    assert len(list(engine.run())) == 2
    assert "gone at once" in engine.assumptions[0]


def test_a_budget_is_spent_once() -> None:
    # The budget allows one disruption: the first preemptor takes it, the second evicts a pod that no budget covers.
    nodes = [node("n1"), node("n2"), node("n3")]
    running = [pod("a", 1, on="n1"), pod("a2", 1, on="n2"), pod("b", 2, on="n3")]
    made = play(*nodes, *running, budget("x", "a", 1), pod("p", 10), pod("q", 10))
    assert [attempt.nominated_node for attempt in made if attempt.victims] == ["n1", "n3"]


def test_words_of_a_preemptor_tell_the_node_as_it_was() -> None:
    first, _ = play(node("n1"), pod("a", 1, on="n1"), pod("p", 10))
    assert first.decision.explained["n1"][0].text == "n1 has 0 cores of 2 cores cpu free, default/p asks for 2 cores"
