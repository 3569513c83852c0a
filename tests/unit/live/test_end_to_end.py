"""Bundled examples from plan to undo through the commands, on a real control plane with played kubelets and GPU programs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml

from apply_support import differences, state
from endpoint_servers import Behaviour, OpenAi, Tei, listening
from qdrant_server import Store, qdrant
from ragstow.cli.main import run
from rig.cluster import Rig, gpu_cluster
from rig.guests import COMPONENT
from support import ROOT

NAMESPACE = "rag"


@dataclass
class Story:
    """One example on its cluster, and what the commands say about it."""

    rig: Rig
    spec: Path
    file: Path
    capture: pytest.CaptureFixture[str]
    more: tuple[str, ...] = ()
    """Flags of plan and apply."""

    def asks(self, user: str, *words: str) -> tuple[int, dict[str, Any], str]:
        """Exit code, the document, and what was said on stderr."""
        self.capture.readouterr()
        code = run([*words, "-o", "json", *self.rig.arguments(user)])
        told = self.capture.readouterr()
        return code, json.loads(told.out) if told.out.startswith("{") else {}, told.err

    def plan(self) -> dict[str, Any]:
        """The plan for the cluster as it is."""
        code, found, told = self.asks("reader", "plan", str(self.spec), *self.more)
        assert code == 0, (told, found)
        self.file.write_text(json.dumps(found))
        self.rig.uses_as_planned(found)
        return found

    def apply(self, *words: str) -> dict[str, Any]:
        """Carry the plan out."""
        code, found, told = self.asks("applier", "apply", str(self.file), "--yes", *self.more, *words)
        assert code == 0, (told, found)
        self.rig.settle()
        return found

    def pods(self, component: str) -> list[dict[str, Any]]:
        """The pods of a component."""
        found = [pod for pod in self.rig.objects("pods") if (pod["metadata"].get("labels") or {}).get(COMPONENT) == component]
        return [pod for pod in found if pod["metadata"]["namespace"] == NAMESPACE]

    def device(self, component: str) -> tuple[str, int, int | None]:
        """Node, card and slice of the first pod of a component."""
        guest = self.rig.world.pods[f"{NAMESPACE}/{self.pods(component)[0]['metadata']['name']}"]
        for card in self.rig.world.nodes[guest.node].cards:
            if card.uuid == guest.devices[0]:
                return guest.node, card.index, None
            for number, item in enumerate(card.mig or ()):
                if item.uuid == guest.devices[0]:
                    return guest.node, card.index, number
        raise AssertionError(guest)

    def checks(self) -> list[dict[str, Any]]:
        """The checks of verify; its exit code is what they say."""
        code, found, told = self.asks("verifier", "verify", str(self.file))
        assert code == (0 if all(check["passed"] for check in found["checks"]) else 1), (told, found["unknown"])
        return list(found["checks"])

    def failed(self) -> set[str]:
        """Names of the checks that verify finds failed."""
        return {check["name"] for check in self.checks() if not check["passed"]}

    def causes(self) -> list[str]:
        """Causes that diagnose finds, first first."""
        _, found, told = self.asks("reader", "diagnose")
        assert told == ""
        return [finding["cause"] for finding in found["findings"]]

    def placed_as_planned(self, plan: dict[str, Any]) -> None:
        """Every pod is where the plan said, or could have been."""
        for component in plan["components"]:
            wanted = [item for item in plan["placements"] if item["component"] == component["name"]]
            nodes = [pod["spec"]["nodeName"] for pod in self.pods(component["name"])]
            assert len(nodes) == component["replicas"]
            for node in nodes:
                match = next((item for item in wanted if node in item["nodes"] or node == item["node"]), None)
                assert match is not None or not wanted, f"{component['name']} is on {node}, planned: {wanted}"
                if match is not None:
                    wanted.remove(match)


@contextmanager
def told(
    example: str, spec: str, folder: Path, capture: pytest.CaptureFixture[str], *, assumed: tuple[str, ...] = ()
) -> Iterator[Story]:
    """An example on its cluster; the servers of its components answer."""
    where = ROOT / "examples" / example
    with ExitStack() as stack:
        rig = stack.enter_context(gpu_cluster(where / "cluster", assumed=assumed))
        for component in yaml.safe_load((where / spec).read_text())["spec"]["components"]:
            port, handler = _server(component)
            rig.serves(component["name"], port, ("127.0.0.1", stack.enter_context(listening(handler))))
        flags = tuple(word for one in assumed for word in ("--assume", one))
        yield Story(rig, where / spec, folder / "plan.json", capture, flags)
        assert rig.programs.crash is None


def _server(component: dict[str, Any]) -> tuple[int, type[BaseHTTPRequestHandler]]:
    """The port of the component's pods, and what answers there."""
    if component["role"] == "vector-store":
        return 6333, qdrant(Store())
    kind, port = (OpenAi, 8000) if component["role"] == "llm" else (Tei, 8080)
    behaviour = Behaviour(model=component.get("model", ""), dimension=1024)
    return port, type("Handler", (kind,), {"behaviour": behaviour})


def _whole(story: Story) -> tuple[dict[str, Any], dict[str, Any]]:
    """Plan, apply, look; the state before and the plan."""
    before = state(story.rig.client)
    plan = story.plan()
    story.apply()
    story.placed_as_planned(plan)
    checks = story.checks()
    assert [check for check in checks if not check["passed"]] == []
    assert {check["name"] for check in checks} >= {"gpu-product", "gpu-memory-used", "gpu-driver", "rag-store", "rag-answer"}
    assert all(not layout["changes"] for layout in story.plan()["layouts"]), "nothing to do"
    return before, plan


def _undone(story: Story, before: dict[str, Any]) -> None:
    """Take everything back."""
    name = yaml.safe_load(story.spec.read_text())["metadata"]["name"]
    code, _, said = story.asks("applier", "apply", "--undo", "-n", NAMESPACE, name, "--yes", "--delete-claims")
    assert code == 0, said
    story.rig.settle()
    story.rig.wait("as before", lambda: not differences(before, state(story.rig.client)), 20)


def test_slices_under_the_operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with told("h100-operator", "service.yaml", tmp_path, capsys) as story:
        before, _ = _whole(story)

        node, card, slice_ = story.device("embedder")
        assert slice_ is not None
        story.rig.steal(node, card, 6000, slice_)
        assert story.failed() == {"gpu-memory-used"}
        story.rig.steal(node, card, 0, slice_)

        _, card, _ = story.device("llm")
        story.rig.card_dies(node, card)
        story.rig.wait("six cards", lambda: story.rig.node(node)["status"]["allocatable"]["nvidia.com/gpu"] == "6")
        assert story.failed() >= {"gpu-visible", "node-allocatable"}
        story.rig.card_dies(node, card, dead=False)
        story.rig.wait("seven cards", lambda: story.rig.node(node)["status"]["allocatable"]["nvidia.com/gpu"] == "7")

        applied = story.rig.node(node)["metadata"]["labels"]["nvidia.com/mig.config"]
        story.rig.patch_node(node, {"metadata": {"labels": {"nvidia.com/mig.config": "no-such-layout"}}})
        story.rig.wait("failed", lambda: story.rig.node(node)["metadata"]["labels"]["nvidia.com/mig.config.state"] == "failed")
        story.rig.settle()
        assert story.causes()[0] == "mig-config-invalid"
        story.rig.patch_node(node, {"metadata": {"labels": {"nvidia.com/mig.config": applied}}})
        story.rig.wait("cut", lambda: story.rig.node(node)["metadata"]["labels"]["nvidia.com/mig.config.state"] == "success")
        story.rig.settle()

        assert story.failed() == set()
        _undone(story, before)


def test_time_slicing_with_the_plain_chart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assumed = ("ragbox=NVIDIA-GeForce-RTX-3090:2",)
    with told("k3s-two-cards", "service-no-isolation.yaml", tmp_path, capsys, assumed=assumed) as story:
        story.plan()
        untouched = state(story.rig.client)
        code, _, _ = story.asks("applier", "apply", str(story.file), "--yes", *story.more)
        assert (code, differences(untouched, state(story.rig.client))) == (1, []), "without helm nothing is touched"
        folder, environment = story.rig.helm()
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        before, _ = _whole(story)
        assert story.rig.node("ragbox")["status"]["allocatable"]["nvidia.com/gpu.shared"] == "4"

        story.rig.steal("ragbox", 0, 9000)
        assert story.failed() == {"gpu-memory-used"}
        story.rig.steal("ragbox", 0, 0)

        now = story.rig.world.nodes["ragbox"].driver
        story.rig.driver("ragbox", now, libraries="570.86.10")
        assert story.failed() == {"gpu-visible"}
        story.rig.driver("ragbox", now)

        _undone(story, before)


def test_claims_of_the_dra_driver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with told("k3s-two-cards-dra", "service.yaml", tmp_path, capsys) as story:
        run(["plan", str(story.spec), *story.rig.arguments("reader")])
        shown = capsys.readouterr().out
        assert shown.startswith("notes on cluster reader: fits. 2 cards")
        assert f"ragstow apply plan.json --kubeconfig {story.rig.kubeconfig} --context reader --dry-run=server\n" in shown
        before, _ = _whole(story)
        assert story.device("embedder") == story.device("reranker") != story.device("llm")
        story.rig.steal("ragbox", story.device("reranker")[1], 9000)
        assert story.failed() == {"gpu-memory-used"}
        story.rig.steal("ragbox", story.device("reranker")[1], 0)
        _undone(story, before)


def test_whole_cards_and_a_taint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with told("mixed-t4-a100", "service.yaml", tmp_path, capsys) as story:
        before, _ = _whole(story)

        taint = {"key": "maintenance", "value": "true", "effect": "NoSchedule"}
        nodes = ("gpu-a100-1", "gpu-a100-2", "gpu-t4-1")
        kept = {name: story.rig.node(name)["spec"].get("taints") or [] for name in nodes}
        for name in nodes:
            story.rig.patch_node(name, {"spec": {"taints": [*kept[name], taint]}})
        pod = story.pods("reranker")[0]["metadata"]["name"]
        story.rig.plane.kubectl("delete", "pod", "-n", NAMESPACE, pod, "--now")
        story.rig.plane.kubectl(
            "wait", "pod", "-n", NAMESPACE, "-l", f"{COMPONENT}=reranker", "--for=condition=PodScheduled=false", "--timeout=30s"
        )
        assert story.causes()[0] == "missing-toleration"
        assert story.failed() != set()
        for name in nodes:
            story.rig.patch_node(name, {"spec": {"taints": kept[name]}})
        story.rig.settle()

        node, _, _ = story.device("llm")
        now = story.rig.world.nodes[node].driver
        story.rig.driver(node, "525.60.13")
        assert "gpu-driver" in story.failed()
        story.rig.driver(node, now)

        assert story.failed() == set()
        _undone(story, before)
