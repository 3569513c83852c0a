"""The node after the scheduler: devices named, rejections quoted, loops named."""

from __future__ import annotations

from typing import Any

import pytest

from ragstow.errors import InputError
from ragstow.simulate.kubelets import kubelet_facts
from simulations import GPU, Json, cluster, node, play, running, workload

TWO_BY_TWO: Json = {
    "numa": [{"id": 0, "distances": [10, 20]}, {"id": 1, "distances": [20, 10]}],
    "devices": {
        GPU: [
            {"id": "GPU-a", "numa": [0]},
            {"id": "GPU-b", "numa": [0]},
            {"id": "GPU-c", "numa": [1]},
            {"id": "GPU-d", "numa": [1]},
        ]
    },
}


def policy(name: str, scope: str = "container") -> Json:
    return {"kind": "KubeletConfiguration", "topologyManagerPolicy": name, "topologyManagerScope": scope}


def facts(*documents: Json) -> Any:
    return kubelet_facts(documents)


def test_devices_are_named_or_the_set_is() -> None:
    answer = play(cluster(node("n1", 4)), workload("Deployment", "llm", 1, 4), kubelets=facts(policy("none"), TWO_BY_TWO))
    kubelet = answer.pods[0].kubelet
    assert kubelet is not None
    assert kubelet.devices == {"main": {GPU: ("GPU-a", "GPU-b", "GPU-c", "GPU-d")}}
    assert kubelet.open == {}
    one = (
        play(cluster(node("n1", 4)), workload("Deployment", "llm", 1, 1), kubelets=facts(policy("none"), TWO_BY_TWO))
        .pods[0]
        .kubelet
    )
    assert one is not None
    assert one.open["main"][GPU].pool == ("GPU-a", "GPU-b", "GPU-c", "GPU-d")


def test_a_policy_rejects_what_fits_by_count_and_the_loop_is_named() -> None:
    held = {"nodes": {"n1": {"held": {"rag/x": {"main": {GPU: ["GPU-a"]}}, "rag/y": {"main": {GPU: ["GPU-c"]}}}}}}
    live = cluster(node("n1", 4), running("x", "n1", 1), running("y", "n1", 1))
    # One card is free on each NUMA node: two fit by count, but not on one NUMA node.
    answer = play(live, workload("Deployment", "llm", 1, 2), kubelets=facts(policy("single-numa-node"), TWO_BY_TWO, held))
    assert answer.unplaced == ("rag/llm-0",)
    assert {entry.kubelet.reason for entry in answer.pods if entry.kubelet} == {"TopologyAffinityError"}
    (loop,) = answer.loops
    assert (loop.workload, loop.node) == ("Deployment rag/llm", "n1")
    assert loop.message == "Resources cannot be allocated with Topology locality"
    assert play(live, workload("Deployment", "llm", 1, 2), kubelets=facts(policy("best-effort"), TWO_BY_TWO, held)).ok


def test_another_node_that_is_as_good_ends_the_loop_by_chance() -> None:
    held = {"nodes": {"n1": {"held": {"rag/x": {"main": {GPU: ["GPU-a"]}}, "rag/y": {"main": {GPU: ["GPU-c"]}}}}}}
    live = cluster(
        node("n1", 4),
        node("n2", 4),
        running("x", "n1", 1),
        running("y", "n1", 1),
        running("x2", "n2", 1),
        running("y2", "n2", 1),
    )
    answer = play(live, workload("Deployment", "llm", 1, 2), kubelets=facts(policy("restricted"), TWO_BY_TWO, held))
    assert answer.loops
    assert "n2 would do as well" in answer.loops[0].text


def test_what_running_pods_hold_is_assumed_where_the_file_does_not_say() -> None:
    live = cluster(node("n1", 4), running("x", "n1", 1))
    answer = play(live, workload("Deployment", "llm", 1, 2), kubelets=facts(policy("restricted"), TWO_BY_TWO))
    assert answer.final == {"rag/llm-0": "n1"}
    assert any("which devices the running pods of n1 hold" in text for text in answer.assumptions)


def test_without_a_file_the_assumption_is_said() -> None:
    answer = play(cluster(node("n1", 4)), workload("Deployment", "llm", 1, 1))
    assert answer.pods[0].kubelet is None
    assert any("policy none is assumed" in text for text in answer.assumptions)


def test_shares_are_spread_over_cards() -> None:
    shares = {"devices": {GPU: [{"id": f"GPU-{card}::{n}"} for card in "ab" for n in range(2)]}}
    answer = play(cluster(node("n1", 4)), workload("Deployment", "llm", 2, 1), kubelets=facts(shares))
    first, second = (entry.kubelet for entry in answer.pods)
    assert first is not None
    assert second is not None
    assert set(first.open["main"][GPU].pool) == {"GPU-a::0", "GPU-a::1", "GPU-b::0", "GPU-b::1"}
    assert second.devices["main"][GPU][0].startswith("GPU-b")
    assert set(second.open["main"][GPU].pool) == {"GPU-b::0", "GPU-b::1"}


def test_configz_and_reserved_cpus_are_read() -> None:
    known = facts(
        {"kubeletconfig": {"topologyManagerPolicy": "restricted", "cpuManagerPolicy": "static", "reservedSystemCPUs": "0-1,8"}}
    )
    assert known.default is not None
    assert known.default.settings.reserved_cpus == 3
    assert known.default.settings.topology_policy == "restricted"


@pytest.mark.parametrize("document", ["text", {"kind": "Deployment"}, {"devices": {GPU: [{"name": "no id"}]}}])
def test_a_file_of_another_shape_is_refused(document: Any) -> None:
    with pytest.raises(InputError):
        kubelet_facts([document])


def test_a_configuration_that_does_not_start_is_named() -> None:
    with pytest.raises(InputError, match="unknown policy"):
        play(cluster(node("n1", 4)), workload("Deployment", "llm", 1, 1), kubelets=facts(policy("packed"), TWO_BY_TWO))
