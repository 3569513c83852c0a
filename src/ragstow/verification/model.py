"""What `verify` answers. Data only: names in JSON are the camelCase of these, made by `document`.

A check was made and has an outcome; what could not be seen is no check but an `Unknown`, and never counts as passed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ragstow.plan.model import Plan
from ragstow.rules.model import ObjectRef

__all__ = ["Asked", "Check", "Evidence", "Memory", "ObjectRef", "Outcome", "Subject", "Unknown", "Verification", "joined"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that was seen: `source` is the command that shows it again (or object and field), `value` what it showed."""

    source: str
    value: str


@dataclass(frozen=True, slots=True)
class Check:
    """One check that was made.

    `name` is a stable slug ("gpu-product"), `object` what was looked at, `expected` and `found` are short texts with units.
    `hint` says what to do where it failed, `component` names the component of the service that it is about.
    """

    name: str
    object: ObjectRef
    expected: str
    found: str
    passed: bool
    evidence: tuple[Evidence, ...] = ()
    hint: str = ""
    component: str | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """A check that could not be made: what is `missing` for it, and the `command` that shows it or gives the right to.

    `needed`: without it nobody can say that the service works, so that the whole does not pass. `forbidden`: an RBAC rule is
    what is missing.
    """

    check: str
    object: ObjectRef
    missing: str
    command: str
    needed: bool = False
    forbidden: bool = False
    component: str | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """GPU memory of one pod as sized and as measured, in bytes per card; `band` is [low, high] of the prediction.

    `measured` is what the whole card or slice shows as used; `others` counts the pods of the service that use it too, so that
    what they use is part of it.
    """

    component: str
    pod: ObjectRef
    predicted_bytes: int | None
    band: tuple[int, int] | None
    measured_bytes: int
    total_bytes: int | None
    others: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """The service to verify, its plan where one is known, and in a sentence what the expectations come from."""

    service: str
    namespace: str
    plan: Plan | None
    basis: str


@dataclass(frozen=True, slots=True)
class Subject:
    """What was verified.

    `basis` says in a sentence what the expectations come from (a plan file, the record of an apply, labels only); `cluster` is
    context or server, `kubernetes` its release, `started_at` RFC 3339.
    """

    service: str
    namespace: str
    basis: str
    plan_digest: str | None
    cluster: str
    kubernetes: str
    started_at: str


@dataclass(frozen=True)
class Verification:
    """The whole answer: checks in the order made, what could not be seen, predicted against measured memory, remarks."""

    subject: Subject
    checks: tuple[Check, ...]
    unknown: tuple[Unknown, ...] = ()
    memory: tuple[Memory, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that did not pass."""
        return tuple(check for check in self.checks if not check.passed)

    @property
    def missing(self) -> tuple[Unknown, ...]:
        """What could not be seen and is needed for a verdict."""
        return tuple(item for item in self.unknown if item.needed)

    @property
    def passed(self) -> bool:
        """Something was checked, all of it passed, and nothing that a verdict needs is missing."""
        return bool(self.checks) and not self.failed and not self.missing


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one part of a verification (pods, nodes, endpoints) found; `joined` puts the parts together."""

    checks: tuple[Check, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    memory: tuple[Memory, ...] = ()
    remarks: tuple[str, ...] = ()


def joined(subject: Subject, outcomes: Iterable[Outcome]) -> Verification:
    """The verification that these outcomes make, in the order given; equal remarks and unknowns are kept once."""
    found = Verification(subject, ())
    for outcome in outcomes:
        found = replace(
            found,
            checks=found.checks + outcome.checks,
            unknown=tuple(dict.fromkeys(found.unknown + outcome.unknown)),
            memory=found.memory + outcome.memory,
            remarks=tuple(dict.fromkeys(found.remarks + outcome.remarks)),
        )
    return found
