"""A procedure on a real control plane, as the user that `ragstow rbac apply` makes: done, done again, taken back."""

from __future__ import annotations

import pytest

from apply_support import NAMESPACE, left_over, mig_procedure, state
from ragstow.live import apply
from ragstow.live.apply import Step
from ragstow.live.client import ApiClient
from stack_player import Stack

pytestmark = pytest.mark.usefixtures("rag")


def test_applied_is_as_planned_and_undone_is_as_before(admin: ApiClient, applier: ApiClient, stack: Stack) -> None:
    was = state(admin)
    said: list[Step] = []
    procedure = mig_procedure()
    done = apply.run(applier, procedure, plan=b"{}", progress=said.append)
    assert done.state == "applied"
    assert [step.number for step in said if step.phase == "done"] == list(range(1, len(procedure.actions) + 1))
    now = state(admin)
    assert now["nodes /gpu-1"]["offers"] == {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "4"}
    assert now["nodes /gpu-1"]["labels"]["ragstow.dev/pool"] == "notes"
    assert now["nodes /gpu-1"]["spec"]["unschedulable"] is False
    assert now["pods"][f"{NAMESPACE} Deployment notes-embedder"] == 2
    assert now["pods"][f"{NAMESPACE} StatefulSet notes-llm"] == 2

    again = apply.run(applier, procedure)
    assert again.state == "unchanged"
    assert left_over(now, admin) == []

    undone = apply.undo(applier, "notes", NAMESPACE)
    assert undone.state == "undone"
    assert left_over(was, admin) == []
    assert stack.errors == []
