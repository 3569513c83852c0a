"""Pods that name their node: the kubelet's verdict, since no scheduler looks at them."""

from __future__ import annotations

from typing import Any

import pytest

from ragstow.simulate.kubelets import kubelet_facts
from ragstow.simulate.model import Simulation
from simulations import GPU, Json, cluster, node, play, running, workload


def naming(name: str, at: str, gpus: int = 0, *, cpu: str = "1", **spec: Any) -> Json:
    pod = running(name, at, gpus, cpu=cpu, **spec)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "rag"}, "spec": pod["spec"]}


def verdict(answer: Simulation) -> tuple[str, str]:
    (entry,) = answer.pods
    assert entry.by_name
    assert entry.kubelet is not None
    assert not entry.kubelet.admitted
    assert not answer.ok
    assert answer.final == {}
    return entry.kubelet.reason, entry.kubelet.message


def test_one_that_fits_runs_there_before_the_others_are_looked_at() -> None:
    given = [workload("Deployment", "llm", 1, 1), naming("mine", "n1", 1)]
    answer = play(cluster(node("n1", 1)), *given)
    assert answer.pods[0].key == "rag/mine"
    assert answer.final == {"rag/mine": "n1"}
    assert answer.unplaced == ("rag/llm-0",)


def test_cards_that_are_taken() -> None:
    answer = play(cluster(node("n1", 2), running("x", "n1", 2)), naming("mine", "n1", 1))
    assert verdict(answer) == (
        f"OutOf{GPU}",
        f"Node didn't have enough resource: {GPU}, requested: 1, used: 2, capacity: 2",
    )
    assert answer.near_misses["rag/mine"].holders == ("rag/x",)


def test_cpu_before_devices_and_pods_before_all() -> None:
    answer = play(cluster(node("n1", 1, cpu="2")), naming("mine", "n1", 2, cpu="3"))
    assert verdict(answer) == ("OutOfcpu", "Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000")
    full = node("n1")
    full["status"]["allocatable"]["pods"] = "1"
    assert verdict(play(cluster(full, running("x", "n1")), naming("mine", "n1", cpu="99")))[0] == "OutOfpods"


def test_labels_ports_and_taints() -> None:
    asking = naming("mine", "n1", nodeSelector={"gpu": "a100"})
    assert verdict(play(cluster(node("n1")), asking)) == (
        "NodeAffinity",
        "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    )
    ports = [{"containerPort": 80, "hostPort": 80}]
    holder, mine = running("x", "n1"), naming("mine", "n1")
    for pod in (holder, mine):
        pod["spec"]["containers"][0]["ports"] = ports
    assert verdict(play(cluster(node("n1"), holder), mine))[0] == "NodePorts"
    taint = {"key": "maintenance", "value": "", "effect": "NoExecute"}
    assert verdict(play(cluster(node("n1", taints=[taint])), naming("mine", "n1")))[0] == "TaintToleration"


@pytest.mark.parametrize("cordoned", [False, True])
def test_what_only_the_scheduler_minds(cordoned: bool) -> None:
    taint = {"key": GPU, "value": "present", "effect": "NoSchedule"}
    there = node("n1", 1, taints=[taint])
    there["spec"]["unschedulable"] = cordoned
    assert play(cluster(there), naming("mine", "n1", 1)).ok


def test_a_node_that_does_not_exist() -> None:
    answer = play(cluster(node("n1", 1), node("n2")), naming("mine", "ghost", 1))
    (entry,) = answer.pods
    assert not answer.ok
    assert entry.refusal is not None
    assert entry.refusal.code == "no-such-node"
    assert entry.refusal.hint == "one of n1, n2"
    assert 'there is no node "ghost"' in entry.message


def test_a_resource_that_the_node_does_not_know_is_ignored_by_it() -> None:
    answer = play(cluster(node("n1"), node("n2", 4)), naming("mine", "n1", 1))
    assert answer.final == {"rag/mine": "n1"}
    assert [warning.code for warning in answer.warnings] == ["device-ignored"]


def test_a_template_that_names_a_node_is_a_loop_where_it_is_rejected() -> None:
    answer = play(cluster(node("n1", 1), node("n2", 4)), workload("Deployment", "llm", 2, 1, nodeName="n1"))
    assert answer.final == {"rag/llm-0": "n1"}
    (loop,) = answer.loops
    assert (loop.workload, loop.node, loop.reason) == ("Deployment rag/llm", "n1", f"OutOf{GPU}")


def test_the_file_about_kubelets_is_asked_too() -> None:
    told = kubelet_facts([{"devices": {GPU: [{"id": "GPU-a"}, {"id": "GPU-b"}]}}])
    answer = play(cluster(node("n1", 2)), naming("mine", "n1", 2), kubelets=told)
    kubelet = answer.pods[0].kubelet
    assert kubelet is not None
    assert kubelet.devices == {"main": {GPU: ("GPU-a", "GPU-b")}}


def test_what_comes_next_counts_it_and_leaves_the_rejected_out() -> None:
    live = cluster(node("n1", 2), node("n2", 2))
    given = [naming("mine", "n1", 2), naming("too", "n1", 1), workload("Deployment", "llm", 1, 2)]
    answer = play(live, *given, fail=("n2",))
    assert answer.final == {"rag/mine": "n1", "rag/llm-0": "n2"}
    assert [(moved.pod, moved.outcome) for moved in answer.disruptions[0].moved] == [("rag/llm-0", "pending")]
