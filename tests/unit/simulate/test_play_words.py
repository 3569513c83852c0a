"""Refusals in words: each pod without a workload has its own, though another one's event reads the same."""

from __future__ import annotations

from typing import Any

from simulations import cluster, node, play

SELECTOR: dict[str, Any] = {"nodeSelector": {"pool": "a"}}
TERMS = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}]
AFFINITY: dict[str, Any] = {
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": TERMS}}}
}


def pod(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    body = {**spec, "containers": [{"name": "c", "image": "x"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "rag"}, "spec": body}


def test_the_same_event_for_different_reasons() -> None:
    first, second = play(cluster(node("n1")), pod("a", AFFINITY), pod("b", SELECTOR)).pods
    assert first.message == second.message
    assert "zone" in first.words[0][0].text
    assert "pool" in second.words[0][0].text
