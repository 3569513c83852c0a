"""Every rule has a page, fires on its bad examples and on nothing else there, and is quiet on its good ones."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import jsonschema
import pytest

from ragstow.rules.junit import junit
from ragstow.rules.model import SEVERITIES, Finding
from ragstow.rules.page import Example
from ragstow.rules.registry import get, names, page
from ragstow.rules.run import lint
from ragstow.rules.sarif import sarif
from rules_support import context_of, lint_context_of
from support import DATA

SARIF = json.loads((DATA / "schemas" / "sarif-2.1.0-subset.schema.json").read_text(encoding="utf-8"))
CASES = [pytest.param(name, example, id=f"{name}: {example.title}") for name in names() for example in page(name).examples]


@pytest.mark.parametrize("name", names())
def test_rule_is_complete(name: str) -> None:
    rule = get(name)
    assert rule.id == name
    assert rule.severity in SEVERITIES
    assert rule.needs
    assert page(name).references


@pytest.mark.parametrize(("name", "example"), CASES)
def test_example(name: str, example: Example) -> None:
    rule = get(name)
    answers = (
        rule.diagnose(context_of(example.yaml)) if example.command == "diagnose" else rule.lint(lint_context_of(example.yaml))
    )
    found = [answer for answer in answers if isinstance(answer, Finding)]
    assert bool(found) is example.fires, [finding.headline for finding in found]
    for finding in found:
        assert finding.rule == name
        assert finding.cause == rule.cause
        assert finding.headline
        assert finding.fix.words
        assert finding.objects or finding.evidence


@pytest.mark.parametrize(("name", "example"), [case for case in CASES if case.values[1].command == "lint"])  # type: ignore[union-attr]
def test_lint_as_sarif_and_junit(name: str, example: Example) -> None:
    report = lint(lint_context_of(example.yaml), [get(name)])
    jsonschema.validate(json.loads(json.dumps(sarif(report.report, report.suppressed, version="1.0"))), SARIF)
    assert ElementTree.fromstring(junit(report.report, "low")).tag == "testsuites"
