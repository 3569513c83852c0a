"""`size` and `explain` as commands: text, JSON under its schema, the same bytes in two processes, errors with exit 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ragstow.cli.main import run
from support import ROOT

SERVICE = str(ROOT / "examples" / "mixed-t4-a100" / "service.yaml")
SCHEMA = json.loads((ROOT / "src" / "ragstow" / "schemas" / "sizing.schema.json").read_text(encoding="utf-8"))
CARD = "NVIDIA-A100-SXM4-40GB"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run([*arguments, "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_terms_on_one_card_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["size", SERVICE, "--gpu", CARD]) == 0
    shown = capsys.readouterr().out
    for part in ("weights", "KV cache", "CUDA context", "lever:", "0.92 of the slot", "unvalidated", "host memory 30Gi"):
        assert part in shown, part


def test_the_json_holds_its_schema_with_one_card_and_with_the_whole_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    one = answer(capsys, "size", SERVICE, "--gpu", CARD)
    every = answer(capsys, "size", SERVICE)
    for found in (one, every):
        jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert [item["name"] for item in one["components"]] == ["llm", "embedder", "reranker"]
    assert len(every["components"]) > 3 * 40
    llm = one["components"][0]
    assert llm["gpu"] == CARD
    assert sum(item["bytes"] for item in llm["terms"]) == llm["totalBytes"]
    assert {"name", "bytes", "source", "band"} <= llm["terms"][0].keys()


def test_a_slice_is_a_product_too(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "size", SERVICE, "--gpu", f"{CARD}-MIG-1g.5gb", "--component", "embedder")
    (embedder,) = found["components"]
    assert embedder["gpu"] == f"{CARD}-MIG-1g.5gb"
    assert embedder["capacityBytes"] == 4864 * 2**20
    assert embedder["fits"]


def test_the_cards_of_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(ROOT / "examples" / "mixed-t4-a100" / "cluster")
    found = answer(capsys, "size", SERVICE, "--from", folder)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert folder in found["source"].values()
    assert sorted({item["gpu"] for item in found["components"]}) == [CARD, "Tesla-T4"]


def test_a_cluster_without_gpus_is_said_to_have_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["size", SERVICE, "--from", str(ROOT / "examples" / "no-gpu" / "cluster")]) == 2
    assert "--gpu PRODUCT" in capsys.readouterr().err


def test_the_same_bytes_whatever_the_hash_seed() -> None:
    shown = {
        subprocess.run(
            [sys.executable, "-m", "ragstow", "size", SERVICE, "-o", "json"],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(shown) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["size", SERVICE, "--gpu", "NVIDIA-A100-SXM4-40"], "did you mean NVIDIA-A100-SXM4-40GB"),
        (["size", SERVICE, "--gpu", "NVIDIA-L4-MIG-1g.5gb"], "no MIG profile"),
        (["size", SERVICE, "--component", "lm"], "components: llm, embedder"),
        (["size", SERVICE, "--gpu", CARD, "--from", "x"], "both name the cards"),
        (["size", "nowhere.yaml"], "cannot read it"),
        (["explain", "spec.components.isolaton"], "did you mean spec.components.isolation?"),
        (["explain", "activaton"], "did you mean activation?"),
        (["explain", "concurrency"], "did you mean spec.components.concurrency?"),
    ],
)
def test_mistakes_are_exit_2_with_a_hint(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert says in capsys.readouterr().err


def test_every_fault_of_a_service_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "service.yaml"
    file.write_text(Path(SERVICE).read_text(encoding="utf-8").replace("survive", "survives").replace("bge-m3", "bge-m4"))
    assert run(["size", str(file)]) == 2
    shown = capsys.readouterr().err
    assert shown.count("hint:") == 2
    assert f"{file}:" in shown


def test_explain_shows_fields_and_terms(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "spec.components.isolation"]) == 0
    assert "crash or hang" in capsys.readouterr().out
    assert answer(capsys, "explain", "weights")["topic"] == "terms"
    assert run(["explain"]) == 0
    shown = capsys.readouterr().out
    assert "spec.placement.survive" in shown
    assert "KV cache" in shown


def test_every_term_of_a_sum_has_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    names = {term["name"] for item in answer(capsys, "size", SERVICE)["components"] for term in item["terms"]}
    for name in sorted(names):
        assert run(["explain", name]) == 0, name
