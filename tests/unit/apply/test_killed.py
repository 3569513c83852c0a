"""A run that is killed (SIGKILL) at any of its steps is finished by the next one, or taken back as if nothing had been."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apply_runner import Runner, runner
from apply_support import NAMESPACE, left_over, mig_procedure, state
from controlplane_support import ControlPlane
from ragstow.live import apply
from ragstow.live.apply import codec
from ragstow.live.client import ApiClient
from ragstow.render.actions import WaitReady

PROCEDURE = mig_procedure()
DOCUMENT = codec.to_document(PROCEDURE)
COUNT = len(PROCEDURE.actions)
POINTS = [
    (0, "started"), (1, "finished"), (4, "started"), (5, "finished"), (7, "started"), (7, "finished"), (8, "started"),
    (10, "finished"), (14, "finished"), (17, "started"),
]  # fmt: skip


@pytest.fixture(scope="module")
def play() -> Iterator[Runner]:
    """Runs in processes of their own."""
    with runner() as made:
        yield made


def bury(admin: ApiClient) -> None:
    """Take away the lease of a run that was killed; that it is taken over when it has ended is tested elsewhere."""
    leases = admin.resources().plural("coordination.k8s.io", "leases")
    assert leases is not None
    admin.delete(leases, "ragstow-apply", "kube-system")


@pytest.mark.usefixtures("rag", "stack")
def test_killed_at_every_step_and_finished_then_undone_killed_at_every_step(
    plane: ControlPlane, admin: ApiClient, play: Runner
) -> None:
    was = state(admin)
    job = {"kubeconfig": str(plane.kubeconfig), "procedure": DOCUMENT}
    for number in range(COUNT):
        for when in ("started", "finished"):
            answer = play(kill=(when, number), **job)
            assert answer["killed"], (when, number, answer)
            bury(admin)
    # Another plan is refused while this one is half done.
    other = play(**{**job, "procedure": {**DOCUMENT, "digest": "another"}})
    assert (other["error"], other["exit"]) == ("run-unfinished", 1)
    assert play(**job) == {"killed": False, "state": "applied"}
    now = state(admin)
    assert now["pods"][f"{NAMESPACE} StatefulSet notes-llm"] == 2
    assert now["nodes /gpu-1"]["offers"] == {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "4"}

    back = {"kubeconfig": str(plane.kubeconfig), "service": "notes", "namespace": NAMESPACE}
    killed = 0
    while (answer := play(kill=("finished", 0), **back))["killed"]:
        killed += 1
        # Each next undo repeats the step that was not marked, and is then let through one more.
        bury(admin)
        answer = play(kill=("finished", 1), **back)
        if not answer["killed"]:
            break
        killed += 1
        bury(admin)
    assert answer["state"] == "undone"
    assert killed > COUNT / 2
    assert left_over(was, admin) == []


@pytest.mark.usefixtures("rag", "stack")
@pytest.mark.parametrize(("number", "when"), POINTS)
def test_killed_and_undone(
    number: int, when: str, plane: ControlPlane, admin: ApiClient, applier: ApiClient, play: Runner
) -> None:
    was = state(admin)
    answer = play(kubeconfig=str(plane.kubeconfig), procedure=DOCUMENT, kill=(when, number))
    assert answer["killed"], answer
    bury(admin)
    record = apply.last(applier, "notes", NAMESPACE)
    assert record is not None
    assert record.done == number
    assert apply.undo(applier, "notes", NAMESPACE).state == "undone"
    assert left_over(was, admin) == []


def test_the_points_are_of_every_kind() -> None:
    """The numbers above stand for configuration, node, and workload actions, waits among them."""
    kinds = {type(PROCEDURE.actions[number]).__name__ for number, _ in POINTS}
    assert kinds == {
        "ApplyObject", "MergePatch", "RestartDaemonSet", "Cordon", "SetLabels", "WaitMigState", "Uncordon",
    }  # fmt: skip
    assert isinstance(PROCEDURE.actions[-1], WaitReady)
