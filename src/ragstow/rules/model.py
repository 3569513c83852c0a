"""Findings and what they are made of. Data only: no rule, no order, no printing (INTERFACE 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ragstow.cluster.objects import KubeObject

Severity = Literal["critical", "high", "medium", "low", "info"]
Confidence = Literal["certain", "likely", "possible"]

SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low", "info")
CONFIDENCES: tuple[Confidence, ...] = ("certain", "likely", "possible")


@dataclass(frozen=True, slots=True, order=True)
class ObjectRef:
    """An object by kind, namespace ("" where there is none) and name."""

    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, item: KubeObject) -> ObjectRef:
        """The reference to this object."""
        return cls(item.kind, item.namespace, item.name)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact: a field of an object and its value, or a line of a log or host file.

    Objects name no file, so that a live cluster and a saved one give the same evidence; `file` and `line` are for logs,
    host files and manifests.
    """

    value: str
    object: ObjectRef | None = None
    field: str = ""
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Patch:
    """A change that applies as it is: `content` for `target`, of patch type strategic, merge or json."""

    type: Literal["strategic", "merge", "json"]
    target: ObjectRef
    content: Mapping[str, Any] | tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Fix:
    """What to do: words always, a command to paste, a patch where one exists, whom it disturbs, how to see that it worked."""

    words: str
    command: str = ""
    patch: Patch | None = None
    disruption: str = "none"
    check: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    `objects` are the objects to look at, the defect's own first; `held` the pods ("namespace/name") that it keeps from running;
    `since` the earliest sign of it; `changed` what changed just before, one sentence each; `follows` findings that are mere
    consequences. `file` and `line` are where the defect is written, for manifests.
    """

    rule: str
    cause: str
    severity: Severity
    confidence: Confidence
    headline: str
    explanation: str
    fix: Fix
    objects: tuple[ObjectRef, ...]
    evidence: tuple[Evidence, ...] = ()
    held: tuple[str, ...] = ()
    since: str | None = None
    changed: tuple[str, ...] = ()
    follows: tuple[Finding, ...] = ()
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """What could not be judged: which data are missing (or what no rule explains) and the exact command that collects them.

    `objects` are those it is about, `detail` further lines: the scheduler's answer, node by node, grouped.
    """

    rule: str
    missing: str
    command: str
    objects: tuple[ObjectRef, ...] = ()
    detail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The whole answer: findings in order, what could not be seen, and what was looked at."""

    findings: tuple[Finding, ...]
    unknown: tuple[Unknown, ...] = ()
    looked_at: tuple[str, ...] = ()
