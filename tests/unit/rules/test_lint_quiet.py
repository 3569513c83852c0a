"""What runs well is linted without a finding that fails a pipeline: the workloads of the healthy recordings, against their own
cluster and alone, and the folders that ragstow renders itself."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from ragstow.cli.diagnosis import make_context
from ragstow.cluster.build import RawObject, build
from ragstow.cluster.objects import KubeObject
from ragstow.cluster.read import read, read_manifests
from ragstow.rules.context import Context
from ragstow.rules.manifests import LintContext, Manifest
from ragstow.rules.run import lint, worst
from rules_support import FACTS
from support import DATA

HEALTHY = sorted((DATA / "clusters").glob("*.tar.gz"))
RENDERED = sorted(path for path in (DATA / "render").iterdir() if path.is_dir())
KINDS = ("Deployment", "StatefulSet", "ConfigMap", "ResourceClaimTemplate", "ClusterPolicy", "PersistentVolumeClaim")


@cache
def cluster(path: Path) -> Context:
    return make_context(read(str(path)), FACTS)


def written(context: Context) -> tuple[Manifest, ...]:
    """The objects that a person wrote, as he wrote them: without uid and status."""
    made: list[KubeObject] = []
    for item in context.snapshot.everything:
        if item.kind in KINDS:
            raw = {key: value for key, value in item.raw.items() if key != "status"}
            raw["metadata"] = {key: value for key, value in item.raw["metadata"].items() if key != "uid"}
            made.extend(build([RawObject(raw, "all.yaml")]).everything)
    return tuple(Manifest(item, "all.yaml") for item in made)


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.name)
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "against itself"])
def test_healthy_recording(path: Path, alone: bool) -> None:
    context = cluster(path)
    report = lint(LintContext(written(context), FACTS, None if alone else context), strict=True).report
    assert [(finding.rule, finding.headline) for finding in report.findings if worst([finding], "medium")] == []


@pytest.mark.parametrize("path", RENDERED, ids=lambda path: path.name)
def test_rendered_folder(path: Path) -> None:
    objects, _ = read_manifests(str(path))
    manifests = tuple(Manifest(item, "all.yaml") for item in objects)
    report = lint(LintContext(manifests, FACTS), strict=True).report
    assert [(finding.rule, finding.headline) for finding in report.findings if worst([finding], "low")] == []
