"""The whole folder of every kind of plan, byte for byte, and every object valid under strict schemas of four releases.

`pytest --update-golden tests/unit/render` writes the folders anew; the diff is then the review.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest

from ragstow import facts, kubeyaml
from ragstow.render import Rendering, render
from render_plans import SCENARIOS
from support import DATA, ROOT

GOLDEN = DATA / "render"
RELEASES = ("1.34", "1.35", "1.36", "1.37")
FACTS = facts.load()


def rendered(name: str) -> Rendering:
    scenario = SCENARIOS[name]()
    return render(scenario.service, scenario.plan, FACTS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_folder(name: str, update_golden: bool) -> None:
    folder = GOLDEN / name
    files = {file.path: file.text for file in rendered(name).files}
    if update_golden:
        shutil.rmtree(folder, ignore_errors=True)
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    kept = {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()
    }
    assert sorted(files) == sorted(kept)
    for path, text in files.items():
        assert text == kept[path], f"{path} differs; run pytest --update-golden and look at the diff"


def test_no_folder_is_left_over() -> None:
    assert sorted(path.name for path in GOLDEN.iterdir()) == sorted(SCENARIOS)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_objects_are_valid_under_strict_schemas(name: str, release: str) -> None:
    for manifest in rendered(name).objects:
        kubernetes_validate.validate(manifest, release, strict=True)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_file_is_what_its_name_says(name: str) -> None:
    made = rendered(name)
    printed: list[Any] = []
    for file in made.files:
        if file.path == "STEPS.md":
            continue
        documents = kubeyaml.load_all(file.text)
        assert not any(document.warnings for document in documents), file.path
        values = [document.value for document in documents]
        if file.path.endswith("kustomization.yaml"):
            folder = file.path.removesuffix("kustomization.yaml")
            assert {f"{folder}{path}" for path in values[0]["resources"]} <= {other.path for other in made.files}
        elif "clusterpolicy" in file.path:
            jsonschema.validate(values[0], json.loads((DATA / "schemas" / "clusterpolicy-patch.json").read_text()))
        elif file.path.endswith("values.yaml"):
            jsonschema.validate(values[0], json.loads((DATA / "schemas" / "device-plugin-values.json").read_text()))
        elif file.path.endswith("node-labels.yaml"):
            for node in values:
                kubernetes_validate.validate(node, RELEASES[-1], strict=True)
        elif not file.path.endswith("patch.yaml") and "apiVersion" in values[0]:
            printed += values
    assert sorted(map(str, printed)) == sorted(map(str, made.objects))


def test_another_process_prints_the_same_bytes() -> None:
    program = (
        "from render_plans import SCENARIOS; from ragstow import facts; from ragstow.render import render; import hashlib\n"
        "made = [render(s().service, s().plan, facts.load()) for s in SCENARIOS.values()]\n"
        "print(hashlib.sha256(repr(made).encode()).hexdigest())"
    )
    seen = set()
    for seed in ("1", "2"):
        path = os.pathsep.join([str(ROOT / "src"), str(Path(__file__).parents[2])])
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        seen.add(subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True).stdout)
    assert len(seen) == 1
