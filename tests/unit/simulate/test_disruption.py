"""A node drained or lost: budgets, successors, who is left without a pod."""

from __future__ import annotations

import pytest

from ragstow.errors import UsageError
from simulations import budget, cluster, deployed, node, play, running, workload


def outcomes(answer_kind: str, *objects: dict[str, object], name: str = "n1") -> dict[str, tuple[str, str | None]]:
    answer = play(cluster(*objects), **{answer_kind: (name,)})
    (item,) = answer.disruptions
    return {moved.pod: (moved.outcome, moved.node) for moved in item.moved}


def test_a_lost_node_s_pods_go_where_there_is_room() -> None:
    found = outcomes("fail", node("n1", 1), node("n2", 1), *deployed("llm", ["n1"], 1))
    assert found == {"rag/llm-old-0": ("moved", "n2")}


def test_no_room_leaves_the_workload_without_a_pod() -> None:
    live = cluster(node("n1", 1), node("n2", 1), *deployed("llm", ["n1"], 1), *deployed("embed", ["n2"], 1))
    answer = play(live, fail=("n1",))
    (item,) = answer.disruptions
    assert item.moved[0].outcome == "pending"
    assert "Insufficient nvidia.com/gpu" in item.moved[0].message
    assert item.without_replica == ("Deployment rag/llm",)
    assert not answer.ok


def test_a_bare_pod_is_lost_and_a_daemon_stays_with_a_drained_node() -> None:
    daemon = running("ds-1", "n1", owner={"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "uid": "ds"})
    found = outcomes("drain", node("n1"), node("n2"), running("bare", "n1"), daemon)
    assert found == {"rag/bare": ("lost", None), "rag/ds-1": ("stays", None)}


def test_a_budget_that_allows_nothing_hangs_the_drain() -> None:
    live = cluster(node("n1", 1), node("n2", 1), *deployed("llm", ["n1"], 1), budget("llm", "llm", minAvailable=1))
    answer = play(live, drain=("n1",))
    (item,) = answer.disruptions
    assert not item.done
    assert item.moved[0].outcome == "blocked"
    assert "PodDisruptionBudget llm" in item.moved[0].message


def test_a_drain_goes_on_when_a_successor_is_ready() -> None:
    # Two of two must not both be away, one at a time may: the second goes once the first one's successor runs.
    live = cluster(node("n1", 2), node("n2", 2), *deployed("llm", ["n1", "n1"], 1), budget("llm", "llm", maxUnavailable=1))
    answer = play(live, drain=("n1",))
    (item,) = answer.disruptions
    assert item.done
    assert [moved.node for moved in item.moved] == ["n2", "n2"]


def test_a_drain_hangs_halfway_where_successors_find_no_place() -> None:
    live = cluster(node("n1", 2), *deployed("llm", ["n1", "n1"], 1), budget("llm", "llm", maxUnavailable=1))
    (item,) = play(live, drain=("n1",)).disruptions
    assert sorted(moved.outcome for moved in item.moved) == ["blocked", "pending"]


def test_pods_of_files_are_placed_first() -> None:
    answer = play(cluster(node("n1", 1), node("n2", 1)), workload("Deployment", "llm", 1, 1), fail=("n1",))
    assert answer.final == {"rag/llm-0": "n1"}
    assert [(moved.pod, moved.node) for moved in answer.disruptions[0].moved] == [("rag/llm-0", "n2")]


def test_drains_add_up() -> None:
    live = cluster(node("n1", 1), node("n2", 1), node("n3", 1), *deployed("llm", ["n1"], 1))
    answer = play(live, drain=("n1", "n2"))
    assert [[moved.node for moved in item.moved] for item in answer.disruptions] == [["n2"], ["n3"]]


def test_an_unknown_node_is_named() -> None:
    with pytest.raises(UsageError, match="no such node"):
        play(cluster(node("n1")), fail=("n9",))
