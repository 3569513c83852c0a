"""An API server that refuses, forgets to answer, or is restarted: the run goes on, and no harm is done twice."""

from __future__ import annotations

import itertools
import os
import threading
from typing import Any

import pytest

from apply_support import NAMESPACE, client_of, left_over, mig_procedure, state
from controlplane_support import ControlPlane
from ragstow.errors import ClusterError
from ragstow.live import apply
from ragstow.live.apply import Step
from ragstow.live.client import ApiClient
from ragstow.live.failures import ApiError, Conflict, Forbidden, Right
from ragstow.live.kubeconfig import Choice, access
from ragstow.live.transport import Transport

pytestmark = pytest.mark.usefixtures("rag", "stack")


class Unreliable(Transport):
    """Every fifth call fails: refused with a conflict, too many requests, an internal error, or done without an answer."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(access(Choice(kubeconfig=str(plane.kubeconfig), context="applier"), os.environ))
        self._lock = threading.Lock()
        self._calls = itertools.count(1)
        self._kinds = itertools.cycle(("conflict", "busy", "lost", "broken", "conflict", "lost"))
        self.failed: dict[str, int] = {}

    def send(self, method: str, path: str, right: Right, **how: Any) -> bytes:
        with self._lock:
            fails = next(self._calls) % 5 == 0
            kind = next(self._kinds) if fails else ""
        if method == "GET" and kind in ("conflict", "lost"):
            kind = "broken"
        if kind:
            self.failed[kind] = self.failed.get(kind, 0) + 1
        if kind == "conflict":
            raise Conflict(409, "Conflict", "Operation cannot be fulfilled: the object has been modified (injected)")
        if kind == "busy":
            raise ApiError(429, "TooManyRequests", "try again (injected)")
        if kind == "broken":
            raise ApiError(500, "InternalError", "etcdserver: leader changed (injected)")
        answer = super().send(method, path, right, **how)
        if kind == "lost":
            raise ClusterError("unreachable", "the connection broke before the answer (injected)")
        return answer


def test_conflicts_busy_answers_and_lost_answers(plane: ControlPlane, admin: ApiClient) -> None:
    was = state(admin)
    transport = Unreliable(plane)
    client = ApiClient(transport)
    for _ in range(2):  # discovery is not part of a run
        try:
            client.resources()
            break
        except ClusterError:
            continue
    procedure = mig_procedure()
    assert apply.run(client, procedure).state == "applied"
    now = state(admin)
    assert now["pods"][f"{NAMESPACE} StatefulSet notes-llm"] == 2
    assert apply.undo(client, "notes", NAMESPACE).state == "undone"
    assert left_over(was, admin) == []
    assert all(transport.failed.get(kind, 0) >= 3 for kind in ("conflict", "busy", "lost", "broken")), transport.failed
    client.close()


def test_restarted_in_the_middle(plane: ControlPlane, admin: ApiClient, applier: ApiClient) -> None:
    was = state(admin)

    def restart(step: Step) -> None:
        if (step.phase, step.number) == ("start", 10):
            plane.restart("kube-apiserver")

    assert apply.run(applier, mig_procedure(), progress=restart).state == "applied"
    assert apply.undo(applier, "notes", NAMESPACE, progress=restart).state == "undone"
    assert left_over(was, admin) == []


def test_a_right_that_is_missing_is_named_at_once(admin: ApiClient, plane: ControlPlane) -> None:
    reader = client_of(plane.kubeconfig, "reader")
    was = state(admin)
    with pytest.raises(Forbidden) as caught:
        apply.run(reader, mig_procedure())
    assert "leases" in str(caught.value)
    assert left_over(was, admin) == []
    reader.close()
