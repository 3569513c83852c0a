"""What changed from one report to the next: findings that are new, gone, or about other objects than before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ragstow.rules.model import Finding, ObjectRef, Report, Unknown


@dataclass(frozen=True, slots=True)
class Change:
    """One finding that came, went, or concerns other objects or pods than before (`finding` is then the present one)."""

    change: Literal["new", "gone", "changed"]
    finding: Finding


def differences(before: Report | None, after: Report) -> tuple[Change, ...]:
    """The changes in the order of the reports: first what is gone, then what is new or changed.

    A finding is the same when its cause is, and one of its objects: a cause that takes hold of more pods has changed.

    Args:
        before: the report before; None at the beginning, when everything is new.
        after: the present one.
    """
    old = list(_all(before)) if before is not None else []
    made: list[Change] = []
    for finding in _all(after):
        match = next((item for item in old if _same(item, finding)), None)
        if match is None:
            made.append(Change("new", finding))
            continue
        old.remove(match)
        if _about(match) != _about(finding):
            made.append(Change("changed", finding))
    return (*(Change("gone", item) for item in old), *made)


def unexplained(before: Report, after: Report) -> tuple[tuple[Unknown, ...], tuple[Unknown, ...]]:
    """What could not be judged about objects and was (or they are gone), and what cannot be judged since, in report order.

    Another text about the same objects is no change: the scheduler's answer has another count of nodes every time.
    """
    old, new = ({(item.rule, item.objects): item for item in report.unknown if item.objects} for report in (before, after))
    return (
        tuple(item for key, item in old.items() if key not in new),
        tuple(item for key, item in new.items() if key not in old),
    )


def _all(report: Report) -> Iterator[Finding]:
    """Findings and what follows from them: a consequence that is left when its cause is gone is no new finding."""
    for finding in report.findings:
        yield finding
        yield from finding.follows


def _same(one: Finding, other: Finding) -> bool:
    if (one.rule, one.cause) != (other.rule, other.cause):
        return False
    return not one.objects or not other.objects or bool(set(one.objects) & set(other.objects))


def _about(finding: Finding) -> tuple[tuple[ObjectRef, ...], tuple[str, ...], str]:
    return finding.objects, finding.held, finding.severity
