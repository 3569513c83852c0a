"""One run at a time: the second refuses and says whose it is; a dead run's lease is taken over; a run that lost it stops."""

from __future__ import annotations

import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apply_support import NAMESPACE, left_over, mig_procedure, state
from ragstow.live import apply
from ragstow.live.apply import ApplyStopped, Interrupted, Step
from ragstow.live.client import ApiClient

pytestmark = pytest.mark.usefixtures("rag", "stack")
QUICK = apply.Options(lease_seconds=2)


def lease(admin: ApiClient) -> dict[str, Any] | None:
    resource = admin.resources().plural("coordination.k8s.io", "leases")
    assert resource is not None
    return admin.get(resource, "ragstow-apply", "kube-system")


def write_lease(admin: ApiClient, holder: str, renewed: datetime) -> None:
    text = renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    admin.create(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "ragstow-apply", "namespace": "kube-system"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 30, "acquireTime": text, "renewTime": text},
        }
    )


def drop_lease(admin: ApiClient) -> None:
    resource = admin.resources().plural("coordination.k8s.io", "leases")
    assert resource is not None
    admin.delete(resource, "ragstow-apply", "kube-system")


def test_the_second_run_refuses_and_a_long_run_keeps_its_lease(admin: ApiClient, applier: ApiClient) -> None:
    was = state(admin)
    errors: list[ApplyStopped] = []

    def second(step: Step) -> None:
        if (step.phase, step.number) == ("start", 8):
            time.sleep(3)  # longer than the lease lasts unless it is renewed
            with pytest.raises(ApplyStopped) as caught:
                apply.run(applier, mig_procedure(digest="d2"), options=QUICK)
            errors.append(caught.value)
            with pytest.raises(ApplyStopped) as caught:
                apply.undo(applier, "notes", NAMESPACE, options=QUICK)
            errors.append(caught.value)

    assert apply.run(applier, mig_procedure(), options=QUICK, progress=second).state == "applied"
    assert [(error.code, error.exit_code) for error in errors] == [("lease-held", 1)] * 2
    holder = f"@{socket.gethostname()}/"
    assert all(holder in error.message and " since 20" in error.message for error in errors)
    assert lease(admin) is None
    apply.undo(applier, "notes", NAMESPACE)
    assert left_over(was, admin) == []


def test_the_lease_of_a_dead_run_is_taken_over_and_said(admin: ApiClient, applier: ApiClient) -> None:
    write_lease(admin, "somebody@elsewhere/1", datetime.now(UTC) - timedelta(seconds=20))
    with pytest.raises(ApplyStopped, match="somebody@elsewhere/1 holds the lease"):
        apply.undo(applier, "notes", NAMESPACE)
    drop_lease(admin)
    write_lease(admin, "somebody@elsewhere/1", datetime.now(UTC) - timedelta(seconds=45))
    said: list[Step] = []
    with pytest.raises(ApplyStopped, match="there is no record"):
        apply.undo(applier, "notes", NAMESPACE, progress=said.append)
    assert [step.text for step in said] == [
        "took over the lease of somebody@elsewhere/1, which was last renewed 45 s ago: that run has died"
    ]
    assert lease(admin) is None


def test_a_run_that_lost_its_lease_stops_and_leaves_the_other_alone(admin: ApiClient, applier: ApiClient) -> None:
    was = state(admin)

    def steal(step: Step) -> None:
        if (step.phase, step.number) == ("start", 7):
            drop_lease(admin)
            write_lease(admin, "thief@elsewhere/1", datetime.now(UTC))
            time.sleep(1.5)

    with pytest.raises(ApplyStopped, match="thief@elsewhere/1 has taken over") as caught:
        apply.run(applier, mig_procedure(), options=QUICK, progress=steal)
    assert caught.value.code == "lease-lost"
    held = lease(admin)
    assert held is not None
    assert held["spec"]["holderIdentity"] == "thief@elsewhere/1"
    drop_lease(admin)
    apply.undo(applier, "notes", NAMESPACE)
    assert left_over(was, admin) == []


@pytest.mark.parametrize("number", [2, 9, 16])
def test_control_c_leaves_a_record_no_lease_and_words(number: int, admin: ApiClient, applier: ApiClient) -> None:
    was = state(admin)

    def interrupt(step: Step) -> None:
        if (step.phase, step.number) == ("start", number):
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        apply.run(applier, mig_procedure(), progress=interrupt)
    assert caught.value.exit_code == 130
    assert f"({number} of 21)" in caught.value.message
    assert "ragstow apply --undo -n rag notes" in caught.value.hint
    assert lease(admin) is None
    assert apply.resume(applier, "notes", NAMESPACE).state == "applied"
    apply.undo(applier, "notes", NAMESPACE)
    assert left_over(was, admin) == []


def test_control_c_in_an_undo_names_the_undo_for_the_same_cluster(applier: ApiClient) -> None:
    def interrupt(step: Step) -> None:
        if (step.phase, step.number) == ("start", 2):
            raise KeyboardInterrupt

    apply.run(applier, mig_procedure())
    with pytest.raises(Interrupted) as caught:
        apply.undo(applier, "notes", NAMESPACE, options=apply.Options(typed="--context prod"), progress=interrupt)
    assert caught.value.hint == "`ragstow apply --undo -n rag notes --context prod` goes on from here"
    assert apply.undo(applier, "notes", NAMESPACE).state == "undone"


def test_no_thread_is_left(applier: ApiClient) -> None:
    with pytest.raises(ApplyStopped):
        apply.undo(applier, "nothing", NAMESPACE)
    assert not [thread for thread in threading.enumerate() if thread.name == "ragstow-lease"]
