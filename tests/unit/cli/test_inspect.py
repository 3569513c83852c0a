"""`inspect` as people and scripts use it: exit codes, text, JSON by its schema, the same bytes every time."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from makers import gfd, node
from ragstow.cli.main import run
from support import DATA, ENVIRONMENT, ROOT

CLUSTERS = sorted((DATA / "clusters").glob("[0-9]*.tar.gz")) + sorted((DATA / "clusters-broken").glob("[0-9]*.tar.gz"))
SCHEMA = json.loads((ROOT / "src" / "ragstow" / "schemas" / "inventory.schema.json").read_text(encoding="utf-8"))
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def cluster(start: str) -> str:
    return str(next(path for path in CLUSTERS if path.name.startswith(start)))


def printed(capsys: Capture, *arguments: str) -> str:
    assert run(["inspect", *arguments]) == 0
    return capsys.readouterr().out


def test_the_answer_comes_first(capsys: Capture) -> None:
    lines = printed(capsys, "--from", cluster("01-device")).splitlines()
    assert lines[:2] == ["3 of 8 free  NVIDIA-A100-SXM4-40GB, 40.0 GiB each", "1 of 4 free  Tesla-T4, 15.0 GiB each"]
    assert [line.split()[:5] for line in lines if line.startswith("  a100")] == [
        ["a100-1", "4", "1", "exclusive", "gpu"],
        ["a100-2", "4", "2", "exclusive", "gpu"],
    ]
    assert "taint nvidia.com/gpu=present" in lines[5]
    assert lines[-1].startswith("3 nodes without GPU: cpu-1, cpu-2, cp-1 (")


@pytest.mark.parametrize(
    ("allocatable", "mark"),
    [
        ({"nvidia.com/gpu": 2}, ""),
        ({"nvidia.com/gpu": 1}, "1 of 2 gpu UNHEALTHY"),
        ({"nvidia.com/gpu": 0}, "2 of 2 gpu UNHEALTHY"),
        ({"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 4}, ""),
    ],
)
def test_unhealthy_cards_are_marked(capsys: Capture, tmp_path: Path, allocatable: dict[str, int], mark: str) -> None:
    """Under its old name nothing is allocatable once a node's slots have another one: that is no fault."""
    capacity = {"nvidia.com/gpu": 2, **{name: count for name, count in allocatable.items() if name != "nvidia.com/gpu"}}
    raw = node("a", capacity, gfd("NVIDIA-L40S", 2, 46068), allocatable=allocatable)
    (tmp_path / "node.json").write_text(json.dumps(raw), encoding="utf-8")
    line = next(line for line in printed(capsys, "--from", str(tmp_path)).splitlines() if line.startswith("  a "))
    assert line.endswith(mark) if mark else "UNHEALTHY" not in line


def test_ranges_and_slices(capsys: Capture) -> None:
    text = printed(capsys, "--from", cluster("02-operator"), "-o", "wide")
    assert text.startswith("2-4 of 8 free  NVIDIA-H100-80GB-HBM3, 79.6 GiB each\n")
    assert "card 4, 5: 2 x 1g.10gb, 1 x 2g.20gb, 1 x 3g.40gb" in text
    assert "nvidia.com/gpu 2 of 4 free, held by rag/llm-5bb558c6b5-bqphl 2" in text
    assert "driver 595.91.07, up to CUDA 13.2" in text
    assert "migStrategy=mixed" in text
    assert "Kubernetes 1.37.2, by the API server" in text


def test_the_memory_of_a_slice_is_told_and_where_it_is_from(capsys: Capture, tmp_path: Path) -> None:
    labels = {**gfd("NVIDIA-A100-SXM4-40GB", 1, 40960), "nvidia.com/mig.strategy": "mixed", "nvidia.com/mig-1g.5gb.count": "7"}
    saved = node("mig-1", {"nvidia.com/mig-1g.5gb": 7, "nvidia.com/gpu": 0}, labels)
    (tmp_path / "node.json").write_text(json.dumps(saved), encoding="utf-8")
    lines = printed(capsys, "--from", str(tmp_path), "--by", "card").splitlines()
    assert len([line for line in lines if "1g.5gb" in line and "4.8 GiB (facts)" in line]) == 7
    document = json.loads(printed(capsys, "--from", str(tmp_path), "-o", "json"))
    jsonschema.validate(document, SCHEMA)
    assert {(item["memoryMiB"], item["memoryFrom"]) for item in document["nodes"][0]["devices"]} == {(4864, "facts")}


def test_configuration_in_force_and_where_it_is_from(capsys: Capture) -> None:
    nodes = json.loads(printed(capsys, "--from", cluster("04-time"), "-o", "json"))["nodes"]
    shared, exclusive = (next(node for node in nodes if node["name"] == name)["config"] for name in ("l4-1", "l4-3"))
    assert shared["key"] == "shared-4"
    assert shared["origin"].endswith("by node label nvidia.com/device-plugin.config")
    assert shared["config"]["sharing"]["timeSlicing"]["resources"][0]["replicas"] == 4
    assert exclusive["key"] == "exclusive"
    assert exclusive["origin"].endswith("the default")
    assert exclusive["configMap"] == {"namespace": "nvidia-device-plugin", "name": "nvdp-nvidia-device-plugin-configs"}


@pytest.mark.parametrize("by", ["card", "pod", "resource"])
def test_other_views(capsys: Capture, by: str) -> None:
    text = printed(capsys, "--from", cluster("10-dra"), "--by", by)
    assert text.startswith("3 of 8 free  NVIDIA-A100-SXM4-80GB")
    wanted = {"card": "3g.40gb", "pod": "gpu-3-mig-3g40gb-9-0", "resource": "claims"}[by]
    assert wanted in text
    assert "rag/judge-b5c9889b4-ktlqb" in text


def test_a_namespace_filters_what_is_shown_and_never_what_is_counted(capsys: Capture) -> None:
    whole = json.loads(printed(capsys, "--from", cluster("10-dra"), "-o", "json"))
    other = json.loads(printed(capsys, "--from", cluster("10-dra"), "-o", "json", "-n", "other"))
    everything = json.loads(printed(capsys, "--from", cluster("10-dra"), "-o", "json", "-n", "other", "-A"))
    assert other["totals"] == whole["totals"]
    assert "rag/llm" in json.dumps(whole["nodes"])
    assert '"pods": ["rag/' not in json.dumps(other["nodes"])
    assert everything == whole
    text = printed(capsys, "--from", cluster("01-device"), "-o", "wide", "-n", "other")
    assert "rag/" not in text
    assert "held by 2 in other namespaces" in text


def test_assumed_cards_are_named_and_marked(capsys: Capture) -> None:
    product = "NVIDIA-GeForce-RTX-3090"
    text = printed(capsys, "--from", cluster("06-k3s"), "--assume", f"ragbox={product}")
    assert text.startswith(f"0 of 2 free  {product}, 24.0 GiB each\n")
    assert f"* ragbox: assumed on the command line: {product}" in text
    assert "exclusive*" in text


def test_no_gpu_at_all(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "n.json").write_text('{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cpu-1"}}', encoding="utf-8")
    assert printed(capsys, "--from", str(tmp_path)) == "no GPU on 1 node\n\n1 node without GPU: cpu-1\n"


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.name.split(".")[0])
@pytest.mark.parametrize("form", ["text", "wide", "json", "yaml"])
def test_every_recorded_cluster(capsys: Capture, path: Path, form: str) -> None:
    text = printed(capsys, "--from", str(path), "-o", form)
    if form == "json":
        jsonschema.validate(json.loads(text), SCHEMA)
    elif form == "yaml":
        import yaml

        again = json.loads(printed(capsys, "--from", str(path), "-o", "json"))
        assert yaml.safe_load(text) == again
    else:
        assert max(len(line) for line in text.splitlines()) <= 130


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_same_bytes_whatever_the_hash_seed_and_the_container(tmp_path: Path) -> None:
    path = cluster("02-operator")
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = next(tmp_path.iterdir())
    outputs = []
    for seed, source in (("0", path), ("1", path), ("2", str(folder))):
        environment = {**ENVIRONMENT, "PYTHONHASHSEED": seed}
        for form in ("json", "wide"):
            done = subprocess.run(
                [sys.executable, "-m", "ragstow", "inspect", "--from", source, "-o", form],
                capture_output=True,
                env=environment,
                timeout=120,
                check=True,
            )
            outputs.append(done.stdout.replace(json.dumps(source).encode(), b"X").replace(b'"archive"', b'"folder"'))
    assert outputs[0] == outputs[2] == outputs[4]
    assert outputs[1] == outputs[3] == outputs[5]


def complaint(capsys: Capture, *arguments: str) -> str:
    assert run(["inspect", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return captured.err


def test_wrong_usage(capsys: Capture, tmp_path: Path) -> None:
    k3s = cluster("06-k3s")
    assert "--from PATH" in complaint(capsys)
    assert "no such file" in complaint(capsys, "--from", str(tmp_path / "gone"))
    assert "kubectl get nodes" in complaint(capsys, "--from", str(tmp_path))
    assert "did you mean ragbox?" in complaint(capsys, "--from", k3s, "--assume", "ragbxo=NVIDIA-L4")
    assert "did you mean NVIDIA-GeForce-RTX-3090" in complaint(capsys, "--from", k3s, "--assume", "ragbox=GeForce-RTX-3091")
    for wrong in ("ragbox", "ragbox=", "=NVIDIA-L4", "ragbox=NVIDIA-L4:", "ragbox=NVIDIA-L4:0", "ragbox=NVIDIA-L4:two"):
        assert "expected NODE=PRODUCT[:CARDS]" in complaint(capsys, "--from", k3s, "--assume", wrong)
    twice = ("--assume", "ragbox=NVIDIA-L4", "--assume", "ragbox=NVIDIA-L40S")
    assert "more than once" in complaint(capsys, "--from", k3s, *twice)
    assert "not a Kubernetes release" in complaint(capsys, "--from", k3s, "--release", "next")
    assert "is not a folder" in complaint(capsys, "--from", k3s, "--facts", str(tmp_path / "gone"))
    assert "no such option" in complaint(capsys, "--form", k3s).lower()


def test_objects_but_no_node(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}', encoding="utf-8")
    text = complaint(capsys, "--from", str(tmp_path))
    assert "1 objects, but no Node" in text
    assert "kubectl get nodes -o json" in text


def test_warnings_go_to_stderr_and_the_rest_goes_on(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "n.json").write_text('{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}', encoding="utf-8")
    for number in range(8):
        (tmp_path / f"bad{number}.json").write_text('{"kind": ', encoding="utf-8")
    assert run(["inspect", "--from", str(tmp_path), "-o", "json"]) == 0
    captured = capsys.readouterr()
    document: dict[str, Any] = json.loads(captured.out)
    assert document["source"] == {"kind": "folder", "location": str(tmp_path), "takenAt": None}
    assert captured.err.count("warning: ") == 6
    assert "and 3 more" in captured.err


def test_facts_of_the_user_are_laid_over(capsys: Capture, tmp_path: Path) -> None:
    head, *rows = (ROOT / "src" / "ragstow" / "facts" / "data" / "gpus.csv").read_text(encoding="utf-8").splitlines()
    row = next(row for row in rows if row.startswith("NVIDIA-GeForce-RTX-3090,"))
    (tmp_path / "gpus.csv").write_text(
        f"{head}\n{row.replace('NVIDIA-GeForce-RTX-3090', 'NVIDIA-Prototype', 1)}\n", encoding="utf-8"
    )
    text = printed(capsys, "--from", cluster("06-k3s"), "--facts", str(tmp_path), "--assume", "ragbox=NVIDIA-Prototype")
    assert text.startswith("0 of 2 free  NVIDIA-Prototype, 24.0 GiB each\n")
