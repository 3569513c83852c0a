"""Whatever objects look like: never an exception, and every answer can be printed in every format."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broken.everything import DEFECTS
from mutations import mutated
from ragstow.cli.diagnosis import make_context
from ragstow.cli.findings_text import compact_lines, lines
from ragstow.cluster.build import RawObject, build
from ragstow.cluster.read import read
from ragstow.rules.document import body
from ragstow.rules.junit import junit
from ragstow.rules.manifests import LintContext, Manifest
from ragstow.rules.registry import names, page
from ragstow.rules.run import diagnose, lint
from ragstow.rules.sarif import sarif
from rules_support import FACTS, documents
from support import DATA

Objects = list[dict[str, Any]]
_OFTEN = settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
_SEEDS = st.integers(min_value=0, max_value=2**31)


@cache
def inputs() -> tuple[tuple[Objects, dict[str, str]], ...]:
    """Reported cases, and the examples of all pages."""
    found: list[tuple[Objects, dict[str, str]]] = []
    for path in sorted(item.parent for item in (DATA / "cases").glob("*/expect.yaml")):
        snapshot = read(str(path))
        raw = [json.loads(json.dumps(item.raw)) for item in (*snapshot.everything, *snapshot.applied)]
        found.append((raw, dict(snapshot.attachments)))
    found.extend(documents(example.yaml) for name in names() for example in page(name).examples)
    return tuple(found)


def survives(objects: Objects, attachments: dict[str, str]) -> None:
    context = make_context(build(objects, attachments=attachments), FACTS)
    report = diagnose(context, strict=True)
    json.dumps(body(report))
    json.dumps(sarif(report, version="0"))
    junit(report, "low")
    lines(report, now=context.now, room=80, wide=True)
    made = [Manifest(item, "x.yaml") for raw in objects for item in build([RawObject(raw, "x.yaml")]).everything]
    for cluster in (None, context):
        answer = lint(LintContext(tuple(made), FACTS, cluster), strict=True)
        compact_lines(answer.report, 80)
        json.dumps(body(answer.report))


@_OFTEN
@given(which=_SEEDS, seed=_SEEDS)
def test_cases_and_examples_with_broken_fields(which: int, seed: int) -> None:
    objects, attachments = inputs()[which % len(inputs())]
    survives(mutated(objects, seed), attachments)


@settings(_OFTEN, max_examples=15)
@given(name=st.sampled_from(sorted(DEFECTS)), seed=_SEEDS)
def test_clusters_with_broken_fields(name: str, seed: int) -> None:
    variant = DEFECTS[name]()[0]
    survives(mutated(variant.objects, seed, most=30), variant.attachments)


@_OFTEN
@given(texts=st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=200), max_size=4))
def test_any_log(texts: dict[str, str]) -> None:
    objects, _ = inputs()[0]
    survives(objects, {f"{folder}/{name}": text for folder in ("logs", "files") for name, text in texts.items()})
