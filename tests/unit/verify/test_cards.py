"""`ragstow verify` of whole cards on a real control plane: green, and every failure by its name."""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from endpoint_servers import Behaviour, OpenAi, Tei, listening, serve
from qdrant_server import Store, qdrant
from ragstow.cli.main import run

PLUGIN = {"app.kubernetes.io/name": "nvidia-device-plugin"}


def device(cards: Any, component: str) -> tuple[str, str, int]:
    """A pod of a component, its node and the index of its card there."""
    pod = cards.pods(component)[0]
    node, name = pod["spec"]["nodeName"], pod["metadata"]["name"]
    uuid = cards.rig.world.pods[f"{pod['metadata']['namespace']}/{name}"].devices[0]
    index = next(card.index for card in cards.rig.world.nodes[node].cards if card.uuid == uuid)
    return name, node, index


def test_green_with_the_plan(cards: Any) -> None:
    code, found, told = cards.verify()
    assert (code, found["passed"]) == (0, True)
    assert "warning" not in told
    assert {"kind": found["kind"], "service": found["service"]} == {"kind": "Verification", "service": "support"}
    assert found["planDigest"] == cards.plan["digest"]
    names = {check["name"] for check in found["checks"]}
    assert {
        "component-replicas", "pod-ready", "pod-node", "gpu-visible", "gpu-product", "gpu-memory-total", "gpu-memory-used",
        "gpu-health", "gpu-driver", "gpu-neighbours", "node-ready", "node-devices", "node-allocatable", "node-labels",
        "node-sharing", "stack-pod", "stack-log",
    } <= names  # fmt: skip
    assert [check["name"] for check in found["checks"] if not check["evidence"]] == []
    assert {item["check"] for item in found["unknown"]} == {"gpu-cuda", "kubelet-log"}
    gpu_pods = [pod for name in ("llm", "embedder", "reranker") for pod in cards.pods(name)]
    assert len(found["memory"]) == len(gpu_pods)
    for row in found["memory"]:
        assert abs(row["measuredBytes"] - row["predictedBytes"]) < 4 << 20


def test_everything_with_endpoints_and_the_round_trip(cards: Any) -> None:
    with ExitStack() as stack:
        llm = stack.enter_context(serve(OpenAi, Behaviour(model="Qwen/Qwen2.5-7B-Instruct")))
        embedder = stack.enter_context(serve(Tei, Behaviour(model="BAAI/bge-m3", dimension=1024)))
        reranker = stack.enter_context(serve(Tei, Behaviour(model="BAAI/bge-reranker-v2-m3")))
        store = stack.enter_context(listening(qdrant(Store())))
        ports = {"llm": (8000, llm), "embedder": (8080, embedder), "reranker": (8080, reranker), "vectors": (6333, store)}
        for component, (port, local) in {**ports, "gateway": (8080, llm)}.items():
            cards.rig.serves(component, port, ("127.0.0.1", local))
        time.sleep(2)
        code, found, _ = cards.verify("--health", "gateway=/health", endpoints=True)
        assert [(check["name"], check["found"]) for check in found["checks"] if not check["passed"]] == []
        assert [(item["check"], item["missing"]) for item in found["unknown"] if item["needed"]] == []
        assert (code, found["passed"]) == (0, True)
        names = {check["name"] for check in found["checks"]}
        assert {"endpoint-health", "endpoint-chat", "embedding-dimension", "service-backends", "rag-answer"} <= names


def test_driver_says_what_it_was_compared_with(cards: Any) -> None:
    _, found, _ = cards.verify()
    check = next(check for check in found["checks"] if check["name"] == "gpu-driver")
    assert "NVIDIA device plugin nvidia-device-plugin/" in check["expected"]
    assert "label of node" in check["expected"]


def test_without_a_plan_the_record_of_the_apply_is_taken(cards: Any) -> None:
    for target in ("", "support", "rag/support"):
        code, found, _ = cards.verify(target=target)
        assert (code, found["basis"]) == (0, "the plan of record rag/ragstow.support.1")
        assert found["planDigest"] == cards.plan["digest"]


def test_the_newest_record_counts_and_one_without_a_plan_leaves_labels(cards: Any) -> None:
    with record(cards, 12, {}):
        code, found, _ = cards.verify(target="support")
        assert code == 0
        assert found["basis"].startswith("labels only, with fewer checks (the record rag/ragstow.support.12 holds no plan")
        assert found["planDigest"] is None
        names = {check["name"] for check in found["checks"]}
        assert {"gpu-visible", "gpu-product", "gpu-driver", "gpu-memory-total"} <= names
        assert not names & {"gpu-memory-used", "node-allocatable", "pod-node"}
    for broken in ("no base64", base64.b64encode(b"no gzip").decode(), base64.b64encode(gzip.compress(b"[]")).decode()):
        with record(cards, 13, {"plan": broken} if broken != "no base64" else {"plan": base64.b64encode(b"\0").decode()}):
            code, found, _ = cards.verify(target="support")
            assert (code, found["basis"][:11]) == (0, "labels only")


@contextmanager
def record(cards: Any, number: int, binary: dict[str, str]) -> Iterator[None]:
    name = f"ragstow.support.{number}"
    meta = {"name": name, "namespace": "rag", "labels": {"ragstow.dev/service": "support"}}
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "binaryData": binary}
    cards.rig.plane.kubectl("create", "-f", "-", stdin=json.dumps(item))
    yield
    cards.rig.plane.kubectl("delete", "configmap", "-n", "rag", name)


def test_a_rendered_folder(cards: Any, tmp_path: Any) -> None:
    out = tmp_path / "out"
    assert run(["render", str(cards.file), "--out", str(out)]) == 0
    code, found, _ = cards.verify(target=str(out))
    assert (code, found["basis"]) == (0, f"the plan in {out}")
    (out / "plan.json").unlink()
    code, found, _ = cards.verify(target=str(out))
    assert (code, found["basis"]) == (0, "the plan of record rag/ragstow.support.1")


def test_wrong_names_and_files(cards: Any, tmp_path: Any) -> None:
    assert cards.verify(target="other")[0] == 2
    assert "rag/support" in cards.verify(target="other")[2]
    assert "no such file" in cards.verify(target="gone.json")[2]
    text = tmp_path / "service.yaml"
    text.write_text("kind: RagService\n")
    code, _, told = cards.verify(target=str(text))
    assert (code, "this is no plan" in told) == (2, True)
    assert cards.verify("-n", "default")[0] == 2
    code, found, _ = cards.verify(target="default/gone")
    assert code == 1
    assert [check["found"] for check in found["checks"]] == ["none"]


def test_rights(cards: Any) -> None:
    code, found, _ = cards.verify(user="reader")
    assert (code, found["passed"]) == (3, False)
    assert all(check["passed"] for check in found["checks"])
    needed = [item for item in found["unknown"] if item["needed"]]
    assert {item["check"] for item in needed} == {"gpu-visible"}
    assert len(needed) == len(found["memory"]) + 5
    for item in needed:
        assert item["forbidden"]
        assert 'resources ["pods/exec"], verbs ["create"]' in item["missing"]
        assert item["command"] == "ragstow rbac verify | kubectl apply -f -"
    code, found, told = cards.verify(user="nobody")
    assert (code, found) == (3, {})
    assert 'resources ["nodes", "pods"], verbs ["list"]' in told


def test_stolen_memory(cards: Any) -> None:
    name, node, index = device(cards, "embedder")
    cards.rig.steal(node, index, 3000)
    try:
        assert cards.failed() == {"gpu-memory-used": [name]}
        _, found, _ = cards.verify()
        (check,) = [check for check in found["checks"] if not check["passed"]]
        assert check["found"].startswith("4.7 GiB used")
        assert "more than planned" in check["hint"]
    finally:
        cards.rig.steal(node, index, 0)


def test_another_driver_than_the_label_says(cards: Any) -> None:
    _, node, _ = device(cards, "llm")
    before = cards.rig.world.nodes[node].driver
    cards.rig.driver(node, "570.86.10")
    try:
        on_node = sorted(
            pod["metadata"]["name"]
            for component in ("llm", "embedder", "reranker")
            for pod in cards.pods(component)
            if pod["spec"]["nodeName"] == node
        )
        assert cards.failed() == {"gpu-driver": on_node}
        cards.rig.driver(node, before, libraries="570.86.10")
        code, found, _ = cards.verify()
        bad = [check for check in found["checks"] if not check["passed"]]
        assert (code, {check["name"] for check in bad}) == (1, {"gpu-visible"})
        assert sorted(check["object"]["name"] for check in bad) == on_node
        assert all("Driver/library version mismatch" in check["found"] for check in bad)
    finally:
        cards.rig.driver(node, before)


def test_another_card(cards: Any) -> None:
    name, node, index = device(cards, "reranker")
    with cards.rig.world.changed() as world:
        card = world.card(node, index)
        before = card.name, card.total_mib
        card.name, card.total_mib = "Tesla T4", 15360
    try:
        assert cards.failed() == {"gpu-product": [name], "gpu-memory-total": [name]}
    finally:
        with cards.rig.world.changed() as world:
            card = world.card(node, index)
            card.name, card.total_mib = before


def test_a_dead_card(cards: Any) -> None:
    name, node, index = device(cards, "embedder")
    cards.rig.card_dies(node, index)
    try:
        cards.rig.wait("less", lambda: int(cards.rig.node(node)["status"]["allocatable"]["nvidia.com/gpu"]) == 3)
        found = cards.failed()
        assert found["gpu-visible"] == [name]
        assert found["node-allocatable"] == [node]
    finally:
        cards.rig.card_dies(node, index, dead=False)
        cards.rig.wait("all", lambda: int(cards.rig.node(node)["status"]["allocatable"]["nvidia.com/gpu"]) == 4)


def test_a_driver_that_hangs_in_one_pod_hides_no_other(cards: Any) -> None:
    name = cards.pods("llm")[0]["metadata"]["name"]
    with instead(cards, f"rag/{name}", "exec sleep 20"):
        begin = time.monotonic()
        code, found, _ = cards.verify("--exec-timeout", "2", "--no-logs")
        assert time.monotonic() - begin < 12
        bad = [check for check in found["checks"] if not check["passed"]]
        assert (code, [(check["name"], check["object"]["name"]) for check in bad]) == (1, [("gpu-visible", name)])
        assert "did not end within 2 s" in bad[0]["found"]
        assert sum(check["name"] == "gpu-visible" for check in found["checks"]) == 5


def test_a_pod_without_nvidia_smi_is_unknown_and_needed(cards: Any) -> None:
    name = cards.pods("llm")[0]["metadata"]["name"]
    with instead(cards, f"rag/{name}", 'echo "sh: 1: nvidia-smi: not found" >&2; exit 127'):
        code, found, _ = cards.verify("--no-logs")
        assert (code, found["passed"]) == (1, False)
        assert all(check["passed"] for check in found["checks"])
        (item,) = [item for item in found["unknown"] if item["needed"]]
        assert (item["check"], item["object"]["name"]) == ("gpu-visible", name)
        assert "NVIDIA_DRIVER_CAPABILITIES" in item["missing"]


@contextmanager
def instead(cards: Any, pod: str, what: str) -> Iterator[None]:
    """nvidia-smi does something else in one pod."""
    program = cards.rig.plane.data / "bin" / "nvidia-smi"
    before = program.read_text()
    lines = before.splitlines()
    program.write_text("\n".join([lines[0], f'if [ "$RAG_RIG_POD" = {pod} ]; then {what}; fi', *lines[1:], ""]))
    try:
        yield
    finally:
        program.write_text(before)


def test_the_plugin_crashes_and_says_why(cards: Any) -> None:
    name = cards.rig.trouble("crash", PLUGIN)
    line = "XidCriticalError: Xid=79 on Device=GPU-1; marking device as unhealthy."
    cards.rig.says(PLUGIN, line, previous=line)
    try:
        cards.rig.wait("crashing", lambda: "CrashLoopBackOff" in str(cards.verify("--no-logs")[1]["checks"]))
        code, found, _ = cards.verify()
        bad = [check for check in found["checks"] if not check["passed"] and check["name"].startswith("stack")]
        assert code == 1
        assert any("CrashLoopBackOff" in check["found"] for check in bad if check["name"] == "stack-pod")
        logs = [check for check in bad if check["name"] == "stack-log"]
        assert logs
        assert all("gpu-unhealthy" in check["found"] for check in logs)
        assert line in logs[0]["evidence"][0]["value"]
        assert any("--previous" in check["evidence"][0]["source"] for check in logs)
    finally:
        cards.rig.relief(name)
        cards.rig.guests.said.clear()


def test_reports_in_every_format(cards: Any, tmp_path: Any, capsys: Any) -> None:
    import xml.etree.ElementTree as ElementTree

    out = tmp_path / "report"
    code = run(["verify", str(cards.file), "--no-endpoints", "--no-logs", "--out", str(out), *cards.rig.arguments("verifier")])
    told = capsys.readouterr()
    assert told.out.splitlines()[0].startswith("rag/support on context verifier")
    files = sorted(path.name for path in out.iterdir() if not path.name.startswith("."))
    assert files == ["verification.html", "verification.json", "verification.txt", "verification.xml"]
    document = json.loads((out / "verification.json").read_text())
    assert (code == 0) == document["passed"]
    suites = ElementTree.fromstring((out / "verification.xml").read_text())
    assert int(suites.get("tests") or 0) == len(document["checks"]) + len(document["unknown"])
    common = ["verify", str(cards.file), "--no-endpoints", "--no-logs", *cards.rig.arguments("verifier")]
    for form, begin in (
        ("yaml", "apiVersion: ragstow.dev/v1alpha1\nkind: Verification"),
        ("junit", "<?xml"),
        ("html", "<!DOCTYPE"),
    ):
        assert run([*common, "-o", form]) == code
        assert capsys.readouterr().out.startswith(begin)
    page = (out / "verification.html").read_text()
    assert cards.plan["digest"] in page
    assert "<script" not in page


def test_a_kubelet_that_cannot_be_reached_is_unknown(cards: Any) -> None:
    """An API server proxies to no loopback address, where the simulated kubelets are."""
    _, found, _ = cards.verify(user="admin")
    missing = [item for item in found["unknown"] if item["check"] == "kubelet-log"]
    assert {item["missing"] for item in missing} == {"get nodes/proxy: address not allowed"}
    assert not any(item["needed"] for item in missing)
