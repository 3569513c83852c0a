"""A service on whole cards and one on slices, each applied to its simulated cluster, for the tests of `ragstow verify`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ragstow import facts as known
from ragstow.cli.main import run
from ragstow.live import apply
from ragstow.plan.load import load_plan
from ragstow.render.procedure import procedure
from ragstow.spec import normalise
from rig.cluster import Rig, gpu_cluster
from support import ROOT

SCHEMA = json.loads((ROOT / "src/ragstow/schemas/verification.schema.json").read_text())


@dataclass
class Applied:
    """A simulated cluster with an applied service, its plan file and the plan as a document."""

    rig: Rig
    file: Path
    plan: dict[str, Any]
    capture: pytest.CaptureFixture[str] | None = None

    def verify(
        self, *words: str, target: str | None = None, user: str = "verifier", endpoints: bool = False
    ) -> tuple[int, dict[str, Any], str]:
        """Exit code, the document, and what was said on stderr."""
        assert self.capture is not None
        self.capture.readouterr()
        subject = [str(self.file)] if target is None else [target] if target else []
        asked = [] if endpoints else ["--no-endpoints"]
        code = run(["verify", *subject, "-o", "json", *asked, *self.rig.arguments(user), *words])
        told = self.capture.readouterr()
        found: dict[str, Any] = json.loads(told.out) if told.out.startswith("{") else {}
        if found:
            jsonschema.validate(found, SCHEMA)
        return code, found, told.err

    def failed(self, *words: str) -> dict[str, list[str]]:
        """Check -> names of the objects for which it failed."""
        code, found, _ = self.verify(*words)
        table: dict[str, list[str]] = {}
        for check in found["checks"]:
            if not check["passed"]:
                table.setdefault(check["name"], []).append(check["object"]["name"])
        assert code == (1 if table else 0)
        return {name: sorted(objects) for name, objects in table.items()}

    def pods(self, component: str) -> list[dict[str, Any]]:
        """The pods of a component."""
        label = "ragstow.dev/component"
        return [pod for pod in self.rig.objects("pods") if (pod["metadata"].get("labels") or {}).get(label) == component]


def applied(example: str, folder: Path, rig: Rig) -> Applied:
    """Plan an example on the live cluster, and apply it."""
    service = ROOT / "examples" / example / "service.yaml"
    file = folder / "plan.json"
    text = _planned(service, rig)
    file.write_text(text)
    document = json.loads(text)
    facts = known.load()
    plan = load_plan(document)
    rig.uses_as_planned(document)
    apply.run(rig.client, procedure(normalise(plan.spec, facts), plan, facts), plan=text.encode())
    rig.settle()
    return Applied(rig, file, document)


def _planned(service: Path, rig: Rig) -> str:
    import contextlib
    import io

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert run(["plan", str(service), "-o", "json", *rig.arguments()]) == 0
    return said.getvalue()


@pytest.fixture(scope="module")
def cards_made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Applied]:
    with gpu_cluster(ROOT / "examples" / "mixed-t4-a100" / "cluster") as rig:
        yield applied("mixed-t4-a100", tmp_path_factory.mktemp("cards"), rig)


@pytest.fixture
def cards(cards_made: Applied, capsys: pytest.CaptureFixture[str]) -> Applied:
    """Whole cards, device plugin by its chart."""
    cards_made.capture = capsys
    return cards_made


@pytest.fixture(scope="module")
def slices_made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Applied]:
    with gpu_cluster(ROOT / "examples" / "h100-operator" / "cluster") as rig:
        yield applied("h100-operator", tmp_path_factory.mktemp("slices"), rig)


@pytest.fixture
def slices(slices_made: Applied, capsys: pytest.CaptureFixture[str]) -> Applied:
    """Slices and pairs of cards, GPU Operator with MIG manager."""
    slices_made.capture = capsys
    return slices_made
