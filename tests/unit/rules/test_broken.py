"""Broken clusters in every disguise: the cause comes first, its object is named, the pods that it holds are listed, and nothing
else is found beside it. With data missing the cause may stay unknown, but no other one is named."""

from __future__ import annotations

import pytest

from broken.disguises import DISGUISES, PARTIAL, Disguise
from broken.everything import DEFECTS
from broken.reports_field import strangers


@pytest.mark.parametrize("disguise", DISGUISES, ids=lambda function: function.__name__.replace("_", " "))
@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_defect(name: str, disguise: Disguise) -> None:
    cluster, wanted = DEFECTS[name]()
    cluster.finish()
    wanted = disguise(cluster, wanted)
    report = cluster.report()
    found = [(f.cause, [str(ref) for ref in f.objects[:3]], f.held, f.headline) for f in report.findings]
    assert found, report.unknown
    first = report.findings[0]
    assert first.cause == wanted.cause, found
    assert {finding.cause for finding in report.findings} <= {wanted.cause, *wanted.also}, found
    assert wanted.object in [str(ref) for ref in first.objects], found
    if wanted.held is not None:
        assert sorted(first.held) == sorted(wanted.held), found
    said = " ".join([first.headline, first.explanation, *(entry.value for entry in first.evidence)])
    for text in wanted.mentions:
        assert text in said
    assert [item.missing for item in report.unknown if item.rule != "unexplained"] == []


@pytest.mark.parametrize("disguise", PARTIAL, ids=lambda function: function.__name__.replace("_", " "))
@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_missing_data(name: str, disguise: Disguise) -> None:
    cluster, wanted = DEFECTS[name]()
    cluster.finish()
    disguise(cluster, wanted)
    found = [(f.cause, [str(ref) for ref in f.objects[:3]], f.held, f.headline) for f in cluster.report().findings]
    assert not found or found[0][0] in (wanted.cause, *wanted.also), found


@pytest.mark.parametrize("name", sorted(strangers()))
def test_what_is_no_matter_of_gpus_gets_no_cause(name: str) -> None:
    report = strangers()[name].report()
    assert [(finding.cause, finding.headline) for finding in report.findings] == []
