"""Findings as SARIF 2.1.0 (OASIS), for code scanning: each rule's page as its help, a finding's line where it is known.

Severity becomes level: critical and high error, medium warning, low and info note. Findings that an annotation suppresses are
results with a suppression and its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ragstow.rules.baseline import fingerprint
from ragstow.rules.markdown import markdown
from ragstow.rules.model import Finding, ObjectRef, Report, Severity
from ragstow.rules.registry import get, names, page

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")
_LEVELS: Mapping[Severity, str] = {"critical": "error", "high": "error", "medium": "warning", "low": "note", "info": "note"}


def sarif(report: Report, suppressed: Iterable[tuple[Finding, str]] = (), *, version: str) -> dict[str, Any]:
    """The log of one run.

    Args:
        report: the findings; those that follow from another are results of their own, after it.
        suppressed: findings that annotations suppress, each with the reason given.
        version: of ragstow.
    """
    rules = list(report.looked_at) or list(names())
    numbers = {name: index for index, name in enumerate(rules)}
    results = [_result(item, numbers) for finding in report.findings for item in (finding, *finding.follows)]
    for finding, reason in suppressed:
        results.append({**_result(finding, numbers), "suppressions": [{"kind": "inSource", "justification": reason}]})
    notes = [
        {"level": "note", "message": {"text": f"{item.missing}. To collect it: {item.command}"}} for item in report.unknown
    ]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "ragstow", "semanticVersion": version, "rules": [_rule(name) for name in rules]}},
                "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notes}],
                "columnKind": "unicodeCodePoints",
                "results": results,
            }
        ],
    }


def _rule(name: str) -> dict[str, Any]:
    found, rule = page(name), get(name)
    return {
        "id": name,
        "name": "".join(part.capitalize() for part in name.split("-")),
        "shortDescription": {"text": found.summary},
        "fullDescription": {"text": " ".join(found.what.split())},
        "help": {"text": f"{found.why}\n\n{found.fix}", "markdown": markdown(name)},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"cause": rule.cause, "severity": rule.severity, "since": rule.since, "tags": ["kubernetes", "gpu"]},
    }


def _result(finding: Finding, numbers: Mapping[str, int]) -> dict[str, Any]:
    text = f"{finding.headline}\n\n{finding.explanation}\n\nFix: {finding.fix.words}"
    made: dict[str, Any] = {
        "ruleId": finding.rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [_location(finding)],
        "partialFingerprints": {"ragstow/v1": fingerprint(finding)},
        "properties": {
            "cause": finding.cause,
            "severity": finding.severity,
            "confidence": finding.confidence,
            "held": list(finding.held),
        },
    }
    if finding.rule in numbers:
        made["ruleIndex"] = numbers[finding.rule]
    return made


def _location(finding: Finding) -> dict[str, Any]:
    made: dict[str, Any] = {"logicalLocations": [_logical(ref) for ref in finding.objects[:10]]}
    if finding.file is not None:
        physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(finding.file)}}
        if finding.line is not None:
            physical["region"] = {"startLine": finding.line}
        made["physicalLocation"] = physical
    return made


def _logical(ref: ObjectRef) -> dict[str, str]:
    return {"name": ref.name, "fullyQualifiedName": str(ref), "kind": "resource"}


def _uri(path: str) -> str:
    """A relative reference (RFC 3986): standard input has no path, so it goes by a name of its own."""
    if path == "-":
        return "stdin"
    text = path.replace("\\", "/").encode("utf-8", "replace")
    return "".join(chr(byte) if chr(byte) in _UNRESERVED else f"%{byte:02X}" for byte in text)
