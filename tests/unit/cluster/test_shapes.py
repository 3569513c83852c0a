"""Shapes of kinds: real objects have them; what does not is named with its field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragstow.cluster.build import build
from ragstow.cluster.read import read
from ragstow.cluster.shapecheck import misfit
from ragstow.cluster.shapes import SHAPES
from support import DATA

RECORDED = sorted([*(DATA / "clusters").glob("*.tar.gz"), *(DATA / "clusters-broken").glob("*.tar.gz")])


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_real_objects_have_their_shapes(path: Path) -> None:
    snapshot = read(str(path))
    known = [item for item in snapshot.everything if (item.group, item.kind) in SHAPES]
    assert len(known) > 50
    assert [misfit(item.group, item.kind, item.raw) for item in known if misfit(item.group, item.kind, item.raw)] == []


@pytest.mark.parametrize(
    ("group", "kind", "value", "field", "words"),
    [
        ("", "Pod", {"spec": {"tolerations": 7}}, "spec.tolerations", "is a number, not a list"),
        ("", "Pod", {"status": {"conditions": [None]}}, "status.conditions[0]", "is nothing, not a mapping"),
        (
            "",
            "Pod",
            {"status": {"containerStatuses": [{"restartCount": "2"}]}},
            "status.containerStatuses[0].restartCount",
            "a text",
        ),
        ("apps", "Deployment", {"spec": {"template": []}}, "spec.template", "is a list, not a mapping"),
        (
            "",
            "PersistentVolumeClaim",
            {"spec": {"resources": {"requests": {"storage": "1X"}}}},
            "spec.resources",
            "not a Kubernetes quantity",
        ),
        ("resource.k8s.io", "ResourceSlice", {"spec": {"devices": {}}}, "spec.devices", "is a mapping, not a list"),
        ("nvidia.com", "ClusterPolicy", {"spec": {"mig": "single"}}, "spec.mig", "is a text, not a mapping"),
    ],
)
def test_what_is_wrong_is_named(group: str, kind: str, value: dict[str, Any], field: str, words: str) -> None:
    found = misfit(group, kind, value)
    assert found is not None
    assert found[0].startswith(field)
    assert words in found[1]


def test_null_is_absent_and_unknown_fields_and_kinds_pass() -> None:
    assert misfit("", "Pod", {"spec": {"tolerations": None, "future": 7}, "status": None}) is None
    assert misfit("example.org", "Thing", {"spec": 7}) is None


def test_the_rest_goes_on() -> None:
    good = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "y"}}
    snapshot = build([good, {**good, "metadata": {"name": "b"}, "data": ["x"]}])
    assert [item.name for item in snapshot.of("ConfigMap")] == ["a"]
    (problem,) = snapshot.problems
    assert problem.code == "object-broken"
    assert problem.place.field == "data"
