"""What if: nodes added, pods left out, workloads scaled."""

from __future__ import annotations

import pytest

from ragstow.errors import UsageError
from ragstow.simulate.run import NewNodes
from simulations import FACTS, GPU, cluster, deployed, node, objects, play, running, workload


def test_a_node_like_another_has_its_labels_and_its_daemons() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "uid": "ds"}
    daemon = running("ds-1", "n1", owner=owner, cpu="30")
    live = cluster(node("n1", 1, labels={"pool": "a"}), daemon, running("x", "n1", 1))
    llm = workload("Deployment", "llm", 1, 1, nodeSelector={"pool": "a"})
    assert play(live, llm).final == {}
    assert play(live, llm, add_nodes=(NewNodes("n1", 1),)).final == {"rag/llm-0": "n1-new-1"}
    # The DaemonSet's pod runs there too: 30 of 32 cores are taken.
    large = workload("Deployment", "llm", 1, 1, cpu="4")
    assert play(live, large, add_nodes=(NewNodes("n1", 1),)).final == {}


def test_a_copy_is_healthy_and_open_even_where_its_model_is_not() -> None:
    sick = node("n1", 4)
    sick["status"]["allocatable"][GPU] = "0"
    sick["spec"] = {"unschedulable": True, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}
    assert play(cluster(sick), workload("Deployment", "llm", 1, 4), add_nodes=(NewNodes("n1", 1),)).final == {
        "rag/llm-0": "n1-new-1"
    }


def test_an_instance_type_from_facts() -> None:
    row = next(row for row in FACTS.instances.rows if row.cards == 8)
    answer = play(cluster(node("n1")), workload("Deployment", "llm", 2, 8), add_nodes=(NewNodes(row.instance, 2),))
    assert answer.final == {"rag/llm-0": f"{row.instance}-new-1", "rag/llm-1": f"{row.instance}-new-2"}
    assert any(text.startswith(f"{row.instance}: 8 x {row.product}") for text in answer.assumptions)


def test_a_node_from_a_file() -> None:
    shape = NewNodes("shapes.yaml", 1, objects(node("big", 16)))
    assert play(cluster(node("n1")), workload("Deployment", "llm", 1, 16), add_nodes=(shape,)).final == {
        "rag/llm-0": "big-new-1"
    }


def test_an_unknown_shape_is_named_with_what_there_is() -> None:
    with pytest.raises(UsageError) as refused:
        play(cluster(node("n1")), add_nodes=(NewNodes("p4d.huge", 1),))
    assert "p4d.huge" in refused.value.message
    assert "n1" in refused.value.hint


def test_without_a_pod_its_card_is_free() -> None:
    live = cluster(node("n1", 1), *deployed("old", ["n1"], 1))
    assert play(live, workload("Deployment", "llm", 1, 1)).final == {}
    assert play(live, workload("Deployment", "llm", 1, 1), without=("rag/old-old-0",)).final == {"rag/llm-0": "n1"}
    with pytest.raises(UsageError, match="no pod has this name"):
        play(live, without=("nobody",))


def test_scaling_up_and_down() -> None:
    live = cluster(node("n1", 3), *deployed("llm", ["n1"], 1))
    up = play(live, scale=(("deployment/llm", 3),))
    assert up.final == {"rag/llm-0": "n1", "rag/llm-1": "n1"}
    too_many = play(live, scale=(("deploy/rag/llm", 4),))
    assert len(too_many.unplaced) == 1
    down = play(live, workload("Deployment", "new", 1, 3), scale=(("deployment/llm", 0),))
    assert down.final == {"rag/new-0": "n1"}
    with pytest.raises(UsageError, match="not in the cluster"):
        play(live, scale=(("deployment/other", 1),))
    with pytest.raises(UsageError, match="not a workload that scales"):
        play(live, scale=(("daemonset/other", 1),))


def test_a_pod_of_the_files_is_left_out_too() -> None:
    # Files that hold the cluster: what they say is in the snapshot and among the objects given.
    live = (node("n1", 1), *deployed("old", ["n1"], 1))
    llm = workload("Deployment", "llm", 1, 1)
    assert play(cluster(*live), *live, llm, without=("rag/old-old-0",)).final == {"rag/llm-0": "n1"}
    assert play(cluster(*live), *live, llm, scale=(("deployment/old", 0),)).final == {"rag/llm-0": "n1"}
    waits = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w", "namespace": "rag"}, "spec": {"containers": []}}
    assert play(cluster(node("n1", 1)), waits, without=("rag/w",)).pods == ()


def test_a_workload_of_the_files_is_scaled_too() -> None:
    empty = cluster(node("n1", 3))
    answer = play(empty, workload("Deployment", "llm", 1, 1), scale=(("deployment/llm", 3),))
    assert sorted(answer.final) == ["rag/llm-0", "rag/llm-1", "rag/llm-2"]
    assert play(empty, workload("StatefulSet", "llm", 1, 1), scale=(("sts/rag/llm", 0),)).pods == ()
    # The file's own number does not come on top of the one that is asked for.
    live = cluster(node("n1", 4), *deployed("llm", ["n1"], 1))
    three = play(live, workload("Deployment", "llm", 3, 1), scale=(("deployment/llm", 2),))
    assert three.final == {"rag/llm-0": "n1"}
