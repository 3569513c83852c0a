"""Ways out that cost no hardware: smaller requests, a larger quota, an open node; and blame shared by several conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from makers import thing
from plan_clusters import FACTS, L4, chart, cluster, codes, gpu_node, planned, service
from ragstow.cluster.snapshot import Snapshot
from ragstow.plan.attempt import attempt
from ragstow.plan.model import Plan
from ragstow.plan.openings import openings
from ragstow.plan.situation import situation
from ragstow.quantity import parse
from ragstow.spec.model import Service

Raw = dict[str, Any]


def small(name: str, cpu: str, memory: str, cards: int = 2, **more: Any) -> Raw:
    """A GPU node with little CPU or memory."""
    made = gpu_node(name, L4, cards, **more)
    for part in ("capacity", "allocatable"):
        made["status"][part] |= {"cpu": cpu, "memory": memory}
    return made


def quota(name: str = "limits", **hard: str) -> Raw:
    """A ResourceQuota of namespace rag; keys with "_" for ".", "gpu" for the GPU's."""
    keys = {"gpu": "requests.nvidia.com/gpu", "cpu": "requests.cpu", "memory": "limits.memory", "pods": "pods"}
    return thing("ResourceQuota", name, namespace="rag", spec={"hard": {keys[key]: value for key, value in hard.items()}})


def ways(made: Plan) -> dict[str, dict[str, Any]]:
    assert not made.feasible
    assert all(way.verified for way in made.alternatives)
    return {way.text: dict(way.changes) for way in made.alternatives}


def only_whole(rows: str, spec: str = "") -> Service:
    """A service that may use whole cards only."""
    return service(rows, f"{spec}  placement: {{sharing: [exclusive]}}\n" if "placement" not in spec else spec)


def test_smaller_requests_of_all_where_one_component_is_not_enough() -> None:
    found = ways(planned(only_whole("a 20000\nb 20000"), cluster(chart(), small("n1", "1500m", "64Gi"))))
    assert found["a: cpu 750m instead of 1; b: cpu 750m instead of 1"] == {
        "spec.components[a].cpu": "750m",
        "spec.components[b].cpu": "750m",
    }


def test_memory_and_both_at_once() -> None:
    memory = ways(planned(only_whole("a 20000"), cluster(chart(), small("n1", "8", "600Mi"))))
    assert memory["a: memory 512Mi instead of 1Gi"] == {"spec.components[a].memory": "512Mi"}
    both = ways(planned(only_whole("a 20000"), cluster(chart(), small("n1", "600m", "600Mi"))))
    assert "a: cpu 500m and memory 512Mi instead of 1Gi" not in both
    assert both["a: cpu 500m instead of 1 and memory 512Mi instead of 1Gi"] == {
        "spec.components[a].cpu": "500m",
        "spec.components[a].memory": "512Mi",
    }


def test_requests_are_not_made_smaller_where_cards_are_what_is_missing() -> None:
    found = ways(planned(only_whole("a 20000 3"), cluster(chart(), gpu_node("n1", L4, 2))))
    assert not [text for text in found if "cpu" in text or "memory" in text]


@pytest.mark.parametrize(
    ("hard", "text", "changes"),
    [
        ({"gpu": "1"}, "requests.nvidia.com/gpu 2 instead of 1", {"requests.nvidia.com/gpu": "2"}),
        ({"cpu": "1500m"}, "requests.cpu 2 instead of 1500m", {"requests.cpu": "2"}),
        ({"memory": "1Gi"}, "limits.memory 2048Mi instead of 1Gi", {"limits.memory": "2048Mi"}),
        ({"pods": "1"}, "pods 2 instead of 1", {"pods": "2"}),
    ],
)
def test_a_quota_is_raised_to_just_what_the_service_takes(hard: dict[str, str], text: str, changes: dict[str, str]) -> None:
    made = planned(only_whole("a 20000 2"), cluster(chart(), gpu_node("n1", L4, 2), quota(**hard)))
    found = ways(made)
    assert "quota" in codes(made)
    assert found[f"ResourceQuota rag/limits: {text}"] == {"cluster.quota": {"limits": changes}}


def test_a_cordoned_node_is_opened() -> None:
    found = ways(planned(only_whole("a 20000"), cluster(chart(), gpu_node("n1", L4, 2, cordoned=True))))
    assert found["kubectl uncordon n1"] == {"cluster.uncordon": ["n1"]}


def test_two_cordoned_nodes_together_where_one_is_too_few() -> None:
    shut = [gpu_node(name, L4, 1, cordoned=True) for name in ("n1", "n2", "n3")]
    found = ways(planned(only_whole("a 20000 2"), cluster(chart(), *shut)))
    assert found["kubectl uncordon n2, kubectl uncordon n3"] == {"cluster.uncordon": ["n2", "n3"]}


def test_a_cordon_and_a_quota_are_lifted_together() -> None:
    made = planned(only_whole("a 20000 2"), cluster(chart(), gpu_node("n1", L4, 2, cordoned=True), quota(gpu="1")))
    assert ways(made)["ResourceQuota rag/limits: requests.nvidia.com/gpu 2 instead of 1, kubectl uncordon n1"] == {
        "cluster.quota": {"limits": {"requests.nvidia.com/gpu": "2"}},
        "cluster.uncordon": ["n1"],
    }


def test_a_taint_that_is_no_gpu_mark_is_tolerated() -> None:
    made = gpu_node("n1", L4, 2)
    made["spec"]["taints"] = [{"key": "team", "value": "blue", "effect": "NoSchedule"}]
    found = ways(planned(only_whole("a 20000"), cluster(chart(), made)))
    assert found["tolerate the taint team=blue:NoSchedule"]


def test_two_conditions_that_block_together_are_blamed_together() -> None:
    tight = small("n1", "1500m", "64Gi")
    made = planned(only_whole("a 20000 2"), cluster(chart(), tight, quota(gpu="1")))
    reason = next(reason for reason in made.reasons if reason.code == "several")
    assert reason.text.startswith("2 conditions that block only together: ")
    assert "leave 1 x nvidia.com/gpu" in reason.text
    assert "too little CPU on the nodes" in reason.text
    assert "too little memory" not in reason.text


def test_components_of_the_same_reason_are_told_once() -> None:
    made = planned(only_whole("a 90000\nb 90000\nc 90000"), cluster(chart(), gpu_node("n1", L4, 2)))
    told = [reason for reason in made.reasons if reason.code == "no-slot"]
    assert len(told) == 1
    assert told[0].text.startswith("a, b and c: no node has or could have a slot for them")


def test_each_opening_is_of_its_kind_and_leaves_the_first_cluster_alone() -> None:
    snapshot: Snapshot = cluster(chart(), gpu_node("n1", L4, 2, cordoned=True))
    place = situation(snapshot, FACTS, service="demo", namespace="rag")
    opening = openings(attempt(place, only_whole("a 20000")))[0]
    assert opening.open(place).nodes["n1"].unschedulable is False
    assert place.nodes["n1"].unschedulable is True


def test_a_quota_that_another_resource_name_gets_round_is_said() -> None:
    rows = "a 4000\nb 4000\nc 4000"
    wanted = service(rows, "  isolation: none\n  placement: {sharing: [time-slicing]}\n")
    made = planned(wanted, cluster(chart(config="plugin"), gpu_node("n1", L4, 1), quota(gpu="1")))
    assert made.feasible
    used = {item.slot.resource for item in made.components}
    said = [text for text in made.assumptions if text.startswith("ResourceQuota rag/limits limits nvidia.com/gpu;")]
    assert bool(said) == ("nvidia.com/gpu" not in used)
    assert "nvidia.com/gpu" not in used, "shares are renamed where the plan chooses the configuration"


def test_a_node_of_a_cloud_is_known_by_its_provider_where_labels_are_missing() -> None:
    named = situation(
        cluster(chart(), gpu_node("n1", L4, 1, provider="aws:///eu-west-1a/i-0")), FACTS, service="demo", namespace="rag"
    )
    made = attempt(named, only_whole("a 20000"))
    cloud = made.offered.hosts["n1"].cloud
    assert cloud is not None
    assert cloud.cloud == "eks"


def test_a_way_is_not_told_again_with_more_beside_it() -> None:
    wanted = service("a 20000 2", "  placement: {maxCards: 1, sharing: [exclusive]}\n")
    texts = list(ways(planned(wanted, cluster(chart(), *(gpu_node(f"n{number}", L4, 1) for number in range(3))))))
    assert "no limit on cards" in texts
    assert not [text for text in texts if "and no limit on cards" in text]


def test_a_wild_request_of_processors_is_brought_down_to_what_a_node_has() -> None:
    wanted = replace_cpu(only_whole("a 20000"), "1000")
    found = ways(planned(wanted, cluster(chart(), gpu_node("n1", L4, 1))))
    assert found["a: cpu 62500m instead of 1k"] == {"spec.components[a].cpu": "62500m"}


def replace_cpu(wanted: Service, amount: str) -> Service:
    return replace(wanted, components=tuple(replace(item, cpu=parse(amount)) for item in wanted.components))
