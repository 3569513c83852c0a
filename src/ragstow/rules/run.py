"""Runs the rules over a context and puts the answers in order. Judges nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ragstow.rules.complete import complete
from ragstow.rules.context import Context
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import SEVERITIES, Finding, Report, Severity, Unknown
from ragstow.rules.rank import order
from ragstow.rules.registry import all_rules
from ragstow.rules.rule import Rule
from ragstow.rules.unexplained import unexplained


def diagnose(context: Context, rules: Iterable[Rule] | None = None) -> Report:
    """What is wrong in a cluster, root causes first; and, where all rules ran, what none of them explains."""
    report = _run(rules, lambda rule: rule.diagnose(context))
    findings = tuple(complete(context, finding) for finding in report.findings)
    left = tuple(unexplained(context, findings)) if rules is None else ()
    return replace(report, findings=findings, unknown=(*report.unknown, *left))


def lint(context: LintContext, rules: Iterable[Rule] | None = None) -> Report:
    """What is wrong in manifests."""
    return _run(rules, lambda rule: rule.lint(context))


def worst(findings: Iterable[Finding], level: Severity) -> bool:
    """Whether any finding is of this severity or above."""
    return any(SEVERITIES.index(finding.severity) <= SEVERITIES.index(level) for finding in findings)


def _run(rules: Iterable[Rule] | None, ask: Callable[[Rule], Iterable[Finding | Unknown]]) -> Report:
    findings: list[Finding] = []
    unknown: list[Unknown] = []
    looked: list[str] = []
    for rule in all_rules() if rules is None else rules:
        looked.append(rule.id)
        for answer in ask(rule):
            if isinstance(answer, Finding):
                findings.append(answer)
            else:
                unknown.append(answer)
    return Report(order(findings), tuple(dict.fromkeys(unknown)), tuple(looked))
