"""Recorded clusters with one defect each: its cause comes first, its object is named, the pods that it holds are listed, and
nothing else is found beside it."""

from __future__ import annotations

import pytest

import defects_nodes
import defects_placement
import defects_stack
from defects import DEFECTS
from ragstow.cli.diagnosis import make_context
from ragstow.rules.run import diagnose
from rules_support import FACTS

assert defects_nodes
assert defects_placement
assert defects_stack


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_defect(name: str) -> None:
    made = DEFECTS[name]()
    report = diagnose(make_context(made.variant.snapshot(), FACTS), strict=True)
    assert [finding.cause for finding in report.findings[:1]] == [made.cause], [
        (finding.cause, finding.headline) for finding in report.findings
    ]
    first = report.findings[0]
    assert made.objects[0] in [str(ref) for ref in first.objects]
    if made.held is not None:
        assert sorted(first.held) == sorted(made.held)
    assert {finding.cause for finding in report.findings} <= {made.cause, *made.also}
