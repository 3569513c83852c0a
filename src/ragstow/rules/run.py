"""Runs the rules over a context and puts the answers in order. Judges nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ragstow.rules.complete import complete
from ragstow.rules.context import Context
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import SEVERITIES, Finding, ObjectRef, Report, Severity, Unknown
from ragstow.rules.rank import order
from ragstow.rules.registry import all_rules
from ragstow.rules.rule import Rule
from ragstow.rules.suppression import split
from ragstow.rules.unexplained import unexplained


@dataclass(frozen=True, slots=True)
class LintReport:
    """The answer of lint: the report, and the findings that annotations suppress with their reasons."""

    report: Report
    suppressed: tuple[tuple[Finding, str], ...] = ()


def diagnose(context: Context, rules: Iterable[Rule] | None = None, *, strict: bool = False) -> Report:
    """What is wrong in a cluster, root causes first; and, where all rules ran, what none of them explains.

    Args:
        context: the cluster.
        rules: those to ask (default: all).
        strict: let a rule's own failure through; otherwise it is said in `unknown` and the other rules' answers stand.
    """
    able = [rule for rule in (all_rules() if rules is None else rules) if type(rule).diagnose is not Rule.diagnose]
    answers = _ask(able, lambda rule: rule.diagnose(context), strict)
    findings = tuple(complete(context, finding) for finding in order(answers.findings))
    left = tuple(unexplained(context, findings)) if rules is None else ()
    return Report(findings, (*answers.unknown, *left), answers.looked_at)


def lint(context: LintContext, rules: Iterable[Rule] | None = None, *, strict: bool = False) -> LintReport:
    """What is wrong in manifests; each finding with the file and line it is written in. Arguments as of `diagnose`."""
    able = [rule for rule in (all_rules() if rules is None else rules) if type(rule).lint is not Rule.lint]
    answers = _ask(able, lambda rule: rule.lint(context), strict)
    # A Service that stands in two files of a folder makes one mistake, not two.
    found = {(item.rule, item.headline, item.file, item.line): item for item in (_placed(context, f) for f in answers.findings)}
    remain, hidden = split(context, found.values())
    return LintReport(replace(answers, findings=order(remain)), hidden)


def worst(findings: Iterable[Finding], level: Severity) -> bool:
    """Whether any finding is of this severity or above."""
    return any(SEVERITIES.index(finding.severity) <= SEVERITIES.index(level) for finding in findings)


def _placed(context: LintContext, finding: Finding) -> Finding:
    """The finding with a file and line: where the rule says none, those of the first manifest that it names."""
    follows = tuple(_placed(context, other) for other in finding.follows)
    if finding.file is not None:
        return replace(finding, line=finding.line or 1, follows=follows)
    for ref in finding.objects:
        for manifest in context.manifests:
            if ObjectRef.of(manifest.object) == ref:
                return replace(finding, file=manifest.file, line=manifest.first_line, follows=follows)
    return replace(finding, follows=follows)


def _ask(rules: Iterable[Rule], ask: Callable[[Rule], Iterable[Finding | Unknown]], strict: bool) -> Report:
    """Every rule's answers, as they come."""
    findings: list[Finding] = []
    unknown: list[Unknown] = []
    looked: list[str] = []
    for rule in rules:
        looked.append(rule.id)
        try:
            for answer in ask(rule):
                if isinstance(answer, Finding):
                    findings.append(answer)
                else:
                    unknown.append(answer)
        except Exception as error:
            if strict:
                raise
            # One rule that fails on odd data must not take away what the others found.
            text = f"this rule failed on the data, which is a bug of ragstow: {type(error).__name__}: {error}"
            unknown.append(Unknown(rule.id, text, ""))
    return Report(tuple(findings), tuple(dict.fromkeys(unknown)), tuple(looked))
