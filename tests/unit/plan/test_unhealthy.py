"""A node with unhealthy cards is used as far as it offers slots, and never re-cut or shared: nobody says which card it is."""

from __future__ import annotations

from typing import Any

from makers import gfd, node, thing
from ragstow import facts
from ragstow.cluster.build import build
from ragstow.plan.arrivals import HOSTNAME
from ragstow.plan.model import Plan
from ragstow.plan.planner import plan
from ragstow.spec import load_text, to_document

FACTS = facts.load()
SERVICE = """
apiVersion: ragstow.dev/v1alpha1
kind: RagService
metadata: {name: support, namespace: rag}
spec:
  isolation: none
  components:
  - {name: embedder, role: embedder, model: BAAI/bge-m3}
  - {name: reranker, role: reranker, model: BAAI/bge-reranker-v2-m3}
"""


CONTAINER = {"name": "nvidia-device-plugin-ctr", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}
PLUGIN = thing("DaemonSet", "plugin", api="apps/v1", namespace="gpu", spec={"template": {"spec": {"containers": [CONTAINER]}}})


def planned(healthy: int, *more: dict[str, Any]) -> Plan:
    raw = node(
        "a",
        {"nvidia.com/gpu": 2},
        {HOSTNAME: "a", **gfd("NVIDIA-L40S", 2, 46068)},
        allocatable={"nvidia.com/gpu": healthy},
    )
    snapshot = build([raw, *more])
    wanted = load_text(SERVICE, FACTS)
    return plan(wanted, snapshot, FACTS, document=to_document(wanted), alternatives=False)


def test_healthy_cards_are_used() -> None:
    assert planned(2, PLUGIN).feasible


def test_one_healthy_card_of_two_holds_one_pod_and_the_node_is_not_shared() -> None:
    made = planned(1, PLUGIN)
    assert not made.feasible
    assert "cards-unhealthy" in {refusal.reason.code for refusal in made.refused}
    assert any("only 1 of 2 x nvidia.com/gpu are allocatable" in reason.text for reason in made.reasons)


def test_no_healthy_card_holds_nothing() -> None:
    assert not planned(0, PLUGIN).feasible


def test_a_plugin_whose_daemonset_was_not_saved_is_not_taken_for_a_cloud_s() -> None:
    said = [refusal.reason for refusal in planned(2).refused if refusal.mode == "mps"]
    assert {reason.code for reason in said} == {"plugin-unseen"}
    assert "daemonsets" in said[0].hint
