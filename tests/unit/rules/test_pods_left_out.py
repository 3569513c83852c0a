"""A saved cluster without pods is no healthy cluster: it is said that they were not seen."""

from __future__ import annotations

from ragstow.cli.diagnosis import make_context
from ragstow.rules.run import diagnose
from rules_support import FACTS
from variants import Variant


def _told(variant: Variant) -> list[str]:
    report = diagnose(make_context(variant.snapshot(), FACTS), strict=True)
    return [item.command for item in report.unknown if item.missing.startswith("no pod is in the data")]


def test_no_pods() -> None:
    made = Variant("01")
    made.drop("Pod")
    assert _told(made) == ["kubectl get pods -A -o json"]


def test_quiet_with_pods() -> None:
    assert _told(Variant("01")) == []
