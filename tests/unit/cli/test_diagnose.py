"""`diagnose` as people and scripts use it: exit codes, the order of the text, formats, one pod, logs."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from ragstow.cli.main import run
from ragstow.rules.registry import all_rules
from ragstow.rules.rule import Rule
from support import DATA, ROOT

CASES = DATA / "cases"
SCHEMA = json.loads((ROOT / "src" / "ragstow" / "schemas" / "findings.schema.json").read_text(encoding="utf-8"))
SARIF = json.loads((DATA / "schemas" / "sarif-2.1.0-subset.schema.json").read_text(encoding="utf-8"))
ALL = sorted(path.parent for path in CASES.glob("*/expect.yaml"))
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def broken(start: str) -> str:
    return str(next((DATA / "clusters-broken").glob(f"{start}*.tar.gz")))


def healthy(start: str) -> str:
    return str(next((DATA / "clusters").glob(f"{start}*.tar.gz")))


def printed(capsys: Capture, *arguments: str, code: int) -> str:
    assert run(["diagnose", *arguments]) == code
    return capsys.readouterr().out


def test_what_when_and_how_many_come_first_then_the_change_then_the_fix(capsys: Capture) -> None:
    text = printed(capsys, "--from", broken("04"), "--now", "2026-11-30T22:24:30Z", code=1)
    lines = text.splitlines()
    assert lines[0] == "1 finding: 1 high; 1 pod held"
    assert lines[2].startswith("HIGH  Deployment rag/llm: the rollout waits")
    assert lines[3].strip() == "rolling-update-gpu-deadlock, since 2026-11-30T21:47:27Z (37 min)"
    labels = [line.split()[0] for line in lines[3:] if line[:1].strip()]
    assert labels == ["holds", "changed", "do", "disturbs", "worked", "because", "evidence", "follows"]
    assert "vllm-openai:v0.23.0 -> docker.io/vllm/vllm-openai:v0.23.1)" in " ".join(text.split())
    commands = [line.strip() for line in lines if line.strip().startswith("$ ")]
    assert len(commands) == 1
    assert commands[0].startswith("$ kubectl -n rag patch deployment llm --type merge -p '{")


def test_a_healthy_cluster_is_one_line(capsys: Capture) -> None:
    assert printed(capsys, "--from", healthy("01"), code=0) == "nothing wrong found (7 nodes, 39 pods)\n"
    looked = printed(capsys, "--from", healthy("01"), "-o", "wide", code=0).partition("looked at ")[2].split()
    assert {name.rstrip(",") for name in looked} == {
        rule.id for rule in all_rules() if type(rule).diagnose is not Rule.diagnose
    }


def test_exit_codes(capsys: Capture, tmp_path: Path) -> None:
    assert run(["diagnose", "--from", broken("04"), "--fail-on", "critical"]) == 0
    assert run(["diagnose", "--from", broken("04"), "--exit-zero"]) == 0
    assert run(["diagnose"]) == 2
    assert run(["diagnose", "--from", str(tmp_path / "nowhere")]) == 2
    assert run(["diagnose", "--from", broken("04"), "--now", "yesterday"]) == 2
    assert run(["diagnose", "--from", broken("04"), "--logs", str(tmp_path / "nowhere")]) == 2
    capsys.readouterr()
    assert run(["diagnose", "rag/lllm", "--from", broken("04")]) == 2
    assert "did you mean rag/llm?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "target", ["llm", "rag/llm", "deployment/llm", "deploy/llm", "rag/llm-6d44ddb6d9-q9fk9", "node/ragbox"]
)
def test_one_workload_pod_or_node(capsys: Capture, target: str) -> None:
    text = printed(capsys, target, "--from", broken("04"), code=1)
    assert text.startswith(f"1 finding: 1 high; 1 pod held for {target}\n")


def test_another_pod_is_well(capsys: Capture) -> None:
    text = printed(capsys, "embedder", "--from", broken("04"), code=0)
    assert text == "nothing wrong found for embedder (1 nodes, 10 pods)\n" or text.startswith(
        "nothing wrong found for embedder"
    )


def test_a_namespace_filters_what_is_shown(capsys: Capture) -> None:
    assert printed(capsys, "--from", broken("04"), "-n", "rag", code=1)
    assert printed(capsys, "--from", broken("04"), "-n", "kube-system", code=0).startswith("nothing wrong found in namespace")
    assert printed(capsys, "--from", broken("04"), "-n", "kube-system", "-A", code=1)


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
def test_every_case_in_json_by_its_schema(capsys: Capture, path: Path) -> None:
    assert run(["diagnose", "--from", str(path), "-o", "json"]) in (0, 1)
    made = json.loads(capsys.readouterr().out)
    jsonschema.validate(made, SCHEMA)
    assert made["source"] == {"kind": "folder", "location": str(path), "takenAt": None}


@pytest.mark.parametrize("path", ALL[:6], ids=lambda path: path.name)
def test_sarif_and_junit(capsys: Capture, path: Path) -> None:
    assert run(["diagnose", "--from", str(path), "-o", "sarif"]) in (0, 1)
    made = json.loads(capsys.readouterr().out)
    jsonschema.validate(made, SARIF)
    run_ = made["runs"][0]
    assert all(run_["tool"]["driver"]["rules"][item["ruleIndex"]]["id"] == item["ruleId"] for item in run_["results"])
    assert run(["diagnose", "--from", str(path), "-o", "junit"]) in (0, 1)
    suites = ET.fromstring(capsys.readouterr().out)
    assert int(suites.get("tests", "0")) == len(suites.findall(".//testcase"))
    assert int(suites.get("failures", "0")) == len(suites.findall(".//failure"))


def test_yaml_says_the_same_as_json(capsys: Capture) -> None:
    as_json = json.loads(printed(capsys, "--from", broken("10"), "-o", "json", code=1))
    assert yaml.safe_load(printed(capsys, "--from", broken("10"), "-o", "yaml", code=1)) == as_json


def test_the_same_bytes_every_time(capsys: Capture) -> None:
    first = printed(capsys, "--from", broken("01"), "-o", "json", code=1)
    assert printed(capsys, "--from", broken("01"), "-o", "json", code=1) == first


def test_logs_are_read_beside_the_cluster(capsys: Capture, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster"
    cluster.mkdir()
    for file in (CASES / "P16").glob("*.yaml"):
        if file.name != "expect.yaml":
            (cluster / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    logs = CASES / "P16" / "logs"
    before: Any = run(["diagnose", "--from", str(cluster), "-o", "json"])
    capsys.readouterr()
    with_logs = json.loads(printed(capsys, "--from", str(cluster), "--logs", str(logs), "-o", "json", code=1))
    whole = json.loads(printed(capsys, "--from", str(CASES / "P16"), "-o", "json", code=1))
    assert before in (0, 1)
    assert with_logs["findings"] == whole["findings"]
    single = json.loads(printed(capsys, "--from", str(cluster), "--logs", str(next(logs.iterdir())), "-o", "json", code=1))
    assert single["findings"] == whole["findings"]


def test_a_report_may_hold_no_node_or_only_a_log(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "dmesg.txt").write_text(
        "NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n", encoding="utf-8"
    )
    whole = json.loads(printed(capsys, "--from", str(tmp_path), "-o", "json", code=1))
    assert [finding["cause"] for finding in whole["findings"]] == ["gpu-unhealthy"]
    assert "kubectl get nodes -o json" in [item["command"] for item in whole["unknown"]]
    (tmp_path / "pods.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: a, uid: u}, status: {phase: Running}, "
        "spec: {nodeName: gpu-1, containers: [{name: c, image: i}]}}",
        encoding="utf-8",
    )
    (tmp_path / "logs" / "dmesg.txt").unlink()
    assert printed(capsys, "--from", str(tmp_path), code=0).startswith("no nodes in the data, so little can be said (1 pods)")
    assert run(["inspect", "--from", str(tmp_path)]) == 2


def test_many_pods_of_one_cause_are_one_finding(capsys: Capture, tmp_path: Path) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "gpu-1", "uid": "n"},
        "status": {
            key: {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "1"} for key in ("capacity", "allocatable")
        },
    }
    amount = {"nvidia.com/gpu": "1"}
    container = {"name": "c", "image": "i", "resources": {"limits": amount, "requests": amount}}

    def pod(name: str, **spec: Any) -> dict[str, Any]:
        waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {"phase": "Running"} if spec else {"phase": "Pending", "conditions": [waiting]}
        meta = {"name": name, "namespace": "rag", "uid": name, "labels": {"app": "x"}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {"containers": [container], **spec},
            "status": status,
        }

    pods = [pod("holder", nodeName="gpu-1"), *(pod(f"waits-{number:03d}") for number in range(200))]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node, *pods]}), encoding="utf-8")
    made = json.loads(printed(capsys, "--from", str(file), "-o", "json", code=1))
    assert len(made["findings"]) == 1
    assert len(made["findings"][0]["held"]) == 200
    text = printed(capsys, "--from", str(file), code=1)
    assert "200 pods held" in text
    assert "rag/waits-004 and 195 more (-o wide or json)" in " ".join(text.split())
    assert len(text.splitlines()) < 40


def test_a_configuration_file_sets_the_level(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    file = tmp_path / ".ragstow.yaml"
    file.write_text("apiVersion: ragstow.dev/v1alpha1\nkind: Config\ndiagnose: {failOn: critical}\n", encoding="utf-8")
    assert run(["diagnose", "--from", broken("04")]) == 0
    assert run(["diagnose", "--from", broken("04"), "--fail-on", "high"]) == 1
    file.write_text("apiVersion: ragstow.dev/v1alpha1\nkind: Config\ndiagnose: {failOn: severe}\nlnt: {}\n", encoding="utf-8")
    capsys.readouterr()
    assert run(["diagnose", "--from", broken("04")]) == 2
    said = capsys.readouterr().err
    assert "diagnose.failOn" in said
    assert "did you mean lint?" in said
