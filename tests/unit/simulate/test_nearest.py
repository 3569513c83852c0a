"""For a pod that fits nowhere: what the nearest node lacks, who holds it, and a change that was tried."""

from __future__ import annotations

from ragstow.simulate.model import NearMiss
from simulations import GPU, Json, cluster, deployed, node, play, running, workload


def miss(given: Json, *live: Json) -> NearMiss:
    answer = play(cluster(*live), given, preemption=False)
    (key,) = [key for key in answer.unplaced if key in answer.near_misses]
    return answer.near_misses[key]


def test_one_card_too_few_and_who_holds_it() -> None:
    found = miss(workload("Deployment", "llm", 1, 2), node("n1"), node("n3", 2), running("x", "n3", 1))
    assert found.node == "n3"
    assert found.text == "n3 lacks 1 nvidia.com/gpu; rag/x holds nvidia.com/gpu"
    assert found.holders == ("rag/x",)
    assert [(change.kind, change.disturbs) for change in found.changes] == [("free", ("rag/x",))]


def test_the_fewest_and_least_important_pods_are_named() -> None:
    live = [node("n1", 4), running("a", "n1", 1, priority=10), running("b", "n1", 1), running("c", "n1", 2)]
    assert miss(workload("Deployment", "llm", 1, 2), *live).changes[0].disturbs == ("rag/c",)
    assert miss(workload("Deployment", "llm", 1, 1), *live).changes[0].disturbs == ("rag/b",)


def test_daemons_are_not_offered() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "uid": "ds"}
    found = miss(workload("Deployment", "llm", 1, 1), node("n1", 1), running("ds-1", "n1", 1, owner=owner))
    assert [change.kind for change in found.changes] == ["add-node"]


def test_a_toleration_disturbs_nobody_and_comes_first() -> None:
    taint = {"key": GPU, "value": "present", "effect": "NoSchedule"}
    found = miss(workload("Deployment", "llm", 1, 1), node("n1", 1, taints=[taint]), node("n2", 1), running("x", "n2", 1))
    assert found.changes[0].kind == "tolerate"
    assert found.changes[0].patch is not None
    assert found.changes[0].patch["spec"]["tolerations"][-1] == {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
    assert found.changes[1].kind == "free"


def test_a_toleration_that_would_not_help_is_not_offered() -> None:
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    found = miss(workload("Deployment", "llm", 1, 1), node("n1", taints=[taint]), node("n2", 1), running("x", "n2", 1))
    assert [change.kind for change in found.changes] == ["free"]


def test_uncordon() -> None:
    cordoned = node("n1", 1)
    cordoned["spec"]["unschedulable"] = True
    found = miss(workload("Deployment", "llm", 1, 1), cordoned)
    assert found.changes[0].text == "uncordon n1: kubectl uncordon n1"


def test_a_selector_that_no_node_meets() -> None:
    found = miss(workload("Deployment", "llm", 1, 1, nodeSelector={"gpu": "a100"}), node("n1", 1, labels={"gpu": "l4"}))
    assert found.changes[0].kind == "unselect"
    assert found.changes[0].patch == {"spec": {"nodeSelector": {"gpu": None}}}


def test_less_cpu_where_half_of_it_is_there() -> None:
    found = miss(workload("Deployment", "llm", 1, 1, cpu="10"), node("n1", 1, cpu="8"), node("n2", 1, cpu="12"),
                 running("x", "n2", cpu="4"))  # fmt: skip
    assert found.node == "n2"
    assert found.changes[0].kind == "shrink"
    assert "at most 8 cores of cpu" in found.changes[0].text


def test_a_resource_that_no_node_offers() -> None:
    found = miss(workload("Deployment", "llm", 1, 1), node("n1", extra={"nvidia.com/mig-1g.5gb": "7"}))
    assert found.text == "no node offers nvidia.com/gpu; offered: nvidia.com/mig-1g.5gb"
    assert found.changes == ()


def test_a_rollout_that_waits_for_itself() -> None:
    live = deployed("llm", ["n1"], 1)
    waiting = running("llm-new-0", "n1", 1, app="llm")
    del waiting["spec"]["nodeName"]
    waiting["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "llm-new", "controller": True}
    ]
    waiting["metadata"]["labels"]["pod-template-hash"] = "new"
    waiting["status"] = {"phase": "Pending"}
    answer = play(cluster(node("n1", 2), running("aaa", "n1", 1), *live, waiting))
    change = answer.near_misses["rag/llm-new-0"].changes[0]
    assert change.disturbs == ("rag/llm-old-0",)
    assert "same Deployment rag/llm" in change.text


def test_pods_of_one_template_do_not_make_room_for_each_other() -> None:
    """Whichever of them goes, its controller makes another: two replicas hold all, a third is asked for."""
    for kind in ("Deployment", "StatefulSet"):
        found = miss(workload(kind, "llm", 3, 2), node("n1", 4))
        assert found.holders == ("rag/llm-0", "rag/llm-1")
        assert [change.kind for change in found.changes] == ["add-node"]
    found = miss(workload("Deployment", "llm", 2, 2), node("n1", 4), running("x", "n1", 1))
    assert [change.disturbs for change in found.changes if change.kind == "free"] == [("rag/x",)]
