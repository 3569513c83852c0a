"""Findings as JUnit XML, for pipelines: a suite for each file (or for the cluster), a failing case for each finding.

Findings below the failing level are cases that pass and say what was found in `system-out`.
"""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

from ragstow.rules.model import Finding, Report, Severity
from ragstow.rules.run import worst

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report, level: Severity, files: tuple[str, ...] = ()) -> str:
    """The XML text.

    Args:
        report: the findings; those that follow are named in the text of their cause.
        level: from this severity up a finding is a failure.
        files: the files that were read, so that clean ones are shown as well.
    """
    suites: dict[str, list[Finding]] = {name: [] for name in files}
    for finding in report.findings:
        suites.setdefault(finding.file or "cluster", []).append(finding)
    suites = suites or {"cluster": []}
    failures = sum(1 for found in suites.values() for finding in found if worst([finding], level))
    tests = sum(max(1, len(found)) for found in suites.values())
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuites name="ragstow" tests="{tests}" failures="{failures}">']
    for name, found in suites.items():
        failed = sum(1 for finding in found if worst([finding], level))
        lines.append(f'  <testsuite name={_attribute(name)} tests="{max(1, len(found))}" failures="{failed}" errors="0">')
        lines += [line for finding in found for line in _case(finding, name, level)]
        if not found:
            lines.append(f'    <testcase classname={_attribute(name)} name="no finding"/>')
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])


def _case(finding: Finding, suite: str, level: Severity) -> list[str]:
    place = f' file={_attribute(finding.file)} line="{finding.line or 1}"' if finding.file else ""
    name = f"{finding.rule}: {finding.headline}"
    lines = [f"    <testcase classname={_attribute(suite)} name={_attribute(name)}{place}>"]
    follows = "".join(f"\nFollows: {other.headline}" for other in finding.follows)
    text = f"{finding.explanation}\nFix: {finding.fix.words}{follows}"
    if worst([finding], level):
        kind = f"{finding.severity}: {finding.headline}"
        lines.append(f"      <failure type={_attribute(finding.rule)} message={_attribute(kind)}>{_text(text)}</failure>")
    else:
        lines.append(f"      <system-out>{_text(f'{finding.severity}: {finding.headline}')}\n{_text(text)}</system-out>")
    return [*lines, "    </testcase>"]


def _text(value: str) -> str:
    return escape(_NOT_XML.sub("?", value))


def _attribute(value: str) -> str:
    return quoteattr(_NOT_XML.sub("?", value), {"\n": " "})
