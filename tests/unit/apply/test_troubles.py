"""What can go wrong with nodes and pods: each is said early and in plain words, and an undo puts everything back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from apply_support import CUT, NAMESPACE, budget, create, daemonset, left_over, mig_procedure, service, state, workload
from controlplane_support import ControlPlane
from ragstow.errors import InputError, RagstowError, TimeoutReached
from ragstow.live import apply
from ragstow.live.apply import ApplyStopped, Options
from ragstow.live.client import ApiClient
from ragstow.live.failures import Right
from ragstow.render.actions import Action, ApplyObject, Procedure, WaitReady
from stack_player import Stack

pytestmark = pytest.mark.usefixtures("rag")
GPU = "nvidia.com/gpu"


def guest(replicas: int = 1) -> dict[str, Any]:
    """A foreign workload on the GPU node."""
    made = workload("Deployment", "guest", replicas, gpu=GPU)
    made["metadata"] = {"name": "guest", "namespace": "other"}
    labels = {"app": "guest"}
    made["spec"]["selector"] = {"matchLabels": labels}
    made["spec"]["template"]["metadata"] = {"labels": labels}
    return made


def pods(admin: ApiClient, namespace: str) -> list[dict[str, Any]]:
    resource = admin.resources().plural("", "pods")
    assert resource is not None
    return list(admin.list(resource, namespace))


@contextmanager
def guests(plane: ControlPlane, admin: ApiClient, *items: dict[str, Any]) -> Iterator[list[str]]:
    """Foreign pods with GPUs, running, and their names."""
    create(plane, guest(), *items)
    plane.kubectl("-n", "other", "rollout", "status", "deployment/guest", "--timeout=60s")
    try:
        yield [f"other/{pod['metadata']['name']}" for pod in pods(admin, "other")]
    finally:
        for item in reversed((guest(), *items)):
            plane.kubectl("-n", "other", "delete", item["kind"], item["metadata"]["name"])
        plane.kubectl("-n", "other", "wait", "--for=delete", "pod", "-l", "app=guest", "--timeout=60s")


def budget_of_guest(least: int) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guest", "namespace": "other"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "guest"}}},
    }


def stopped(go: Callable[[], object]) -> RagstowError:
    """The error of a run that stops."""
    with pytest.raises(RagstowError) as caught:
        go()
    return caught.value


@pytest.mark.usefixtures("stack")
def test_a_pod_that_nobody_was_told_about_is_not_evicted(plane: ControlPlane, admin: ApiClient, applier: ApiClient) -> None:
    with guests(plane, admin) as names:
        was = state(admin)
        error = stopped(lambda: apply.run(applier, mig_procedure()))
        assert (error.code, error.exit_code) == ("gpu-held", 1)
        assert names[0] in error.message
        assert [f"other/{pod['metadata']['name']}" for pod in pods(admin, "other")] == names
        assert apply.undo(applier, "notes", NAMESPACE).state == "undone"
        assert left_over(was, admin) == []


@pytest.mark.usefixtures("stack")
def test_a_pod_that_came_since_is_evicted_by_an_undo_only_where_that_was_said(
    plane: ControlPlane, admin: ApiClient, applier: ApiClient
) -> None:
    was = state(admin)
    apply.run(applier, mig_procedure())
    with guests(plane, admin) as names:
        error = stopped(lambda: apply.undo(applier, "notes", NAMESPACE))
        assert error.code == "gpu-held"
        assert names[0] in error.message
        assert "--allow-disturb" in error.hint
        assert apply.undo(applier, "notes", NAMESPACE, options=Options(disturb=tuple(names))).state == "undone"
    assert left_over(was, admin) == []


@pytest.mark.usefixtures("stack")
def test_a_budget_that_blocks_is_a_time_out_that_names_it(plane: ControlPlane, admin: ApiClient, applier: ApiClient) -> None:
    with guests(plane, admin, budget_of_guest(1)) as names:
        was = state(admin)
        procedure = mig_procedure(expected=tuple(names))
        error = stopped(lambda: apply.run(applier, procedure, options=Options(timeout_seconds=4)))
        assert isinstance(error, TimeoutReached)
        assert error.exit_code == 4
        assert f"a disruption budget keeps {names[0]} (guest allows 0 now)" in error.message
        assert "ragstow diagnose" in error.hint
        assert "--undo" in error.hint
        # The budget goes, the next run goes on.
        plane.kubectl("-n", "other", "patch", "pdb", "guest", "--type=merge", "-p", '{"spec":{"minAvailable":0}}')
        assert apply.run(applier, procedure).state == "applied"
        assert apply.undo(applier, "notes", NAMESPACE).state == "undone"
        plane.kubectl("-n", "other", "patch", "pdb", "guest", "--type=merge", "-p", '{"spec":{"minAvailable":1}}')
        assert left_over(was, admin) == []


@pytest.mark.usefixtures("stack")
def test_a_pod_of_a_daemonset_would_come_back(plane: ControlPlane, admin: ApiClient, applier: ApiClient) -> None:
    made = daemonset("other", "watcher", "watcher")
    made["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "gpu-1"}
    made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {GPU: "1"}}
    create(plane, made)
    plane.kubectl("-n", "other", "rollout", "status", "daemonset/watcher", "--timeout=60s")
    was = state(admin)
    (name,) = [f"other/{pod['metadata']['name']}" for pod in pods(admin, "other")]
    error = stopped(lambda: apply.run(applier, mig_procedure(expected=(name,))))
    assert f"{name} of a DaemonSet holds a GPU of gpu-1 and would come back" in error.message
    assert apply.undo(applier, "notes", NAMESPACE).state == "undone"
    assert left_over(was, admin) == []
    plane.kubectl("-n", "other", "delete", "daemonset", "watcher", "--cascade=foreground")


def test_layout_that_fails(admin: ApiClient, applier: ApiClient, stack: Stack) -> None:
    was = state(admin)
    stack.fails = [CUT]
    error = stopped(lambda: apply.run(applier, mig_procedure()))
    assert (error.code, error.exit_code) == ("mig-failed", 1)
    assert "gpu-1" in error.message
    assert "nvidia-mig-manager" in error.hint
    stack.fails = []
    assert apply.undo(applier, "notes", NAMESPACE).state == "undone"
    assert left_over(was, admin) == []


def test_layout_that_never_comes(admin: ApiClient, applier: ApiClient, stack: Stack) -> None:
    was = state(admin)
    stack.never = [CUT]
    error = stopped(lambda: apply.run(applier, mig_procedure(), options=Options(timeout_seconds=3)))
    assert error.exit_code == 4
    assert "wait for the MIG manager on gpu-1" in error.message
    assert "pending" in error.message
    assert apply.undo(applier, "notes", NAMESPACE).state == "undone"
    assert left_over(was, admin) == []


def small(*manifests: dict[str, Any]) -> Procedure:
    """A procedure of workloads alone."""
    actions: list[Action] = []
    for item in manifests:
        actions.append(ApplyObject(item))
        if item["kind"] in ("Deployment", "StatefulSet"):
            meta, replicas = item["metadata"], item["spec"]["replicas"]
            actions.append(WaitReady("apps/v1", item["kind"], NAMESPACE, meta["name"], replicas, 30))
    return Procedure("notes", NAMESPACE, "d1", tuple(actions), 0, 0)


@contextmanager
def spoiling(admin: ApiClient, status: dict[str, Any], name: str = "notes-") -> Iterator[None]:
    """Every pod of the service gets this status as soon as it runs."""
    end = threading.Event()
    resource = admin.resources().plural("", "pods")
    assert resource is not None

    def spoil() -> None:
        while not end.wait(0.1):
            for pod in pods(admin, NAMESPACE):
                meta = pod["metadata"]
                if meta["name"].startswith(name) and (pod.get("status") or {}).get("phase") == "Running":
                    try:
                        admin.transport.json(
                            "PATCH", resource.path(NAMESPACE, meta["name"], "status"), Right("patch", "pods/status"),
                            body={"status": status}, content_type="application/merge-patch+json",
                        )  # fmt: skip
                    except RagstowError:
                        continue

    thread = threading.Thread(target=spoil, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(10)


NOT_READY = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "False"}]


def container(waiting: str, restarts: int, message: str = "") -> list[dict[str, Any]]:
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": None, "finishedAt": None}}
    state = {"waiting": {"reason": waiting, "message": message}}
    return [
        {
            "name": "llm", "image": "x", "imageID": "", "ready": False, "restartCount": restarts, "state": state,
            "lastState": ended if restarts else {},
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (
            {"conditions": NOT_READY, "containerStatuses": container("CrashLoopBackOff", 3)},
            "crashes: container llm, 3 restarts, exit code 1, Error",
        ),
        (
            {"conditions": NOT_READY, "containerStatuses": container("ImagePullBackOff", 0, "Back-off pulling image")},
            "cannot start: container llm: ImagePullBackOff: Back-off pulling image",
        ),
        (
            {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Allocate failed due to no devices"},
            "was refused on cpu-1: UnexpectedAdmissionError: Allocate failed due to no devices",
        ),
    ],
    ids=["crash", "image", "refused"],
)
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_pod_that_will_not_get_ready_is_said_at_once(
    kind: str, status: dict[str, Any], words: str, admin: ApiClient, applier: ApiClient
) -> None:
    # A simulated kubelet calls the pod ready at once; it must stay so to count.
    llm = workload(kind, "llm", 1, minReadySeconds=30)
    llm["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "cpu-1"}
    with spoiling(admin, status):
        options = Options(poll_seconds=0.5)
        error = stopped(lambda: apply.run(applier, small(llm), options=options))
    assert (error.code, error.exit_code) == ("rollout-failed", 1)
    assert words in error.message
    assert apply.undo(applier, "notes", NAMESPACE).state == "undone"


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_pods_that_a_quota_refuses(kind: str, plane: ControlPlane, applier: ApiClient) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": NAMESPACE}}
    create(plane, {**quota, "spec": {"hard": {"pods": "0"}}})
    plane.kubectl("-n", NAMESPACE, "wait", "--for=jsonpath={.status.hard.pods}=0", "resourcequota/none", "--timeout=20s")
    with pytest.raises(ApplyStopped) as caught:
        apply.run(applier, small(workload(kind, "llm", 1)), options=Options(poll_seconds=0.5))
    assert "its pods cannot be created" in caught.value.message
    assert "exceeded quota: none" in caught.value.message
    assert apply.undo(applier, "notes", NAMESPACE).state == "undone"
    plane.kubectl("-n", NAMESPACE, "delete", "resourcequota", "none")


def test_pod_that_no_node_takes(applier: ApiClient) -> None:
    options = Options(poll_seconds=0.5, unschedulable_seconds=2)
    with pytest.raises(ApplyStopped) as caught:
        apply.run(applier, small(workload("Deployment", "llm", 1, gpu="nvidia.com/none")), options=options)
    assert "finds no node" in caught.value.message
    assert "Insufficient nvidia.com/none" in caught.value.message
    assert apply.undo(applier, "notes", NAMESPACE).state == "undone"


def test_fields_of_others_need_a_word(plane: ControlPlane, admin: ApiClient, applier: ApiClient) -> None:
    theirs = workload("Deployment", "gateway", 3)
    create(plane, theirs)
    plane.kubectl("-n", NAMESPACE, "rollout", "status", "deployment/notes-gateway", "--timeout=60s")
    was = state(admin)
    ours = small(workload("Deployment", "gateway", 1))
    error = stopped(lambda: apply.run(applier, ours))
    assert (error.code, error.exit_code) == ("field-conflict", 1)
    assert ".spec.replicas (kubectl-create)" in error.message
    assert "--force-conflicts" in error.hint
    assert apply.run(applier, ours, options=Options(force_conflicts=True)).state == "applied"
    assert state(admin)["pods"][f"{NAMESPACE} Deployment notes-gateway"] == 1
    assert apply.undo(applier, "notes", NAMESPACE).state == "undone"
    assert left_over(was, admin) == []
    plane.kubectl("-n", NAMESPACE, "delete", "deployment", "notes-gateway", "--cascade=foreground")


@pytest.mark.usefixtures("stack")
def test_a_later_version_is_taken_back_to_the_earlier_one(admin: ApiClient, applier: ApiClient) -> None:
    was = state(admin)
    apply.run(applier, mig_procedure())
    first = state(admin)
    later = mig_procedure(digest="d2", version="2")
    removed = [
        action
        for action in later.actions
        if "gateway" not in action.title
    ]  # fmt: skip
    later = replace(later, actions=tuple(removed))
    found = apply.leftovers(applier, later)
    assert [action.title for action in found] == ["delete Deployment rag/notes-gateway"]
    assert apply.run(applier, apply.with_leftovers(later, found)).state == "applied"
    second = state(admin)
    assert "deployments rag/notes-gateway" not in second
    images = second["deployments rag/notes-embedder"]["spec"]["template"]["spec"]["containers"][0]["image"]
    assert images.endswith(":2")
    assert apply.undo(applier, "notes", NAMESPACE).state == "undone"
    assert left_over(first, admin) == []
    assert apply.undo(applier, "notes", NAMESPACE).state == "undone"
    assert left_over(was, admin) == []
    with pytest.raises(ApplyStopped, match="no record"):
        apply.undo(applier, "notes", NAMESPACE)


def test_what_cannot_be_changed_is_made_anew_and_taken_back(admin: ApiClient, applier: ApiClient) -> None:
    apply.run(applier, small(workload("StatefulSet", "llm", 1)))
    first = state(admin)
    done = apply.run(applier, small(workload("StatefulSet", "llm", 1, podManagementPolicy="Parallel")))
    assert any("made anew" in note for note in done.notes)
    assert apply.undo(applier, "notes", NAMESPACE).state == "undone"
    assert left_over(first, admin) == []
    apply.undo(applier, "notes", NAMESPACE)


def test_secrets_are_never_touched(applier: ApiClient) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token", "namespace": NAMESPACE}, "stringData": {}}
    with pytest.raises(InputError, match="must not be"):
        apply.run(applier, small(secret))
    assert apply.last(applier, "notes", NAMESPACE) is None


@pytest.mark.parametrize("delete", [False, True])
def test_claims_of_stateful_sets(delete: bool, plane: ControlPlane, admin: ApiClient, applier: ApiClient) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    store = workload("StatefulSet", "vectors", 1, volumeClaimTemplates=[claim])
    with pytest.raises(TimeoutReached):  # no provisioner here, so its pod waits
        apply.run(applier, small(service("vectors"), budget("vectors"), store), options=Options(timeout_seconds=2))
    done = apply.undo(applier, "notes", NAMESPACE, options=Options(delete_claims=delete))
    there = [key for key in state(admin) if key.startswith("persistentvolumeclaims rag/")]
    assert there == ([] if delete else ["persistentvolumeclaims rag/data-notes-vectors-0"])
    assert any("stays with its data" in note for note in done.notes) is not delete
    plane.kubectl("-n", NAMESPACE, "delete", "persistentvolumeclaims", "--all")
