"""Reported cases and broken clusters: the right cause comes first; healthy clusters: nothing is found."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragstow.cli.diagnosis import make_context
from ragstow.cluster.read import read
from ragstow.rules.model import Report
from ragstow.rules.registry import all_rules
from ragstow.rules.run import diagnose
from rules_support import FACTS
from support import DATA, ROOT

CASES = sorted(path.parent for path in (DATA / "cases").glob("*/expect.yaml"))
BROKEN = sorted((DATA / "clusters-broken").glob("*.tar.gz"))
HEALTHY = sorted((DATA / "clusters").glob("*.tar.gz"))
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*/cluster") if path.is_dir())
WRITTEN = frozenset(rule.cause for rule in all_rules())


@cache
def report(path: Path) -> Report:
    return diagnose(make_context(read(str(path)), FACTS))


def expected(path: Path) -> dict[str, Any]:
    where = path / "expect.yaml" if path.is_dir() else path.with_name(path.name.removesuffix(".tar.gz") + ".expect.yaml")
    loaded: dict[str, Any] = yaml.safe_load(where.read_text(encoding="utf-8"))
    return loaded


def marked(path: Path) -> Any:
    cause = expected(path)["cause"]
    marks = [pytest.mark.xfail(strict=True, reason=f"no rule for {cause} yet")] if cause not in WRITTEN else []
    return pytest.param(path, id=path.name, marks=marks)


def test_there_are_cases() -> None:
    assert len(CASES) >= 36
    assert len(BROKEN) >= 4
    assert len(HEALTHY) >= 7


@pytest.mark.parametrize("path", [marked(path) for path in CASES])
def test_reported_case(path: Path) -> None:
    assert [finding.cause for finding in report(path).findings[:1]] == [expected(path)["cause"]]


@pytest.mark.parametrize("path", [marked(path) for path in BROKEN])
def test_broken_cluster(path: Path) -> None:
    wanted, found = expected(path), report(path).findings
    assert [finding.cause for finding in found[:1]] == [wanted["cause"]]
    assert {finding.cause for finding in found} <= {wanted["cause"], *wanted.get("also", ())}
    objects = [str(ref) for ref in found[0].objects]
    assert wanted["objects"][0] in objects
    assert sorted(found[0].held) == sorted(wanted["pods_held"])


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.name)
def test_healthy_cluster(path: Path) -> None:
    quiet(path)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_bundled_example(path: Path) -> None:
    quiet(path)


def quiet(path: Path) -> None:
    found = report(path)
    assert [finding.headline for finding in found.findings] == []
    assert [item.missing for item in found.unknown] == []
