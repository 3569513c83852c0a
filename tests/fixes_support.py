"""What the tests of fixes share: every finding of cases, broken clusters and examples, and the object its patch is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from broken.everything import DEFECTS
from ragstow.cli.diagnosis import make_context
from ragstow.cluster.read import read
from ragstow.rules.model import Finding
from ragstow.rules.registry import names, page
from ragstow.rules.run import diagnose
from rules_support import FACTS, context_of
from support import DATA

GROUPS = {"Deployment": "apps", "StatefulSet": "apps", "DaemonSet": "apps", "ClusterPolicy": "nvidia.com"}


def every(findings: tuple[Finding, ...]) -> Iterator[Finding]:
    for finding in findings:
        yield finding
        yield from every(finding.follows)


@cache
def answers() -> tuple[tuple[str, Finding, Mapping[str, Any] | None], ...]:
    """(where from, finding, the object that its patch is for)."""
    contexts = {
        path.parent.name: make_context(read(str(path.parent)), FACTS) for path in (DATA / "cases").glob("*/expect.yaml")
    }
    contexts |= {name: make_context(DEFECTS[name]()[0].snapshot(), FACTS) for name in DEFECTS}
    contexts |= {
        f"{name}: {example.title}": context_of(example.yaml)
        for name in names()
        for example in page(name).examples
        if example.fires and example.command == "diagnose"
    }
    found = []
    for where, context in sorted(contexts.items()):
        for finding in every(diagnose(context, strict=True).findings):
            patch, target = finding.fix.patch, None
            if patch is not None:
                ref = patch.target
                item = context.snapshot.get(ref.kind, ref.name, ref.namespace, GROUPS.get(ref.kind, ""))
                target = item.raw if item is not None else None
            found.append((where, finding, target))
    return tuple(found)
