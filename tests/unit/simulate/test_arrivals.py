"""Workloads become the pods that their controllers would make, with their claims; only what is missing arrives."""

from __future__ import annotations

from typing import Any

import pytest

from ragstow.scheduling.release import Release
from ragstow.simulate.arrivals import Gathered, gather
from simulations import Json, cluster, deployed, node, objects, play, running, workload

RELEASE = Release.parse("1.37.2")


def gathered(*given: Json, live: tuple[Json, ...] = (), **how: Any) -> Gathered:
    return gather(cluster(node("n1", 8), node("n2", 8, labels={"gpu": "no"}), *live), objects(*given), RELEASE, **how)


def names(found: Gathered) -> list[str]:
    return [item.pod.name for item in found.arrivals]


def test_a_deployment_makes_its_replicas_behind_a_replica_set() -> None:
    found = gathered(workload("Deployment", "llm", 2, 1))
    assert names(found) == ["llm-0", "llm-1"]
    pod = found.arrivals[0].pod
    owner = pod.controller
    assert owner is not None
    assert owner.kind == "ReplicaSet"
    # Default spreading looks for the owner and its selector.
    made = found.snapshot.get("ReplicaSet", owner.name, "rag", "apps")
    assert made is not None
    assert made.raw["spec"]["selector"]["matchLabels"]["pod-template-hash"] == pod.labels["pod-template-hash"]


def test_a_job_runs_as_many_as_it_may_at_once() -> None:
    job = workload("Job", "ingest", 5)
    job["spec"] |= {"parallelism": 3}
    assert names(gathered(job)) == ["ingest-0", "ingest-1", "ingest-2"]
    job["spec"] |= {"completions": 2}
    assert len(gathered(job).arrivals) == 2
    job["spec"] |= {"suspend": True}
    assert gathered(job).arrivals == ()


def test_a_stateful_set_names_its_pods_and_makes_their_claims_in_order() -> None:
    templates = [
        {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "late"}}
    ]
    late = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "late"},
        "provisioner": "x",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    found = gathered(workload("StatefulSet", "vec", 2, spec={"volumeClaimTemplates": templates}), live=(late,))
    assert names(found) == ["vec-0", "vec-1"]
    assert [item.after for item in found.arrivals] == [None, "rag/vec-0"]
    assert found.snapshot.get("PersistentVolumeClaim", "data-vec-1", "rag") is not None
    volumes = found.arrivals[1].pod.spec["volumes"]
    assert volumes == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-vec-1"}}]


def test_parallel_stateful_sets_do_not_wait() -> None:
    found = gathered(workload("StatefulSet", "vec", 2, spec={"podManagementPolicy": "Parallel"}))
    assert [item.after for item in found.arrivals] == [None, None]


def test_an_ordinal_that_fits_nowhere_keeps_the_next_from_being_made() -> None:
    answer = play(cluster(node("n1", 1)), workload("StatefulSet", "vec", 3, 1))
    assert answer.final == {"rag/vec-0": "n1"}
    last = {entry.key: entry for entry in answer.pods}
    assert last["rag/vec-1"].number == 1
    assert last["rag/vec-2"].number == 0
    assert "waits until rag/vec-1 is ready" in last["rag/vec-2"].message


def test_a_daemon_set_has_a_pod_on_every_node_it_may_run_on() -> None:
    tainted = node("n3", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    cordoned = node("n4", taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}])
    found = gathered(workload("DaemonSet", "ds", 0), live=(tainted, cordoned))
    assert names(found) == ["ds-n1", "ds-n2", "ds-n4"]
    selective = workload("DaemonSet", "ds", 0, nodeSelector={"gpu": "no"})
    assert names(gathered(selective)) == ["ds-n2"]
    answer = play(cluster(node("n1"), cordoned), workload("DaemonSet", "ds", 0))
    assert answer.final == {"rag/ds-n1": "n1", "rag/ds-n4": "n4"}


def test_only_what_is_missing_arrives() -> None:
    live = tuple(deployed("llm", ["n1"], 1))
    assert names(gathered(workload("Deployment", "llm", 3, 1), live=live)) == ["llm-0", "llm-1"]
    fewer = gathered(workload("Deployment", "llm", 0, 1), live=live)
    assert [pod.name for pod in fewer.superfluous] == ["llm-old-0"]
    assert fewer.snapshot.get("Pod", "llm-old-0", "rag") is None


def test_pending_pods_come_first_unless_only_files_count() -> None:
    waiting = running("waits", "n1")
    del waiting["spec"]["nodeName"]
    waiting["status"] = {"phase": "Pending"}
    assert names(gathered(workload("Deployment", "llm", 1), live=(waiting,))) == ["waits", "llm-0"]
    assert names(gathered(workload("Deployment", "llm", 1), live=(waiting,), only_files=True)) == ["llm-0"]
    waiting["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    answer = play(cluster(node("n1"), waiting), workload("Deployment", "llm", 1))
    assert [entry.name for entry in answer.pods] == ["waits", "llm-0"]


def test_saved_workloads_are_not_expanded_again() -> None:
    assert gathered(*deployed("llm", ["n1"], 1)).arrivals == ()


def test_what_is_not_known_is_said() -> None:
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly", "namespace": "rag"}, "spec": {}}
    found = gathered(cron)
    assert found.arrivals == ()
    assert any("CronJob rag/nightly" in text for text in found.assumptions)


def claim(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "rag"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}, **spec},
    }


def volume(name: str, size: str, **more: Any) -> Json:
    body = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], **more}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": body}


def storage_class(name: str, provisioner: str = "p", **more: Any) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        **more,
    }


def bound(found: Gathered, name: str) -> str | None:
    made = found.snapshot.get("PersistentVolumeClaim", name, "rag")
    assert made is not None
    volume_name: str | None = made.raw["spec"].get("volumeName")
    return volume_name


def test_a_new_claim_takes_the_smallest_volume_that_fits() -> None:
    live = (storage_class("s"), volume("large", "50Gi", storageClassName="s"), volume("small", "10Gi", storageClassName="s"),
            volume("tiny", "1Gi", storageClassName="s"))  # fmt: skip
    assert bound(gathered(claim("c", storageClassName="s"), live=live), "c") == "small"


def test_a_class_that_waits_is_left_to_the_scheduler_and_one_that_cannot_provision_too() -> None:
    waits = storage_class("w", volumeBindingMode="WaitForFirstConsumer")
    assert bound(gathered(claim("c", storageClassName="w"), live=(waits,)), "c") is None
    static = storage_class("n", provisioner="kubernetes.io/no-provisioner")
    assert bound(gathered(claim("c", storageClassName="n"), live=(static,)), "c") is None


def test_a_class_that_binds_at_once_provisions_and_says_what_is_chance() -> None:
    found = gathered(claim("c", storageClassName="s"), live=(storage_class("s"),))
    assert bound(found, "c") is not None
    assert any("class s provisions at once" in text for text in found.assumptions)


def test_the_default_class_is_filled_in() -> None:
    default = storage_class("d", volumeBindingMode="WaitForFirstConsumer")
    default["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    found = gathered(claim("c"), live=(default,))
    made = found.snapshot.get("PersistentVolumeClaim", "c", "rag")
    assert made is not None
    assert made.raw["spec"]["storageClassName"] == "d"


def test_volumes_that_were_not_saved_do_not_stand_in_the_way() -> None:
    mounted = [{"name": "v", "persistentVolumeClaim": {"claimName": "models"}}]
    pod = workload("Deployment", "llm", 1, volumes=mounted)
    # A pod runs on a claim that is not there: so claims were not saved.
    answer = play(cluster(node("n1"), running("x", "n1", volumes=mounted)), pod)
    assert answer.final == {"rag/llm-0": "n1"}
    assert any("volumes are not in the data" in text for text in answer.assumptions)


def test_a_claim_that_does_not_exist_is_what_the_scheduler_says() -> None:
    pod = workload("Deployment", "llm", 1, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "models"}}])
    answer = play(cluster(node("n1"), running("x", "n1")), pod, preemption=False)
    assert answer.pods[0].message == '0/1 nodes are available: persistentvolumeclaim "models" not found.'
    assert answer.near_misses["rag/llm-0"].text.endswith(
        "claims in namespace rag: none (kubectl get pvc,pv,storageclass -A -o yaml saves them)"
    )
    assert not answer.ok


@pytest.mark.parametrize(
    "change",
    [
        {"containers": "none"},
        {"containers": [{"name": "c", "resources": {"requests": {"cpu": "much"}}}]},
        {"containers": ["c"]},
        {"affinity": {"nodeAffinity": ["x"]}},
        {"tolerations": "all"},
        {"topologySpreadConstraints": [{"maxSkew": "few"}]},
        {"volumes": ["v"]},
        {"nodeSelector": ["a"]},
        {"initContainers": 3},
        {"resourceClaims": "gpu"},
    ],
)
def test_a_manifest_of_a_wrong_shape_is_told_and_the_others_go_on(change: Json) -> None:
    broken = workload("Deployment", "bad", 2)
    broken["spec"]["template"]["spec"] |= change
    answer = play(cluster(node("n1", 4)), broken, workload("Deployment", "llm", 1, 1))
    assert answer.final == {"rag/llm-0": "n1"}
    assert not answer.ok
    told = [entry for entry in answer.pods if entry.number == 0]
    assert told
    assert told[0].refusal is not None


@pytest.mark.parametrize("spec", [None, [], "x", {"template": None}, {"template": {"spec": []}}, {"replicas": "two"}])
def test_a_workload_of_a_wrong_shape_does_no_harm(spec: Any) -> None:
    broken = workload("Deployment", "bad", 1)
    broken["spec"] = spec
    answer = play(cluster(node("n1", 4)), broken, workload("StatefulSet", "llm", 1, 1), rollout=True)
    assert answer.final["rag/llm-0"] == "n1"


def test_a_new_pod_that_names_its_node_is_said_to_come_past_the_scheduler() -> None:
    body = {"nodeName": "n1", "containers": [{"name": "c", "image": "x"}]}
    new = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "nn", "namespace": "rag"}, "spec": body}
    (note,) = gathered(new).assumptions
    assert "no scheduler looks at rag/nn on n1" in note
    # Saved pods (here: one with a status) run where they are.
    assert gathered(running("x", "n1", 1)).assumptions == ()
