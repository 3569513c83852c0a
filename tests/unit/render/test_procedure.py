"""The procedure: right order for each kind of plugin, and nothing that STEPS.md does not say, or the other way round."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from ragstow import facts, kubeyaml
from ragstow.plan.model import PluginInstall
from ragstow.render import procedure, render
from ragstow.render.actions import (
    Action,
    ApplyObject,
    ByHand,
    Cordon,
    EvictGpuPods,
    HelmUpgrade,
    MergePatch,
    Procedure,
    RestartDaemonSet,
    RestartPluginPod,
    SetLabels,
    Uncordon,
    WaitMigState,
    WaitNodeOffers,
    WaitReady,
)
from render_plans import SCENARIOS, Scenario, mps_external, time_slicing_chart

FACTS = facts.load()
LABELS = re.compile(r"^kubectl label node (\S+) --overwrite (.+)$")


def made(scenario: Scenario) -> Procedure:
    return procedure(scenario.service, scenario.plan, FACTS)


def of_kind(found: Procedure, kind: type[Action]) -> list[Any]:
    return [action for action in found.actions if isinstance(action, kind)]


def section(scenario: Scenario, first: str, last: str) -> list[str]:
    """The lines of commands in STEPS.md between two headings."""
    files = {file.path: file.text for file in render(scenario.service, scenario.plan, FACTS).files}
    text = files["STEPS.md"]
    part = text[text.index(f"## {first}\n") :]
    part = part[: part.index(f"## {last}\n")]
    return [line for block in re.findall(r"```sh\n(.*?)```", part, re.S) for line in block.splitlines()]


def with_plugin(scenario: Scenario, **changes: Any) -> Scenario:
    cluster = scenario.plan.cluster
    plugin: PluginInstall = replace(cluster.plugin, **changes)
    return Scenario(scenario.service, replace(scenario.plan, cluster=replace(cluster, plugin=plugin)))


CHANGING = [name for name in SCENARIOS if name.startswith(("mig-", "mps-", "time-slicing-"))]


def as_text(items: Iterable[Any]) -> list[str]:
    return sorted(json.dumps(item, sort_keys=True) for item in items)


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_objects_are_those_that_are_rendered(name: str) -> None:
    scenario = SCENARIOS[name]()
    rendering = render(scenario.service, scenario.plan, FACTS)
    applied = [action.manifest for action in of_kind(made(scenario), ApplyObject)]
    assert as_text(applied) == as_text(rendering.objects)


@pytest.mark.parametrize("name", CHANGING)
def test_labels_and_restarts_are_those_of_the_page(name: str) -> None:
    scenario = SCENARIOS[name]()
    found, lines = made(scenario), section(scenario, "Nodes", "Workloads")
    said: dict[str, dict[str, str]] = {}
    for line in lines:
        if match := LABELS.match(line):
            said.setdefault(match[1], {}).update(dict(pair.split("=") for pair in match[2].split()))
    done: dict[str, dict[str, str]] = {}
    for action in of_kind(found, SetLabels):
        done.setdefault(action.node, {}).update(action.labels)
    assert said == done
    assert {line.split()[-1] for line in lines if line.startswith("kubectl cordon")} == {
        action.node for action in of_kind(found, Cordon)
    }
    restarted = {line.split("daemonset/")[1] for line in lines if "rollout restart" in line}
    acted = {action.name for action in of_kind(found, RestartDaemonSet)}
    acted |= {action.daemonset for action in of_kind(found, RestartPluginPod)}
    assert restarted == acted


@pytest.mark.parametrize("name", CHANGING)
def test_patches_are_those_of_the_page(name: str) -> None:
    scenario = SCENARIOS[name]()
    files = {file.path: file.text for file in render(scenario.service, scenario.plan, FACTS).files}
    said = []
    for line in section(scenario, "Nodes", "Workloads"):
        words = shlex.split(line, comments=True)
        if "--patch-file" in words:
            said.append(kubeyaml.load_all(files[words[words.index("--patch-file") + 1]])[0].value)
    assert [dict(action.patch) for action in of_kind(made(scenario), MergePatch)] == said


@pytest.mark.parametrize("name", CHANGING)
def test_nodes_are_closed_before_and_opened_after_and_the_pool_comes_last(name: str) -> None:
    found = made(SCENARIOS[name]())
    kinds = [type(action) for action in found.actions]
    nodes = found.actions[found.configuration : found.workloads]
    assert not {Cordon, EvictGpuPods, SetLabels} & set(kinds[: found.configuration])
    assert isinstance(nodes[0], Cordon)
    assert isinstance(nodes[1], EvictGpuPods)
    assert isinstance(nodes[-2], Uncordon)
    assert isinstance(nodes[-3], WaitNodeOffers)
    assert isinstance(nodes[-1], SetLabels)
    assert list(nodes[-1].labels) == ["ragstow.dev/pool"]
    assert {type(action) for action in found.actions[found.workloads :]} == {ApplyObject, WaitReady}


def test_mig_manager_waits_for_the_layout_it_was_labelled_with() -> None:
    found = made(SCENARIOS["mig-operator"]())
    (wait,) = of_kind(found, WaitMigState)
    label, _ = of_kind(found, SetLabels)
    assert label.labels["nvidia.com/mig.config"] == wait.layout
    assert found.actions.index(wait) == found.actions.index(label) + 1
    (offers,) = of_kind(found, WaitNodeOffers)
    assert offers.resources == {"nvidia.com/gpu": 7, "nvidia.com/mig-1g.10gb": 4, "nvidia.com/mig-3g.40gb": 1}


def test_pods_that_the_plan_disturbs_are_expected() -> None:
    (evict,) = of_kind(made(SCENARIOS["mig-operator-custom"]()), EvictGpuPods)
    assert evict.expected == ("research/notebook-0",)


def test_cutting_by_hand_is_said_before_anything_is_done() -> None:
    found = made(SCENARIOS["mig-by-hand"]())
    (hand,) = found.by_hand
    assert isinstance(hand, ByHand)
    assert any("-cgi" in command for command in hand.commands)
    assert hand.resources == {"nvidia.com/gpu": 7, "nvidia.com/mig-1g.10gb": 4, "nvidia.com/mig-3g.40gb": 1}
    kinds = [type(action) for action in found.actions]
    assert kinds.index(ByHand) + 1 == kinds.index(RestartPluginPod)


def test_chart_without_configurations_needs_helm_and_the_page_has_the_same_command() -> None:
    scenario = time_slicing_chart()
    (upgrade,) = of_kind(made(scenario), HelmUpgrade)
    assert upgrade.command in section(scenario, "Nodes", "Workloads")
    assert set(upgrade.data) == {"default", "notes-shared-2"}


def test_chart_that_has_its_config_map_needs_no_helm() -> None:
    scenario = with_plugin(
        time_slicing_chart(), config_map="nvdp-nvidia-device-plugin-configs", config_data={"team": "version: v1\n"}
    )
    found = made(scenario)
    assert not of_kind(found, HelmUpgrade)
    (patch,) = of_kind(found, MergePatch)
    assert (patch.namespace, patch.name) == ("nvidia-device-plugin", "nvdp-nvidia-device-plugin-configs")
    assert list(patch.patch["data"]) == ["notes-shared-2"]


def test_feature_discovery_is_restarted_with_the_plugin() -> None:
    assert [action.name for action in of_kind(made(mps_external()), RestartDaemonSet)] == [
        "nvdp-nvidia-device-plugin",
        "nvdp-nvidia-device-plugin-gpu-feature-discovery",
    ]


def test_neighbours_start_one_after_the_other() -> None:
    found = made(SCENARIOS["time-slicing-static"]())
    order = [
        (type(action).__name__, action.manifest["metadata"]["name"] if isinstance(action, ApplyObject) else action.name)
        for action in found.actions[found.workloads :]
        if isinstance(action, WaitReady) or (isinstance(action, ApplyObject) and action.manifest["kind"] == "Deployment")
    ]
    assert order == [
        ("ApplyObject", "notes-embedder"),
        ("ApplyObject", "notes-reranker"),
        ("WaitReady", "notes-embedder"),
        ("WaitReady", "notes-reranker"),
        ("ApplyObject", "notes-llm"),
        ("WaitReady", "notes-llm"),
    ]


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_every_wait_for_a_workload_comes_after_it_was_applied(name: str) -> None:
    there: set[tuple[str, str]] = set()
    found = made(SCENARIOS[name]())
    for action in found.actions[found.workloads :]:
        if isinstance(action, ApplyObject):
            there.add((action.manifest["kind"], action.manifest["metadata"]["name"]))
        else:
            assert isinstance(action, WaitReady)
            assert (action.kind, action.name) in there
    assert {key for key in there if key[0] in ("Deployment", "StatefulSet")} == {
        (action.kind, action.name) for action in found.actions[found.workloads :] if isinstance(action, WaitReady)
    }


def test_edited_objects_take_the_place_of_the_rendered_ones() -> None:
    scenario = SCENARIOS["time-slicing-static"]()
    rendered = made(scenario)
    objects = [action.manifest for action in rendered.actions[rendered.workloads :] if isinstance(action, ApplyObject)]
    assert procedure(scenario.service, scenario.plan, FACTS, objects=objects) == rendered
    llm = ("Deployment", "notes-llm")
    edited = [
        {**item, "spec": {**item["spec"], "replicas": 0}} if (item["kind"], item["metadata"]["name"]) == llm else item
        for item in objects
        if item["metadata"]["name"] != "notes-reranker"
    ]
    extra = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prompt", "namespace": "rag"}, "data": {"a": "b"}}
    found = procedure(scenario.service, scenario.plan, FACTS, objects=[*edited, extra])
    workloads = found.actions[found.workloads :]
    assert workloads[0] == ApplyObject(extra)
    assert all("reranker" not in action.title for action in workloads)
    last = workloads[-1]
    assert isinstance(last, WaitReady)
    assert (last.name, last.replicas) == ("notes-llm", 0)
