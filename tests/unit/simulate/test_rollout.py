"""Rolling updates against free GPUs: the controllers' arithmetic, the deadlock, and the strategy that ends it."""

from __future__ import annotations

import pytest

from ragstow.simulate.workload import Workload
from simulations import GPU, Json, cluster, deployed, node, objects, play, workload


@pytest.mark.parametrize(
    ("replicas", "rolling", "expected"),
    [
        # Documentation of Deployment: surge is rounded up, unavailable rounded down, both default to 25%.
        (4, {}, (1, 1)),
        (1, {}, (1, 0)),
        (3, {}, (1, 0)),
        (10, {"maxSurge": "30%", "maxUnavailable": "30%"}, (3, 3)),
        (2, {"maxSurge": 0, "maxUnavailable": 1}, (0, 1)),
        # Both may round to 0: the controller then takes one unavailable (ResolveFenceposts).
        (1, {"maxSurge": 0, "maxUnavailable": "25%"}, (0, 1)),
    ],
)
def test_surge_and_unavailable(replicas: int, rolling: dict[str, object], expected: tuple[int, int]) -> None:
    strategy = {"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}
    (item,) = objects(workload("Deployment", "llm", replicas, spec=strategy))
    assert Workload(item).surge() == expected


def test_no_spare_card_stands_still_and_the_remedy_was_tried() -> None:
    answer = play(cluster(node("n1", 2)), workload("Deployment", "llm", 2, 1), rollout=True)
    (rollout,) = answer.rollouts
    assert answer.unplaced == ()
    assert not rollout.done
    assert (rollout.surge, rollout.unavailable, rollout.least_ready) == (1, 0, 2)
    assert [(step.action, step.node) for step in rollout.steps] == [("create", None)]
    assert "n1 lacks 1 nvidia.com/gpu" in rollout.deadlock
    assert "maxSurge: 0, maxUnavailable: 1" in rollout.remedy
    assert not answer.ok


def test_one_spare_card_is_enough() -> None:
    answer = play(cluster(node("n1", 3)), workload("Deployment", "llm", 2, 1), rollout=True)
    (rollout,) = answer.rollouts
    assert rollout.done
    assert rollout.least_ready == 2
    # One more than wanted, one old one goes, and so on.
    assert [step.action for step in rollout.steps] == ["create", "delete", "create", "delete"]
    assert answer.ok


def test_without_surge_a_replica_is_missing_on_the_way() -> None:
    strategy = {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}
    answer = play(cluster(node("n1", 2)), workload("Deployment", "llm", 2, 1, spec=strategy), rollout=True)
    (rollout,) = answer.rollouts
    assert rollout.done
    assert rollout.least_ready == 1
    assert [step.action for step in rollout.steps] == ["delete", "create", "delete", "create"]


def test_recreate_has_nobody_ready_in_between() -> None:
    spec = {"strategy": {"type": "Recreate"}}
    answer = play(cluster(node("n1", 2)), workload("Deployment", "llm", 2, 1, spec=spec), rollout=True)
    (rollout,) = answer.rollouts
    assert rollout.done
    assert rollout.least_ready == 0


def test_a_changed_template_rolls_from_the_pods_that_run() -> None:
    live = cluster(node("n1", 2), *deployed("llm", ["n1", "n1"], 1))
    changed = workload("Deployment", "llm", 2, 1, cpu="2")
    stuck = play(live, changed, rollout=True)
    assert not stuck.rollouts[0].done
    assert stuck.final == {"rag/llm-old-0": "n1", "rag/llm-old-1": "n1"}
    free = play(live.replace(put=objects(node("n2", 1))), changed, rollout=True)
    assert free.rollouts[0].done
    assert sorted(free.final.values()) == ["n1", "n2"]
    assert all("old" not in key for key in free.final)


def test_an_unchanged_manifest_changes_nothing() -> None:
    live = cluster(node("n1", 2), *deployed("llm", ["n1", "n1"], 1))
    answer = play(live, workload("Deployment", "llm", 2, 1))
    assert answer.pods == ()
    assert answer.ok


def test_without_rollout_a_change_is_taken_as_done_and_said() -> None:
    live = cluster(node("n1", 2), *deployed("llm", ["n1", "n1"], 1))
    answer = play(live, workload("Deployment", "llm", 2, 1, cpu="2"))
    assert len(answer.final) == 2
    assert any("--rollout plays the steps" in text for text in answer.assumptions)


def test_statefulset_goes_from_the_highest_ordinal_and_needs_no_spare() -> None:
    answer = play(cluster(node("n1", 2)), workload("StatefulSet", "vec", 2, 1), rollout=True)
    (rollout,) = answer.rollouts
    assert rollout.done
    assert [(step.action, step.pod) for step in rollout.steps] == [
        ("delete", "rag/vec-1"),
        ("create", "rag/vec-1"),
        ("delete", "rag/vec-0"),
        ("create", "rag/vec-0"),
    ]


def test_a_quota_can_stop_a_rollout() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": "rag"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "2"}},
    }
    answer = play(cluster(node("n1", 8), quota), workload("Deployment", "llm", 2, 1), rollout=True)
    assert answer.unplaced == ()
    assert not answer.rollouts[0].done
    assert "exceeded quota: gpus" in answer.rollouts[0].deadlock


def _quota(hard: int, used: int | None = None) -> Json:
    meta = {"name": "q", "namespace": "rag"}
    name = f"requests.{GPU}"
    status = {} if used is None else {"status": {"used": {name: str(used)}}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": {name: str(hard)}}, **status}


def test_a_quota_is_free_again_when_the_old_pod_is_gone() -> None:
    for kind, spec in (("StatefulSet", {}), ("Deployment", {"strategy": {"type": "Recreate"}})):
        answer = play(cluster(node("n1", 4), _quota(2)), workload(kind, "llm", 2, 1, spec=spec), rollout=True)
        (rollout,) = answer.rollouts
        assert rollout.done, rollout.deadlock
    # Also where the quota's status was saved before the pods of the files came.
    answer = play(cluster(node("n1", 4), _quota(1, 0)), workload("StatefulSet", "llm", 1, 1), rollout=True)
    assert answer.rollouts[0].done


def test_a_quota_without_room_for_the_surge_stands_in_the_way_and_says_what_to_set() -> None:
    answer = play(cluster(node("n1", 4), _quota(1, 0)), workload("Deployment", "llm", 1, 1), rollout=True)
    (rollout,) = answer.rollouts
    assert not rollout.done
    assert "is not created: pods" in rollout.deadlock
    assert "exceeded quota: q" in rollout.deadlock
    assert rollout.remedy.startswith("strategy.rollingUpdate maxSurge: 0, maxUnavailable: 1 goes through")


def test_a_workload_of_which_no_pod_is_created_has_its_line() -> None:
    answer = play(cluster(node("n1", 4), _quota(1)), workload("Deployment", "llm", 1, 2), rollout=True)
    assert not answer.ok
    assert answer.rollouts == ()
    assert "the rollout of Deployment rag/llm is not played: none of its pods is created" in answer.assumptions


def test_later_ordinals_wait_for_the_one_that_is_refused() -> None:
    answer = play(cluster(node("n1", 4), _quota(1)), workload("StatefulSet", "llm", 3, 1))
    said = {entry.key: entry.message for entry in answer.pods}
    assert "exceeded quota" in said["rag/llm-1"]
    assert said["rag/llm-2"] == "not created: its StatefulSet waits until rag/llm-1 is ready"
    assert answer.unplaced == ("rag/llm-1", "rag/llm-2")
