"""Broken clusters in every disguise: the cause comes first, its object is named, the pods that it holds are listed, and nothing
else is found beside it. With data missing the cause may stay unknown, but no other one is named."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from broken import Wanted
from broken.cluster import Cluster
from broken.disguises import DISGUISES, PARTIAL, Disguise, all_at_once
from broken.everything import DEFECTS
from broken.reports_field import strangers
from ragstow.cli.diagnosis import make_context
from ragstow.cluster.build import build
from ragstow.cluster.read import read
from ragstow.rules.run import diagnose
from rules_support import FACTS
from support import DATA

CASES = sorted(path.parent for path in (DATA / "cases").glob("*/expect.yaml"))


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


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_reported_case_in_disguise(path: Path) -> None:
    cause = yaml.safe_load((path / "expect.yaml").read_text(encoding="utf-8"))["cause"]
    cluster = Cluster.of(read(str(path)))
    all_at_once(cluster, Wanted(cause, "Node -"))
    report = diagnose(make_context(build(cluster.objects, version=cluster.version, attachments=cluster.attachments), FACTS))
    assert [finding.cause for finding in report.findings[:1]] == [cause]


@pytest.mark.parametrize("name", sorted(strangers()))
def test_what_is_no_matter_of_gpus_gets_no_cause(name: str) -> None:
    report = strangers()[name].report()
    assert [(finding.cause, finding.headline) for finding in report.findings] == []
