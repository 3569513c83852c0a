"""`diagnose` on a live cluster: logs and nvidia-smi of the pods in question, and what changes while it watches."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from ragstow.cli.main import run
from rig.cluster import Rig, gpu_cluster
from support import ENVIRONMENT, ROOT

NODE = "gpu-h100-1"
SCHEMAS = ROOT / "src" / "ragstow" / "schemas"
_FINDINGS, _CHANGE = (json.loads((SCHEMAS / f"{name}.schema.json").read_text()) for name in ("findings", "findingchange"))
VALIDATOR = Draft202012Validator(
    _CHANGE, registry=Registry().with_resources([(item["$id"], Resource.from_contents(item)) for item in (_FINDINGS, _CHANGE)])
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.19 GiB"


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with gpu_cluster(ROOT / "examples" / "h100-operator" / "cluster") as made:
        spec = {"containers": [{"name": "engine", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
        for name in ("llm", "other"):
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}
            made.plane.kubectl("create", "-f", "-", stdin=json.dumps(pod))
        made.settle()
        yield made


def asks(rig: Rig, user: str, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[dict[str, Any], str]:
    capsys.readouterr()
    run(["diagnose", *words, "-o", "json", *rig.arguments(user)])
    told = capsys.readouterr()
    return json.loads(told.out), told.err


def causes(found: dict[str, Any]) -> list[str]:
    return [item["cause"] for item in found["findings"]]


def test_logs_and_nvidia_smi_of_who_is_not_well(rig: Rig, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    assert causes(asks(rig, "verifier", capsys)[0]) == []
    name = rig.trouble("crash", {"app": "llm"})
    rig.says({"app": "llm"}, "starting", previous=OOM)
    waiting = "{.status.containerStatuses[0].state.waiting.reason}"
    rig.plane.kubectl("wait", "pod/llm", f"--for=jsonpath={waiting}=CrashLoopBackOff", "--timeout=30s")
    found, told = asks(rig, "reader", capsys)
    assert causes(found)[0] == "gpu-memory-insufficient"
    evidence = found["findings"][0]["evidence"]
    assert "logs/default/llm/engine.previous.log" in {item["file"] for item in evidence}
    assert told == ""
    without, _ = asks(rig, "reader", capsys, "--no-probes")
    assert "gpu-memory-insufficient" not in causes(without)
    assert run(["capture", "--out", str(tmp_path / "c"), "--logs", *rig.arguments("reader")]) == 0
    capsys.readouterr()
    run(["diagnose", "--from", str(tmp_path / "c"), "-o", "json"])
    saved = json.loads(capsys.readouterr().out)
    live, _ = asks(rig, "reader", capsys)
    assert (causes(saved), saved["unknown"]) == (causes(live), live["unknown"])
    rig.relief(name)
    rig.plane.kubectl("delete", "pod", "llm", "--now")


def test_nvidia_smi_runs_where_it_may_and_is_missed_where_not(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    now = rig.world.nodes[NODE].driver
    rig.driver(NODE, now, libraries="570.86.10")
    try:
        found, told = asks(rig, "verifier", capsys, "other")
        assert causes(found)[0] == "driver-library-mismatch"
        assert told == ""
        # A healthy pod is asked only where a person names it.
        assert causes(asks(rig, "verifier", capsys)[0]) == []
        found, _ = asks(rig, "reader", capsys, "other")
        assert causes(found) == []
        (missing,) = [item for item in found["unknown"] if item["rule"] == "nvidia-smi"]
        assert 'resources ["pods/exec"], verbs ["create"]' in missing["missing"]
        assert missing["command"] == "kubectl exec -n default other -- nvidia-smi"
        assert missing["objects"] == [{"kind": "Pod", "namespace": "default", "name": "other"}]
    finally:
        rig.driver(NODE, now)


class Watching:
    """A `diagnose -w` of its own process, its lines as they come."""

    def __init__(self, rig: Rig, *words: str) -> None:
        command = [sys.executable, "-m", "ragstow", "diagnose", "-w", *words, *rig.arguments("reader")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def until(self, word: str, seconds: float = 45) -> str:
        """The next line with this word."""
        while True:
            line = self._lines.get(timeout=seconds)
            if word in line:
                return line

    def end(self) -> tuple[int, str]:
        """Ctrl-C; exit code and stderr."""
        self.process.send_signal(signal.SIGINT)
        _, told = self.process.communicate(timeout=20)
        return self.process.returncode, told


def test_watching_tells_what_comes_and_goes_also_over_a_restart(rig: Rig) -> None:
    text, documents = Watching(rig), Watching(rig, "-o", "json")
    try:
        text.until("watching since")
        rig.programs.plugin_dead.add(NODE)
        line = text.until("+ ")
        new = json.loads(documents.until("FindingChange"))
        assert new["kind"] == "FindingChange"
        assert new["change"] == "new"
        assert new["finding"]["cause"] in line
        rig.plane.restart("kube-apiserver")
        rig.programs.plugin_dead.clear()
        assert new["finding"]["cause"] in text.until("- ")
        gone = json.loads(documents.until('"gone"'))
        assert gone["finding"]["cause"] == new["finding"]["cause"]
        assert gone["time"] > new["time"]
        for document in (new, gone):
            VALIDATOR.validate(document)
    finally:
        ended = text.end(), documents.end()
    assert [code for code, _ in ended] == [130, 130]
    assert all("Traceback" not in told for _, told in ended)


def test_watching_tells_of_a_pod_that_waits_and_no_rule_explains(rig: Rig) -> None:
    text = Watching(rig)
    try:
        text.until("watching since")
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "odd", "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "c", "resources": {"limits": {"example.com/odd": "1"}}}]},
        }
        rig.plane.kubectl("create", "-f", "-", stdin=json.dumps(pod))
        assert "default/odd" in text.until("? open")
        rig.plane.kubectl("delete", "pod", "odd", "--now")
        assert "Pod default/odd" in text.until("- open")
    finally:
        code, told = text.end()
    assert (code, "Traceback" in told) == (130, False)


def test_watching_a_saved_cluster_or_in_a_format_without_changes_is_refused(rig: Rig) -> None:
    assert run(["diagnose", "-w", "--from", str(ROOT / "examples" / "no-gpu" / "cluster")]) == 2
    assert run(["diagnose", "-w", "-o", "sarif", *rig.arguments("reader")]) == 2
