"""Old findings, so that a pipeline fails only on new ones.

A finding is known again by its rule, its first object and the fields of its evidence: lines, numbers and words may change.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ragstow.errors import InputError, Place
from ragstow.rules.model import Finding, Report

KIND = "LintBaseline"
_POD_HASH = re.compile(r"-[a-z0-9]{6,10}-[a-z0-9]{5}$")


def fingerprint(finding: Finding) -> str:
    """What stays the same of a finding while its file is edited elsewhere."""
    first = finding.objects[0] if finding.objects else None
    named = [first.kind, first.namespace, _POD_HASH.sub("", first.name)] if first is not None else [finding.file or ""]
    fields = [entry.field for entry in finding.evidence if entry.field]
    text = json.dumps([finding.rule, named, fields[:1]], ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def body(findings: Iterable[Finding]) -> dict[str, Any]:
    """The entries of a baseline; apiVersion and kind are the caller's."""
    return {
        "findings": [
            {"fingerprint": fingerprint(finding), "rule": finding.rule, "headline": finding.headline} for finding in findings
        ]
    }


def read(value: object, file: str) -> Counter[str]:
    """The fingerprints of a baseline and how often each occurs.

    Raises:
        InputError: it is no baseline.
    """
    listed = value.get("findings") if isinstance(value, Mapping) and value.get("kind") == KIND else None
    if not isinstance(listed, list):
        hint = "ragstow lint ... --write-baseline FILE makes one"
        raise InputError("baseline-invalid", f"is no {KIND}", place=Place(file), hint=hint)
    return Counter(str(item.get("fingerprint")) for item in listed if isinstance(item, Mapping))


def only_new(report: Report, known: Counter[str]) -> tuple[Report, int]:
    """The report without the findings that a baseline knows, and how many those are."""
    left = known.copy()
    kept = []
    for finding in report.findings:
        mark = fingerprint(finding)
        if left[mark] > 0:
            left[mark] -= 1
        else:
            kept.append(finding)
    return replace(report, findings=tuple(kept)), len(report.findings) - len(kept)
