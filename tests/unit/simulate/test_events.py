"""Our answer beside what the live scheduler wrote about a Pending pod; victims told loudly."""

from __future__ import annotations

from typing import Any

from ragstow.cluster.release import Release
from ragstow.simulate.run import Request, simulate
from simulations import FACTS, GPU, Json, cluster, node, play, running, workload

WRITTEN = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def waiting(message: str | None = None) -> Json:
    pod = running("waits", "n1", 1)
    del pod["spec"]["nodeName"]
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    pod["status"] = {"phase": "Pending", "conditions": [condition] if message else []}
    return pod


def event(message: str, at: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"e{at}", "namespace": "rag"},
        "involvedObject": {"kind": "Pod", "name": "waits", "namespace": "rag"},
        "reason": "FailedScheduling",
        "message": message,
        "lastTimestamp": at,
    }


UNBOUND = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."


def unbound() -> tuple[Json, Json]:
    """A pod whose claim waits for a volume that nobody makes, and the claim."""
    pod = waiting(f"{UNBOUND} not found")
    pod["spec"]["volumes"] = [{"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}]
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": "1Gi"}}}
    return pod, {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "cache", "namespace": "rag", "uid": "c"},
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def test_a_cycle_that_ended_before_the_claims_were_read() -> None:
    """As 1.37.2 wrote it: DynamicResources misses its state, and its error takes the place of what preemption says."""
    answer = play(cluster(node("n1", 1), *unbound()))
    assert (answer.pods[0].message, answer.warnings) == (f"{UNBOUND} not found", ())
    off = play(cluster(node("n1", 1), *unbound()), preemption=False)
    assert (off.pods[0].message, off.warnings) == (UNBOUND, ())


def test_where_there_are_no_claims_preemption_speaks() -> None:
    said = " preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    answer = simulate(cluster(node("n1", 1), *unbound()), (), Request(Release("1.33.13", "asked")), FACTS)
    assert answer.pods[0].message == UNBOUND + said


def test_agreement_is_silent_whatever_preemption_added() -> None:
    for text in (WRITTEN, f"{WRITTEN} preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."):
        assert play(cluster(node("n1", 1), running("x", "n1", 1), waiting(text))).warnings == ()


def test_a_difference_is_a_warning() -> None:
    (warning,) = play(
        cluster(node("n1", 1), running("x", "n1", 1), waiting("0/1 nodes are available: 1 Too many pods."))
    ).warnings
    assert "the live scheduler wrote: 0/1 nodes are available: 1 Too many pods.; here: 0/1" in warning.text


def test_a_pod_that_fits_here_but_not_there() -> None:
    live = cluster(node("n1", 1), waiting(), event("old", "2026-01-01T00:00:00Z"), event(WRITTEN, "2026-01-02T00:00:00Z"))
    (warning,) = play(live).warnings
    assert warning.text == f"rag/waits: here it fits on n1; the live scheduler wrote: {WRITTEN}"


def test_victims_are_named_with_where_they_go() -> None:
    important: Json = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    }
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "batch", "uid": "b"}
    live = cluster(important, node("n1", 2), node("n2", 1), running("batch-0", "n1", 2, owner=owner))
    answer = play(live, workload("Deployment", "llm", 1, 2, priorityClassName="high"))
    assert [entry.victims for entry in answer.pods] == [("rag/batch-0",), ()]
    assert [entry.node for entry in answer.pods] == [None, "n1"]
    assert answer.final == {"rag/llm-0": "n1"}
    (displaced,) = answer.displaced
    assert (displaced.pod, displaced.by, displaced.recreated, displaced.node) == ("rag/batch-0", "rag/llm-0", True, None)
    assert f"Insufficient {GPU}" in displaced.message
    assert play(live, workload("Deployment", "llm", 1, 2, priorityClassName="high"), preemption=False).final == {}


def pod(name: str, gpus: int, value: int, **spec: Any) -> Json:
    made = running(name, "n1", gpus, app=name, priority=value, **spec)
    del made["spec"]["nodeName"]
    made["status"] = {"phase": "Pending"}
    return made


def test_a_pod_that_failed_is_tried_again_when_somebody_comes_that_it_wants_near() -> None:
    near = {"labelSelector": {"matchLabels": {"app": "llm"}}, "topologyKey": "kubernetes.io/hostname"}
    wants = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    live = cluster(node("n1", 2), pod("embed", 1, 10, affinity=wants), pod("llm", 1, 0))
    answer = play(live)
    assert [(entry.name, entry.number, entry.node) for entry in answer.pods] == [
        ("embed", 1, None),
        ("llm", 1, "n1"),
        ("embed", 2, "n1"),
    ]
    assert play(live, order="list").unplaced == ("rag/embed",)
