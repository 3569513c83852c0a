"""ragstow render: a plan into a folder or onto stdout."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragstow import facts, kubeyaml
from ragstow.cli.main import run
from ragstow.cli.output import camel, document
from ragstow.plan.model import Plan
from ragstow.render import render
from ragstow.spec import normalise, to_document
from render_plans import SCENARIOS, Scenario
from support import ROOT


def write(tmp_path: Path, scenario: Scenario, **changes: Any) -> str:
    plan: Plan = replace(scenario.plan, spec=to_document(scenario.service), **changes)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(document("Plan", {camel(name): getattr(plan, name) for name in Plan.__slots__})))
    return str(file)


@pytest.mark.parametrize("name", ["exclusive", "time-slicing-chart", "mig-operator"])
def test_a_plan_from_a_file_gives_the_folder_that_the_library_gives(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(["render", write(tmp_path, SCENARIOS[name]()), "--out", str(out)]) == 0
    made = {path.relative_to(out).as_posix(): path.read_text() for path in out.rglob("*") if path.name != ".ragstow.json"
            and path.is_file()}  # fmt: skip
    known = facts.load()
    scenario = SCENARIOS[name]()
    service = normalise(to_document(scenario.service), known)
    assert json.loads(made.pop("plan.json"))["digest"] == scenario.plan.digest
    assert made == {file.path: file.text for file in render(service, scenario.plan, known).files}
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "STEPS.md" in printed.err


def test_objects_as_a_stream_and_what_the_stream_lacks_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["render", write(tmp_path, SCENARIOS["time-slicing-operator"]()), "-o", "yaml"]) == 0
    printed = capsys.readouterr()
    kinds = [found.value["kind"] for found in kubeyaml.load_all(printed.out)]
    assert kinds[0] == "ConfigMap"
    assert kinds.count("Deployment") == 3
    assert "clusterpolicy-device-plugin-patch.yaml is not part of this stream" in printed.err


def test_objects_as_a_json_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["render", write(tmp_path, SCENARIOS["dra"]()), "-o", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["kind"] == "List"
    assert {"ResourceClaim", "Deployment"} <= {item["kind"] for item in made["items"]}


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = write(tmp_path, SCENARIOS["exclusive"]())
    assert run(["render", plan, "--out", str(tmp_path)]) == 2
    assert "--force" in capsys.readouterr().err
    assert run(["render", plan, "--out", str(tmp_path), "--force"]) == 0
    assert run(["render", plan, "--out", str(tmp_path)]) == 0


def test_an_infeasible_plan_is_a_no(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["render", write(tmp_path, SCENARIOS["exclusive"](), feasible=False), "--out", str(tmp_path / "out")]) == 1
    assert "does not fit" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"kind": "Plan"}', "feasible is missing"),
        ('{"kind": "Plan", "feasible": ', "cut off"),
        ("kind: Plan\n---\nkind: Plan\n", "more than one document"),
        ("hello\n", "no RagService in it"),
    ],
)
def test_bad_input_is_named(text: str, wanted: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.json").write_text(text)
    assert run(["render", str(tmp_path / "plan.json"), "--out", str(tmp_path / "out")]) == 2
    assert wanted in capsys.readouterr().err


def test_files_that_are_not_there_or_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["render", str(tmp_path / "none.json"), "--out", "x"]) == 2
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert run(["render", str(tmp_path / "binary"), "--out", "x"]) == 2
    assert "not a text file" in capsys.readouterr().err


def test_where_to_must_be_said_and_a_plan_has_its_own_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = write(tmp_path, SCENARIOS["exclusive"]())
    assert run(["render", plan]) == 2
    assert "--out DIR" in capsys.readouterr().err
    assert run(["render", plan, "--from", str(tmp_path), "-o", "yaml"]) == 2
    assert "already names its cluster" in capsys.readouterr().err


def test_a_service_is_planned_and_rendered_in_one_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = ROOT / "examples" / "h100-operator"
    service, cluster = str(example / "service.yaml"), str(example / "cluster")
    assert run(["plan", service, "--from", cluster, "-o", "json"]) == 0
    (tmp_path / "plan.json").write_text(capsys.readouterr().out)
    assert run(["render", str(tmp_path / "plan.json"), "--out", str(tmp_path / "two")]) == 0
    assert run(["render", service, "--from", cluster, "--out", str(tmp_path / "one")]) == 0

    def tree(name: str) -> dict[str, str]:
        root = tmp_path / name
        return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}

    assert tree("one") == tree("two")
    assert "STEPS.md" in tree("one")


def test_a_service_that_does_not_fit_renders_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = ROOT / "examples" / "no-gpu"
    assert (
        run(["render", str(example / "service.yaml"), "--from", str(example / "cluster"), "--out", str(tmp_path / "out")]) == 1
    )
    assert "does not fit" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
