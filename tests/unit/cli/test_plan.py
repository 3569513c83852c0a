"""`ragstow plan`: the document and its schema, exit codes, a service from a pipe."""

from __future__ import annotations

import io
import json
from pathlib import Path

import jsonschema
import pytest

from ragstow.cli.main import run
from support import ROOT

EXAMPLES = ROOT / "examples"
SCHEMA = json.loads((ROOT / "src" / "ragstow" / "schemas" / "plan.schema.json").read_text(encoding="utf-8"))
SCRIPTS_RELY_ON = (
    *("feasible", "cards", "lowerBound", "optimal", "placements", "layouts", "refused", "reasons", "alternatives"),
    *("simulation", "spec", "cluster", "digest"),
)
RAGBOX = ("--assume", "ragbox=NVIDIA-GeForce-RTX-3090:2")


Capture = pytest.CaptureFixture[str]


def planned(capsys: Capture, *arguments: str, code: int) -> str:
    assert run(["plan", *arguments]) == code
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("service", "more", "code"),
    [
        ("h100-operator/service.yaml", (), 0),
        ("mixed-t4-a100/service.yaml", (), 0),
        ("cloud-l4-pool/service.yaml", (), 0),
        ("k3s-two-cards-dra/service.yaml", (), 0),
        ("k3s-two-cards/service-no-isolation.yaml", RAGBOX, 0),
        ("k3s-two-cards/service.yaml", RAGBOX, 1),
        ("all-cards-taken/service.yaml", (), 1),
        ("no-gpu/service.yaml", (), 1),
    ],
)
def test_document_keeps_its_schema_and_the_exit_code_is_the_answer(
    capsys: Capture, service: str, more: tuple[str, ...], code: int
) -> None:
    cluster = str((EXAMPLES / service).parent / "cluster")
    document = json.loads(planned(capsys, str(EXAMPLES / service), "--from", cluster, "-o", "json", *more, code=code))
    jsonschema.validate(document, SCHEMA)
    assert document["feasible"] is (code == 0)
    assert set(SCRIPTS_RELY_ON) <= set(document)
    assert code == 0 or document["reasons"]


def test_schema_is_strict(capsys: Capture) -> None:
    document = json.loads(
        planned(
            capsys,
            str(EXAMPLES / "no-gpu" / "service.yaml"),
            "--from",
            str(EXAMPLES / "no-gpu" / "cluster"),
            "-o",
            "json",
            code=1,
        )
    )
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "somethingElse": 1}, SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "cards": -1}, SCHEMA)


def test_service_may_come_from_standard_input(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    service = (EXAMPLES / "no-gpu" / "service.yaml").read_text(encoding="utf-8")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(service.encode())))
    assert "does not fit" in planned(capsys, "-", "--from", str(EXAMPLES / "no-gpu" / "cluster"), code=1)


def test_wrong_use_and_input_end_with_2(capsys: Capture, tmp_path: Path) -> None:
    service = str(EXAMPLES / "no-gpu" / "service.yaml")
    planned(capsys, service, code=2)
    planned(capsys, service, "--from", str(tmp_path), code=2)
    planned(capsys, service, "--from", str(EXAMPLES / "no-gpu" / "cluster"), "--release", "newest", code=2)
    planned(capsys, service, "--from", str(EXAMPLES / "no-gpu" / "cluster"), "--solver", "quantum", code=2)


def test_the_rollout_and_every_lost_node_are_played(capsys: Capture) -> None:
    example = EXAMPLES / "mixed-t4-a100"
    arguments = (str(example / "service.yaml"), "--from", str(example / "cluster"))
    document = json.loads(planned(capsys, *arguments, "-o", "json", code=0))
    jsonschema.validate(document, SCHEMA)
    played = document["simulation"]
    assert played["unplaced"] == []
    assert {row["component"]: row["leastReady"] for row in played["rollouts"]} == {
        "llm": 1,
        "embedder": 1,
        "reranker": 0,
        "vectors": 1,
        "gateway": 2,
    }
    assert all(row["done"] for row in played["rollouts"])
    assert {row["node"] for row in played["nodesLost"]} == {item["node"] for item in document["placements"]}
    assert all(row["survives"] for row in played["nodesLost"])
    text = planned(capsys, *arguments, code=0)
    assert " rollout: ok; ready on the way at least: llm 1 of 2" in text
    assert " one node lost: every component keeps a replica or gets one elsewhere (promised: survive: node)" in text


def test_without_the_promise_the_loss_of_a_node_is_said_all_the_same(capsys: Capture) -> None:
    example = EXAMPLES / "cloud-l4-pool"
    text = planned(capsys, str(example / "service.yaml"), "--from", str(example / "cluster"), code=0)
    assert " one node lost: embedder, reranker, vectors may be left without a replica\n" in text


def test_the_greedy_answer_says_that_it_is_no_proof(capsys: Capture) -> None:
    folder = EXAMPLES / "mixed-t4-a100"
    text = planned(capsys, str(folder / "service.yaml"), "--from", str(folder / "cluster"), "--solver", "greedy", code=0)
    assert "5 cards (greedy, not proved; at least 3 needed)" in text.splitlines()[0]
