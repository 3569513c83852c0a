"""A verification as data for JSON: the names of the `Verification` document in a fixed order."""

from __future__ import annotations

from typing import Any

from ragstow.rules.document import reference
from ragstow.verification.model import Check, Memory, Unknown, Verification


def body(found: Verification) -> dict[str, Any]:
    """Everything of a `Verification` document but apiVersion, kind and source, which are the caller's."""
    subject = found.subject
    return {
        "passed": found.passed,
        "service": subject.service,
        "namespace": subject.namespace,
        "basis": subject.basis,
        "planDigest": subject.plan_digest,
        "cluster": subject.cluster,
        "kubernetes": subject.kubernetes,
        "startedAt": subject.started_at,
        "checks": [_check(item) for item in found.checks],
        "unknown": [_unknown(item) for item in found.unknown],
        "memory": [_memory(item) for item in found.memory],
        "remarks": list(found.remarks),
    }


def _check(item: Check) -> dict[str, Any]:
    return {
        "name": item.name,
        "object": reference(item.object),
        "component": item.component,
        "expected": item.expected,
        "found": item.found,
        "passed": item.passed,
        "evidence": [{"source": entry.source, "value": entry.value} for entry in item.evidence],
        "hint": item.hint,
    }


def _unknown(item: Unknown) -> dict[str, Any]:
    return {
        "check": item.check,
        "object": reference(item.object),
        "component": item.component,
        "missing": item.missing,
        "command": item.command,
        "needed": item.needed,
        "forbidden": item.forbidden,
    }


def _memory(item: Memory) -> dict[str, Any]:
    return {
        "component": item.component,
        "pod": reference(item.pod),
        "predictedBytes": item.predicted_bytes,
        "band": None if item.band is None else list(item.band),
        "measuredBytes": item.measured_bytes,
        "totalBytes": item.total_bytes,
        "others": item.others,
    }
