"""What counts as passed, and what the document says."""

from __future__ import annotations

from ragstow.verification.document import body
from ragstow.verification.model import Check, Evidence, ObjectRef, Outcome, Subject, Unknown, Verification, joined

POD = ObjectRef("Pod", "rag", "llm-0")
SUBJECT = Subject("support", "rag", "plan file plan.json", "0" * 64, "context admin", "1.37.2", "2026-12-01T00:00:00Z")


def _check(passed: bool = True) -> Check:
    return Check("gpu-product", POD, "A", "A" if passed else "B", passed, (Evidence("kubectl exec", "B"),), component="llm")


def test_all_checks_must_pass() -> None:
    assert Verification(SUBJECT, (_check(),)).passed
    assert not Verification(SUBJECT, (_check(), _check(passed=False))).passed
    assert Verification(SUBJECT, (_check(), _check(passed=False))).failed == (_check(passed=False),)


def test_nothing_checked_is_not_passed() -> None:
    assert not Verification(SUBJECT, ()).passed


def test_what_is_unknown_is_not_passed_only_where_it_is_needed() -> None:
    extra = Unknown("kubelet-log", ObjectRef("Node", "", "n1"), "node log query is off", "kubectl get ...")
    needed = Unknown("gpu-product", POD, "pods/exec is not allowed", "ragstow rbac verify", needed=True, forbidden=True)
    assert Verification(SUBJECT, (_check(),), (extra,)).passed
    assert not Verification(SUBJECT, (_check(),), (extra, needed)).passed


def test_outcomes_are_joined_in_order_and_said_once() -> None:
    item = Unknown("a", POD, "b", "c")
    found = joined(SUBJECT, [Outcome((_check(),), (item,), remarks=("x",)), Outcome((_check(False),), (item,), remarks=("x",))])
    assert [check.passed for check in found.checks] == [True, False]
    assert found.unknown == (item,)
    assert found.remarks == ("x",)


def test_document_names() -> None:
    data = body(Verification(SUBJECT, (_check(),)))
    assert data["passed"] is True
    assert {"name", "object", "expected", "found", "passed", "evidence"} <= set(data["checks"][0])
    assert data["checks"][0]["object"] == {"kind": "Pod", "namespace": "rag", "name": "llm-0"}
