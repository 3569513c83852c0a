"""Root causes first: the more specific cause wins where both explain the same pods, else severity and held pods decide."""

from __future__ import annotations

from ragstow.rules.model import Finding, Fix, ObjectRef, Severity
from ragstow.rules.rank import order


def _finding(cause: str, severity: Severity = "high", held: tuple[str, ...] = (), name: str = "x") -> Finding:
    return Finding(cause, cause, severity, "certain", cause, "", Fix("mend it"), (ObjectRef("Pod", "rag", name),), held=held)


def test_specific_cause_takes_the_general_one_below_it() -> None:
    deadlock = _finding("rolling-update-gpu-deadlock", held=("rag/a",), name="a")
    full = _finding("gpu-exhausted", "critical", held=("rag/a", "rag/b"), name="b")
    (first,) = order([full, deadlock])
    assert first.cause == "rolling-update-gpu-deadlock"
    assert [item.cause for item in first.follows] == ["gpu-exhausted"]


def test_unrelated_findings_stay_apart() -> None:
    deadlock = _finding("rolling-update-gpu-deadlock", held=("rag/a",), name="a")
    full = _finding("gpu-exhausted", held=("rag/c",), name="c")
    assert {item.cause for item in order([full, deadlock])} == {"gpu-exhausted", "rolling-update-gpu-deadlock"}


def test_severity_then_held_pods() -> None:
    low, many, few = _finding("a", "medium"), _finding("b", held=("1", "2")), _finding("c", held=("1",))
    assert [item.cause for item in order([low, few, many])] == ["b", "c", "a"]
