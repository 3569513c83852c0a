"""Changes between two reports."""

from __future__ import annotations

from dataclasses import replace

from ragstow.rules.difference import differences, unexplained
from ragstow.rules.model import Finding, Fix, ObjectRef, Report, Unknown


def finding(cause: str, *pods: str) -> Finding:
    refs = tuple(ObjectRef("Pod", "rag", pod) for pod in pods)
    return Finding(cause, cause, "high", "certain", cause, "", Fix("mend it"), refs, held=tuple(f"rag/{pod}" for pod in pods))


def said(before: Report | None, after: Report) -> list[tuple[str, str]]:
    return [(change.change, change.finding.cause) for change in differences(before, after)]


def test_everything_is_new_at_first_and_nothing_when_nothing_changed() -> None:
    report = Report((finding("a", "x"), finding("b", "y")))
    assert said(None, report) == [("new", "a"), ("new", "b")]
    assert said(report, report) == []


def test_gone_new_and_changed() -> None:
    before = Report((finding("a", "x"), finding("b", "y"), finding("b", "z")))
    after = Report((finding("c", "x"), finding("b", "z", "w")))
    assert said(before, after) == [("gone", "a"), ("gone", "b"), ("new", "c"), ("changed", "b")]
    assert differences(before, after)[1].finding.objects[0].name == "y"


def test_a_consequence_that_outlives_its_cause_is_not_new() -> None:
    consequence = finding("late", "y")
    before = Report((replace(finding("root", "x"), follows=(consequence,)),))
    assert said(before, Report((consequence,))) == [("gone", "root")]


def test_what_no_rule_explains_comes_and_goes_with_its_objects_not_with_its_text() -> None:
    def waits(name: str, text: str) -> Unknown:
        return Unknown("pending", text, "kubectl describe", (ObjectRef("Pod", "rag", name),))

    before = Report(findings=(), unknown=(waits("a", "0/3 nodes"), waits("b", "0/3 nodes"), Unknown("log", "no logs", "logs")))
    after = Report(findings=(), unknown=(waits("b", "0/4 nodes"), waits("c", "0/4 nodes")))
    gone, new = unexplained(before, after)
    assert [item.objects[0].name for item in gone] == ["a"]
    assert [item.objects[0].name for item in new] == ["c"]
