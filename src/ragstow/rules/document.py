"""Findings as data for JSON: the names of the `Findings` document in a fixed order. Formats and printing are the caller's."""

from __future__ import annotations

from typing import Any

from ragstow.rules.fixes import paste
from ragstow.rules.model import Evidence, Finding, ObjectRef, Patch, Report, Unknown


def body(report: Report) -> dict[str, Any]:
    """findings, unknown and lookedAt of a `Findings` document; apiVersion, kind and source are the caller's."""
    return {
        "findings": [finding(item) for item in report.findings],
        "unknown": [_unknown(item) for item in report.unknown],
        "lookedAt": list(report.looked_at),
    }


def finding(item: Finding) -> dict[str, Any]:
    """One entry of findings[]; `patch` is that of the fix."""
    fix, patch = item.fix, None if item.fix.patch is None else _patch(item.fix.patch)
    return {
        "cause": item.cause,
        "rule": item.rule,
        "severity": item.severity,
        "confidence": item.confidence,
        "headline": item.headline,
        "since": item.since,
        "objects": [reference(ref) for ref in item.objects],
        "held": list(item.held),
        "changed": list(item.changed),
        "explanation": item.explanation,
        "evidence": [_evidence(entry) for entry in item.evidence],
        "fix": {
            "words": fix.words,
            "command": paste(fix),
            "patch": patch,
            "disruption": fix.disruption,
            "check": fix.check,
        },
        "patch": patch,
        "file": item.file,
        "line": item.line,
        "follows": [finding(other) for other in item.follows],
    }


def reference(ref: ObjectRef) -> dict[str, str]:
    """An object as {kind, namespace, name}; namespace is "" for objects of the whole cluster."""
    return {"kind": ref.kind, "namespace": ref.namespace, "name": ref.name}


def _evidence(entry: Evidence) -> dict[str, Any]:
    return {
        "object": None if entry.object is None else reference(entry.object),
        "field": entry.field,
        "value": entry.value,
        "file": entry.file,
        "line": entry.line,
    }


def _patch(patch: Patch) -> dict[str, Any]:
    content: Any = patch.content
    return {
        "type": patch.type,
        "target": reference(patch.target),
        "content": [dict(step) for step in content] if isinstance(content, tuple) else dict(content),
    }


def _unknown(item: Unknown) -> dict[str, Any]:
    return {
        "rule": item.rule,
        "missing": item.missing,
        "command": item.command,
        "objects": [reference(ref) for ref in item.objects],
        "detail": list(item.detail),
    }
