"""`simulate` as people and scripts use it: exit codes, text, JSON by its schema, the same bytes every time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from ragstow.cli.main import run
from simulations import GPU, Json, budget, deployed, node, running, workload
from support import DATA, ROOT

SCHEMA = json.loads((ROOT / "src" / "ragstow" / "schemas" / "simulation.schema.json").read_text(encoding="utf-8"))
CLUSTERS = sorted((DATA / "clusters").glob("[0-9]*.tar.gz")) + sorted((DATA / "clusters-broken").glob("[0-9]*.tar.gz"))
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def files(tmp_path: Path) -> Any:
    def write(name: str, *objects: Json) -> str:
        path = tmp_path / name
        path.write_text("---\n".join(yaml.safe_dump(one) for one in objects))
        return str(path)

    return write


def text(capsys: Capture, code: int, *arguments: str) -> str:
    assert run(["simulate", *arguments]) == code
    return capsys.readouterr().out


def answer(capsys: Capture, code: int, *arguments: str) -> Any:
    found = json.loads(text(capsys, code, *arguments, "-o", "json"))
    jsonschema.validate(found, SCHEMA)
    return found


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.name)
def test_saved_clusters_by_the_schema(path: Path, capsys: Capture) -> None:
    for more in ((), ("--scores", "--rollout")):
        code = run(["simulate", "--from", str(path), "-o", "json", *more])
        document = json.loads(capsys.readouterr().out)
        jsonschema.validate(document, SCHEMA)
        assert code == (0 if document["ok"] else 1)


def test_pending_pods_of_a_cluster_agree_with_its_events(capsys: Capture) -> None:
    for path in CLUSTERS:
        run(["simulate", "--from", str(path), "-o", "json"])
        document = json.loads(capsys.readouterr().out)
        assert [item for item in document["warnings"] if item["code"] == "event-differs"] == [], path.name


def test_all_placed(files: Any, capsys: Capture) -> None:
    cluster, llm = files("c.yaml", node("n1", 2), node("n2", 2)), files("llm.yaml", workload("Deployment", "llm", 2, 1))
    shown = text(capsys, 0, "--from", cluster, "-f", llm, "--release", "1.36")
    assert shown.startswith("2 of 2 pods placed   (Kubernetes 1.36, by --release)\n")
    rows = [line.split()[:2] for line in shown.splitlines() if line.startswith(" rag/")]
    assert rows == [["rag/llm-0", "n1"], ["rag/llm-1", "n2"]]
    assert "n2 would do as well" in shown


def test_what_stands_in_the_way(files: Any, capsys: Capture) -> None:
    cluster = files("c.yaml", node("n1", 1), running("x", "n1", 1))
    llm = files("llm.yaml", workload("Deployment", "llm", 3, 1))
    shown = text(capsys, 1, "--from", cluster, "-f", llm, "--preemption", "off")
    assert "rag/llm-0 and 2 more of Deployment rag/llm fits nowhere" in shown
    assert "  event: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu." in shown
    assert "  nearest: n1 lacks 1 nvidia.com/gpu; rag/x holds nvidia.com/gpu" in shown
    assert "  fix: move or stop rag/x on n1" in shown


def test_victims_are_loud(files: Any, capsys: Capture) -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    cluster = files("c.yaml", high, node("n1", 1), running("x", "n1", 1))
    llm = files("llm.yaml", workload("Deployment", "llm", 1, 1, priorityClassName="high"))
    shown = text(capsys, 0, "--from", cluster, "-f", llm)
    assert shown.startswith("1 of 1 pods placed, 1 EVICTED")
    assert "EVICTS rag/x (priority 0) to make room for rag/llm-0; no controller makes it again: it is gone" in shown


def test_rollout_and_a_lost_node(files: Any, capsys: Capture) -> None:
    cluster, llm = files("c.yaml", node("n1", 1)), files("llm.yaml", workload("Deployment", "llm", 1, 1))
    shown = text(capsys, 1, "--from", cluster, "-f", llm, "--rollout", "--fail", "n1")
    assert (
        "rollout of Deployment rag/llm: STANDS STILL   (RollingUpdate, maxSurge 1, maxUnavailable 0; 1 of 1 ready at least)"
        in shown
    )
    assert "  fix: strategy.rollingUpdate maxSurge: 0, maxUnavailable: 1 goes through (nothing serves while it runs)" in shown
    assert "fail of n1: 1 pod(s) find no place" in shown


def test_a_drain_that_hangs(files: Any, capsys: Capture) -> None:
    live = deployed("llm", ["n1"], 1)
    cluster = files("c.yaml", node("n1", 1), node("n2", 1), *live, budget("llm", "llm", maxUnavailable=0))
    shown = text(capsys, 1, "--from", cluster, "--drain", "n1")
    assert "drain of n1: HANGS" in shown
    assert "rag/llm-old-0 stays: PodDisruptionBudget llm allows no disruption" in shown


def test_the_files_may_hold_the_cluster(files: Any, capsys: Capture) -> None:
    everything = files("all.yaml", node("n1", 1), workload("Deployment", "llm", 1, 1))
    found = answer(capsys, 0, "-f", everything)
    assert found["final"] == {"rag/llm-0": "n1"}
    assert found["source"]["kind"] == "file"


def test_a_running_pod_as_a_person_writes_it_holds_its_limits(files: Any, capsys: Capture) -> None:
    containers = [{"name": "main", "image": "i", "resources": {"limits": {GPU: 1}}}]
    meta = {"name": "old", "namespace": "rag"}
    holder = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"nodeName": "n1", "containers": containers}}
    everything = files("all.yaml", node("n1", 1), holder, workload("Deployment", "llm", 1, 1))
    assert "n1 has 0 of 1 nvidia.com/gpu free" in text(capsys, 1, "-f", everything)


def test_two_refusals_of_one_node_are_two_lines(files: Any, capsys: Capture) -> None:
    """A line's number is that of the event: one node lacks CPU, one lacks memory."""
    pod = running("giant", "n1", 0)
    del pod["spec"]["nodeName"]
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000", "memory": "9000Gi"}}
    shown = text(capsys, 1, "-f", files("all.yaml", node("n1"), pod))
    assert "event: 0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory." in shown
    assert [line for line in shown.splitlines() if "in all, rag/giant" in line and line.startswith("  1 node: n1")][1:]


def test_a_kubelet_file(files: Any, capsys: Capture) -> None:
    devices = {"devices": {GPU: [{"id": "GPU-a", "numa": [0]}, {"id": "GPU-b", "numa": [1]}]}}
    numa = {"numa": [{"id": 0, "distances": [10, 20]}, {"id": 1, "distances": [20, 10]}]}
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "topologyManagerPolicy": "single-numa-node",
    }
    kubelet = files("kubelet.yaml", config, {**numa, **devices})
    cluster, llm = files("c.yaml", node("n1", 2)), files("llm.yaml", workload("Deployment", "llm", 1, 2))
    found = answer(capsys, 1, "--from", cluster, "-f", llm, "--kubelet", kubelet)
    assert found["loops"][0]["reason"] == "TopologyAffinityError"
    shown = text(capsys, 1, "--from", cluster, "-f", llm, "--kubelet", kubelet)
    assert "LOOP  Deployment rag/llm: n1 rejects its pod with TopologyAffinityError" in shown


def test_what_ifs(files: Any, capsys: Capture) -> None:
    cluster = files("c.yaml", node("n1", 1), *deployed("old", ["n1"], 1))
    llm = files("llm.yaml", workload("Deployment", "llm", 1, 1))
    shape = files("shape.yaml", node("big", 4))
    assert answer(capsys, 0, "--from", cluster, "-f", llm, "--add-nodes", "n1=1")["final"] == {"rag/llm-0": "n1-new-1"}
    assert answer(capsys, 0, "--from", cluster, "-f", llm, "--add-nodes", f"{shape}=1")["final"] == {"rag/llm-0": "big-new-1"}
    assert answer(capsys, 0, "--from", cluster, "-f", llm, "--without", "old-old-0")["final"] == {"rag/llm-0": "n1"}
    assert answer(capsys, 0, "--from", cluster, "-f", llm, "--scale", "deployment/old=0")["final"] == {"rag/llm-0": "n1"}


def test_only_one_namespace_is_shown(files: Any, capsys: Capture) -> None:
    other = workload("Deployment", "far", 1, 9)
    other["metadata"]["namespace"] = "other"
    everything = files("all.yaml", node("n1", 1), workload("Deployment", "llm", 1, 1), other)
    assert answer(capsys, 1, "-f", everything)["unplaced"] == ["other/far-0"]
    assert answer(capsys, 0, "-f", everything, "-n", "rag")["final"] == {"rag/llm-0": "n1"}


def test_a_seed_repeats(files: Any, capsys: Capture) -> None:
    everything = files("all.yaml", *(node(f"n{i}", 1) for i in range(9)), workload("Deployment", "llm", 4, 1))
    first = answer(capsys, 0, "-f", everything, "--ties", "7")
    assert first == answer(capsys, 0, "-f", everything, "--ties", "7")
    assert first["final"] != answer(capsys, 0, "-f", everything)["final"]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--from", "/nowhere"),
        ("-f", "/nowhere"),
        ("-f", "ALL", "--ties", "perhaps"),
        ("-f", "ALL", "--scale", "deployment/llm"),
        ("-f", "ALL", "--policy", "ALL"),
        ("-f", "ALL", "--kubelet", "ALL"),
        ("-f", "ALL", "--drain", "n9"),
        ("-f", "ALL", "--add-nodes", "n9=1"),
        ("-f", "ALL", "--release", "old"),
        ("-f", "-", "--from", "-"),
    ],
)
def test_wrong_use_is_2_and_one_message(arguments: tuple[str, ...], files: Any, capsys: Capture) -> None:
    everything = files("all.yaml", node("n1", 1), workload("Deployment", "llm", 1, 1))
    assert run(["simulate", *(everything if word == "ALL" else word for word in arguments)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Traceback" not in shown.err
    assert shown.err.strip()


EXAMPLES = ROOT / "examples"


def test_a_service_is_planned_and_placed(capsys: Capture) -> None:
    folder = EXAMPLES / "mixed-t4-a100"
    found = answer(capsys, 0, "-f", str(folder / "service.yaml"), "--from", str(folder / "cluster"))
    assert found["unplaced"] == []
    shown = text(capsys, 0, "-f", str(folder / "service.yaml"), "--from", str(folder / "cluster"))
    assert "rules of the scheduler are taken from the release nearest to it" in shown


def test_a_plan_s_changes_of_nodes_are_done_first(tmp_path: Path, capsys: Capture) -> None:
    folder = EXAMPLES / "h100-operator"
    assert run(["plan", str(folder / "service.yaml"), "--from", str(folder / "cluster"), "-o", "json"]) == 0
    plan = tmp_path / "plan.json"
    plan.write_text(capsys.readouterr().out)
    found = answer(capsys, 0, "-f", str(plan), "--from", str(folder / "cluster"))
    assert any(text.startswith("the plan's changes of ") for text in found["assumptions"])
    placements = json.loads(plan.read_text())["placements"]
    assert len(found["final"]) == len(placements)
    assert sorted(found["final"].values()) == sorted(item["node"] for item in placements)


def test_a_service_that_does_not_fit_is_a_no(capsys: Capture) -> None:
    folder = EXAMPLES / "no-gpu"
    assert run(["simulate", "-f", str(folder / "service.yaml"), "--from", str(folder / "cluster")]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "does not fit" in shown.err


def test_nodes_of_the_files_may_be_changed_too(files: Any, capsys: Capture) -> None:
    everything = files("all.yaml", node("n1", 1), workload("Deployment", "llm", 2, 1))
    assert answer(capsys, 0, "-f", everything, "--add-nodes", "n1=1")["final"] == {"rag/llm-0": "n1", "rag/llm-1": "n1-new-1"}


def test_a_file_that_is_not_there_is_told_about_f(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "-f", "missing.yaml"]) == 2
    said = capsys.readouterr().err
    assert "missing.yaml: there is no such file or folder" in said
    assert "-f takes a manifest" in said


@pytest.mark.parametrize("example", ["h100-operator", "k3s-two-cards-dra"])
def test_a_rendered_folder_is_placed_on_the_nodes_that_its_plan_leaves(example: str, capsys: Capture, tmp_path: Path) -> None:
    """Whoever renders types the folder's name next; the folder's label file is no new node without a size."""
    place = ROOT / "examples" / example
    assert run(["render", str(place / "service.yaml"), "--from", str(place / "cluster"), "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    found = answer(capsys, 0, "-f", str(tmp_path / "out"), "--from", str(place / "cluster"))
    planned = json.loads((tmp_path / "out" / "plan.json").read_text(encoding="utf-8"))
    wanted = sorted(item["node"] for item in planned["placements"])
    assert sorted(item["node"] for item in found["pods"]) == wanted


def test_a_node_that_a_file_only_labels_keeps_its_size(capsys: Capture, files: Any) -> None:
    cluster = files("cluster.yaml", node("n1", 1), node("n2", 1))
    label = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2", "labels": {"pool": "rag"}}}
    pod = workload("Deployment", "llm", 1, 1, nodeSelector={"pool": "rag"})
    found = answer(capsys, 0, "-f", files("new.yaml", label, pod), "--from", cluster)
    assert [item["node"] for item in found["pods"]] == ["n2"]
