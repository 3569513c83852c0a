"""The cap test: what its pod is, what its probe does against a driver, and what is made of its answer.

No hardware: the driver's library is played, so that only the probe's steps and the reading of its answer are tested.
"""

from __future__ import annotations

import ctypes
import io
import json
import sys
from typing import Any

import pytest

from makers import pod
from ragstow import facts as known
from ragstow.cluster.build import build
from ragstow.verification import captest
from ragstow.verification.captest import PROBE, CapTest, Ended, cap_tests, judge
from ragstow.verification.targets import Expected, Target

FACTS = known.load()
GIB, MIB = 2**30, 2**20
VLLM = "docker.io/vllm/vllm-openai:v0.33.0"


def target(component: str, engine: str = "tei", image: str = "i", **expected: Any) -> Target:
    labels = {"ragstow.dev/component": component, "app.kubernetes.io/name": engine}
    raw = pod(f"{component}-0", "n1", {"nvidia.com/gpu": 1}, labels=labels)
    raw["spec"]["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    raw["spec"]["runtimeClassName"] = "nvidia"
    raw["spec"]["containers"][0]["image"] = image
    (made,) = build([raw]).pods
    return Target(made, component, made.containers[0], "nvidia.com/gpu.shared", Expected(**{"count": 1, **expected}))


MPS: dict[str, Any] = {"mode": "mps", "sharers": 4, "total_mib": (23028, 23028)}
MIG: dict[str, Any] = {"mode": "mig", "profile": "1g.10gb", "total_mib": (9984, 9984)}


class Driver:
    """A driver that gives `free` bytes and then says no."""

    def __init__(self, free: int, fails: str = "") -> None:
        self.free = self.total = free
        self.fails = fails

    def __getattr__(self, name: str) -> Any:
        if name == self.fails:
            return lambda *_: 100
        return lambda *_: 0

    def cuGetErrorName(self, code: int, text: Any) -> int:  # noqa: N802 - the driver's name
        text._obj.value = {2: b"CUDA_ERROR_OUT_OF_MEMORY", 100: b"CUDA_ERROR_NO_DEVICE"}[code]
        return 0

    def cuMemAlloc_v2(self, _: Any, size: Any) -> int:  # noqa: N802
        if size.value > self.free:
            return 2
        self.free -= size.value
        return 0


def probe(driver: Driver | None, cap: int, monkeypatch: pytest.MonkeyPatch) -> str:
    def load(name: str) -> Driver:
        assert name == "libcuda.so.1"
        if driver is None:
            raise OSError("libcuda.so.1: cannot open shared object file")
        return driver

    said = io.StringIO()
    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.setattr(sys, "argv", ["-c", str(cap)])
    monkeypatch.setattr(sys, "stdout", said)
    with pytest.raises(SystemExit):
        exec(compile(PROBE, "probe", "exec"), {})
    return said.getvalue()


def ended(log: str, mode: str = "mps", cap: int = 4 * GIB, **more: Any) -> Ended:
    manifest = {"metadata": {"name": "ragstow-cap-a-1", "namespace": "rag"}}
    return Ended(CapTest("a", mode, manifest, cap), "kubectl logs -n rag ragstow-cap-a-1", log, **more)


@pytest.mark.parametrize(
    ("free", "passed", "words"),
    [
        (4 * GIB - 300 * MIB, True, "stopped at 3.69 GiB (CUDA_ERROR_OUT_OF_MEMORY)"),
        (20 * GIB, False, "took 4.25 GiB and was not stopped"),
        (4 * GIB + 100 * MIB, False, "stopped at 4.06 GiB (CUDA_ERROR_OUT_OF_MEMORY)"),
        (1 * GIB, False, "stopped at 1.00 GiB (CUDA_ERROR_OUT_OF_MEMORY)"),
    ],
)
def test_the_probe_and_what_is_made_of_it(free: int, passed: bool, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = probe(Driver(free), 4 * GIB, monkeypatch)
    monkeypatch.undo()
    (check,) = judge([ended(f"some noise\n{log}")]).checks
    assert (check.passed, check.found) == (passed, words)
    assert check.expected == "the MPS server stops it at 4.00 GiB"
    assert bool(check.hint) is not passed


def test_the_probe_takes_little_more_than_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    said = json.loads(probe(Driver(80 * GIB), 20 * GIB, monkeypatch).partition(" ")[2])
    assert said["allocated"] <= 21 * GIB + 64 * MIB
    small = json.loads(probe(Driver(80 * GIB), GIB, monkeypatch).partition(" ")[2])
    assert small["allocated"] <= GIB + 192 * MIB


@pytest.mark.parametrize(
    ("driver", "words"),
    [(None, "cannot open shared object file"), (Driver(GIB, fails="cuInit"), "cuInit: CUDA_ERROR_NO_DEVICE")],
)
def test_a_probe_without_a_gpu_is_unknown(driver: Driver | None, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = probe(driver, GIB, monkeypatch)
    monkeypatch.undo()
    outcome = judge([ended(log)])
    assert outcome.checks == ()
    assert words in outcome.unknown[0].missing
    assert not outcome.unknown[0].needed


@pytest.mark.parametrize("log", ["", "ragstow-cap-test {broken", "ragstow-cap-test []", "Traceback ...", "ragstow-cap-test {}"])
def test_an_answer_that_is_none_is_unknown(log: str) -> None:
    assert judge([ended(log)]).unknown[0].missing == "the probe gave no answer"
    assert judge([ended(log, missing="no slot")]).unknown[0].missing == "no slot"


def test_caps_by_mode() -> None:
    rows = [
        target("llm", "vllm", VLLM, mode="exclusive"),
        target("a", **MPS),
        target("b", **MIG),
        target("c", mode="time-slicing", sharers=4),
        target("d", mode="dra"),
    ]
    tests, said = cap_tests(rows, "support", FACTS, "abc123")
    assert [(test.component, test.cap_bytes // MIB) for test in tests] == [("a", 5757), ("b", 9984)]
    assert any("c: nothing caps GPU memory under time-slicing" in text for text in said.remarks)
    assert any("llm: has whole cards" in text for text in said.remarks)
    assert [(item.component, item.check) for item in said.unknown] == [("d", "gpu-cap")]


def test_the_pod_is_bounded_and_looks_like_its_component() -> None:
    ((test,), _) = cap_tests([target("llm", "vllm", VLLM, **MIG)], "support", FACTS, "abc123")
    manifest = test.manifest
    assert manifest["metadata"] == {
        "name": "ragstow-cap-llm-abc123",
        "namespace": "rag",
        "labels": {"app.kubernetes.io/managed-by": "ragstow", "ragstow.dev/cap-test": "support"},
    }
    spec = manifest["spec"]
    assert (spec["restartPolicy"], spec["activeDeadlineSeconds"]) == ("Never", 300)
    assert spec["nodeSelector"] == {"kubernetes.io/hostname": "n1"}
    assert (spec["runtimeClassName"], spec["tolerations"]) == ("nvidia", [{"key": "nvidia.com/gpu", "operator": "Exists"}])
    (container,) = spec["containers"]
    assert container["image"] == VLLM
    assert container["command"] == ["python3", "-c"]
    assert container["args"] == [PROBE, str(9984 * MIB)]
    assert container["resources"]["limits"]["nvidia.com/gpu.shared"] == 1


def test_an_image_with_an_interpreter_is_found_or_asked_for() -> None:
    tests, said = cap_tests([target("a", **MIG)], "support", FACTS, "x")
    assert tests == ()
    assert "--cap-image" in said.unknown[0].missing
    ((test,), _) = cap_tests([target("a", **MIG)], "support", FACTS, "x", image="python:3")
    assert test.manifest["spec"]["containers"][0]["image"] == "python:3"
    ((test,), _) = cap_tests([target("a", **MIG), target("llm", "vllm", VLLM, mode="exclusive")], "support", FACTS, "x")
    assert test.manifest["spec"]["containers"][0]["image"] == VLLM


def test_names_stay_short() -> None:
    ((test,), _) = cap_tests([target("x" * 60, "vllm", VLLM, **MIG)], "support", FACTS, "abc123")
    assert len(test.ref.name) <= 63
    assert captest.answered("a\nragstow-cap-test {}")
