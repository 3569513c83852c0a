"""Whom the configuration of nodes costs a GPU: where pods go, who waits for the node, which budgets hold."""

from __future__ import annotations

from typing import Any

from ragstow.plan.evictions import Evictions, evictions
from ragstow.plan.model import NodeLayout
from simulations import GPU, budget, cluster, deployed, node, running


def played(*objects: dict[str, Any], names: tuple[str, ...] = ("n1",), left: int | None = None) -> Evictions:
    """Nodes configured in turn, each keeping `left` cards (default: as many as it has), every GPU pod a holder."""
    snapshot = cluster(*objects)
    layouts = [
        NodeLayout(
            name,
            "exclusive",
            ("cut",),
            labels_after={"ragstow.dev/pool": "s"},
            resources_after={} if left is None else {GPU: left},
        )
        for name in names
    ]
    holders: dict[str, list[str]] = {}
    for pod in snapshot.pods:
        if pod.node and any(item.requests.get(GPU) or item.limits.get(GPU) for item in pod.containers):
            holders.setdefault(pod.node, []).append(pod.key)
    return evictions(snapshot, layouts, holders, service="s", namespace="rag", release="1.37.2")


def ends(found: Evictions) -> dict[str, tuple[str, str | None]]:
    return {item.pod: (item.outcome, item.to) for item in found.pods}


def test_a_pod_with_room_elsewhere_moves_there() -> None:
    found = played(node("n1", 1), node("n2", 1), *deployed("llm", ["n1"], 1))
    assert ends(found) == {"rag/llm-old-0": ("moves", "n2")}
    assert found.pods[0].workload == "Deployment rag/llm"
    assert not found.pods[0].own


def test_a_pod_without_room_returns_when_the_node_is_back() -> None:
    found = played(node("n1", 2), *deployed("llm", ["n1"], 1), left=1)
    assert ends(found) == {"rag/llm-old-0": ("returns", "n1")}


def test_a_pod_whose_card_is_cut_away_waits_for_ever() -> None:
    found = played(node("n1", 1), *deployed("llm", ["n1"], 1), left=0)
    assert ends(found) == {"rag/llm-old-0": ("waits", None)}
    assert found.pods[0].message.startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")


def test_a_bare_pod_is_lost_and_a_daemon_s_comes_back_at_once() -> None:
    daemon = running("ds-1", "n1", 1, owner={"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "uid": "ds"})
    found = played(node("n1", 2), node("n2", 2), running("bare", "n1", 1), daemon)
    assert ends(found) == {"rag/bare": ("lost", None), "rag/ds-1": ("stays", None)}
    assert found.stopped_at == "n1"  # it would be evicted again and again


def test_pods_without_a_gpu_stay() -> None:
    assert ends(played(node("n1", 1), node("n2", 1), running("web", "n1"))) == {}


def test_the_service_s_own_pods_are_told_apart() -> None:
    own = running("own", "n1", 1)
    own["metadata"]["labels"]["ragstow.dev/service"] = "s"
    found = played(node("n1", 2), own, running("other", "n1", 1))
    assert {item.pod: item.own for item in found.pods} == {"rag/own": True, "rag/other": False}


def test_a_budget_delays_two_pods_that_must_go_one_after_the_other() -> None:
    pods = deployed("llm", ["n1", "n1"], 1)
    found = played(node("n1", 2), node("n2", 2), *pods, budget("llm", "llm", maxUnavailable=1))
    assert ends(found) == {"rag/llm-old-0": ("moves", "n2"), "rag/llm-old-1": ("moves", "n2")}
    (effect,) = found.budgets
    assert (effect.budget, effect.node, effect.allowed, effect.verdict) == ("rag/llm", "n1", 1, "delays")
    assert found.stopped_at is None


def test_a_budget_that_allows_both_does_not_delay() -> None:
    pods = deployed("llm", ["n1", "n1"], 1)
    found = played(node("n1", 2), node("n2", 2), *pods, budget("llm", "llm", maxUnavailable=2))
    assert [(item.allowed, item.verdict) for item in found.budgets] == [(2, "allows")]


def test_a_budget_that_allows_nothing_ends_it_there() -> None:
    pods = [*deployed("llm", ["n1"], 1), *deployed("embed", ["n2"], 1)]
    found = played(node("n1", 1), node("n2", 1), *pods, budget("llm", "llm", minAvailable=1), names=("n1", "n2"))
    assert ends(found) == {"rag/llm-old-0": ("blocked", None)}
    assert [item.verdict for item in found.budgets] == ["blocks"]
    assert found.stopped_at == "n1"


def test_the_service_s_own_budget_holds_nothing_up() -> None:
    pods, own = deployed("llm", ["n1"], 1), budget("llm", "llm", minAvailable=1)
    for item in (pods[-1], own):
        item["metadata"].setdefault("labels", {})["ragstow.dev/service"] = "s"
    found = played(node("n1", 1), node("n2", 1), *pods, own)
    assert (ends(found), found.budgets) == ({"rag/llm-old-0": ("moves", "n2")}, ())


def test_a_budget_of_others_says_nothing() -> None:
    found = played(node("n1", 1), node("n2", 1), *deployed("llm", ["n1"], 1), budget("web", "web", minAvailable=1))
    assert found.budgets == ()


def test_a_pod_that_moves_to_the_next_node_moves_again_and_is_one_pod() -> None:
    found = played(node("n1", 1), node("n2", 1), *deployed("llm", ["n1"], 1), names=("n1", "n2"))
    assert ends(found) == {"rag/llm-old-0": ("moves", "n1")}
    found = played(node("n1", 1), node("n2", 1), *deployed("llm", ["n1"], 1), names=("n1", "n2"), left=0)
    assert ends(found) == {"rag/llm-old-0": ("waits", None)}


def test_a_node_that_is_gone_is_left_aside() -> None:
    assert played(node("n1", 1), names=("n9",)) == Evictions()
