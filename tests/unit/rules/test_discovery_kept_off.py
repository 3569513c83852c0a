"""A taint that keeps node feature discovery off a node is named as the reason why the plugin's gate labels are missing."""

from __future__ import annotations

from ragstow.cli.diagnosis import make_context
from ragstow.cluster.read import read
from ragstow.rules.run import diagnose
from rules_support import FACTS
from support import DATA


def test_the_worker_and_its_taint_are_named() -> None:
    # The report is of a chart whose worker tolerates only nvidia.com/gpu=present, on a node tainted nvidia.com/gpu=true.
    report = diagnose(make_context(read(str(DATA / "cases" / "P04")), FACTS))
    first = report.findings[0]
    assert first.cause == "device-plugin-not-scheduled"
    assert any(ref.kind == "DaemonSet" and ref.name.endswith("node-feature-discovery-worker") for ref in first.objects)
    assert "kept off by a taint" in first.explanation
    assert "toleration" in first.fix.words


def test_no_word_of_it_where_discovery_is_not_installed() -> None:
    report = diagnose(make_context(read(str(DATA / "cases" / "P03")), FACTS))
    assert report.findings[0].cause == "device-plugin-not-scheduled"
    assert "taint" not in report.findings[0].explanation
