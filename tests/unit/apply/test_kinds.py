"""Every way in which a device plugin can be installed: configured, waited for, and put back as it was."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apply_support import client_of, create, daemonset, left_over, node, state, workload
from controlplane_build import folder
from controlplane_support import ControlPlane
from ragstow import facts
from ragstow.live import apply
from ragstow.live.apply import ApplyStopped, Options
from ragstow.live.client import ApiClient
from ragstow.render import Procedure, procedure
from ragstow.render.actions import ApplyObject, HelmUpgrade
from render_plans import SCENARIOS, Scenario
from stack_player import Shape, Stack, playing

FACTS = facts.load()
LABEL = "nvidia.com/device-plugin.config"
CHART = "nvidia-device-plugin"
PLUGIN = "nvdp-nvidia-device-plugin"
KEY = "notes-shared-2"


@pytest.fixture(scope="module")
def notes(plane: ControlPlane) -> ControlPlane:
    """What the service `notes` needs of a cluster: a node with two cards, volumes, a RuntimeClass, plugins of all kinds."""
    for name in ("rag", CHART):
        plane.kubectl("create", "namespace", name)
    storage = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local-path"}}
    volumes = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"volume-{number}"},
            "spec": {
                "capacity": {"storage": "100Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local-path",
                "hostPath": {"path": "/tmp"}, "persistentVolumeReclaimPolicy": "Retain",
            },
        }
        for number in range(12)
    ]  # fmt: skip
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"default": "version: v1\n"}}
    create(
        plane,
        {**storage, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "Immediate"},
        *volumes,
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"},
        node("ragbox", {"nvidia.com/gpu": 2}, {"nvidia.com/gpu.present": "true"}),
        daemonset("kube-system", "nvidia-device-plugin-daemonset", "nvidia-device-plugin-ctr"),
        daemonset(CHART, PLUGIN, "nvidia-device-plugin-ctr"),
        daemonset(CHART, f"{PLUGIN}-gpu-feature-discovery", "gpu-feature-discovery-ctr"),
        daemonset("gpu-operator", "gpu-feature-discovery", "gpu-feature-discovery"),
        {**config, "metadata": {"name": f"{PLUGIN}-configs", "namespace": CHART}},
        {**config, "metadata": {"name": "sharing", "namespace": CHART}},
        {**config, "metadata": {"name": "sharing", "namespace": "gpu-operator"}},
    )
    for namespace in (CHART, "kube-system", "gpu-operator"):
        for name in json.loads(plane.kubectl("-n", namespace, "get", "daemonsets", "-o", "json"))["items"]:
            plane.kubectl("-n", namespace, "rollout", "status", f"daemonset/{name['metadata']['name']}", "--timeout=60s")
    return plane


@pytest.fixture
def played(notes: ControlPlane) -> Iterator[Stack]:
    """The stack of that cluster."""
    admin = client_of(notes.kubeconfig, "admin")
    shared = Shape({"nvidia.com/gpu.shared": 8})
    found = {("ragbox", LABEL, KEY): shared, ("ragbox", LABEL, None): Shape({"nvidia.com/gpu": 2})}
    with playing(Stack(admin, found)) as stack:
        yield stack
    admin.close()


def with_plugin(scenario: Scenario, **changes: Any) -> Scenario:
    cluster = scenario.plan.cluster
    layouts = tuple(replace(layout, resources_after={"nvidia.com/gpu.shared": 8}) for layout in scenario.plan.layouts)
    plan = replace(scenario.plan, layouts=layouts, cluster=replace(cluster, plugin=replace(cluster.plugin, **changes)))
    return Scenario(scenario.service, plan)


def made(name: str, *, workloads: bool = True, **changes: Any) -> Procedure:
    scenario = with_plugin(SCENARIOS[name](), **changes)
    return procedure(scenario.service, scenario.plan, FACTS, objects=None if workloads else ())


def chart() -> Procedure:
    return made("time-slicing-chart", config_map=f"{PLUGIN}-configs", config_data={"default": "version: v1\n"})


KINDS: dict[str, Callable[[], Procedure]] = {
    "chart with its ConfigMap": chart,
    "chart with an external ConfigMap": lambda: made("mps-external", workloads=False),
    "static manifest": lambda: made("time-slicing-static"),
    "operator without a ConfigMap": lambda: made("time-slicing-operator"),
    "operator with a ConfigMap": lambda: made("time-slicing-operator-added"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_applied_and_taken_back(kind: str, notes: ControlPlane, admin: ApiClient, applier: ApiClient, played: Stack) -> None:
    was = state(admin)
    found = KINDS[kind]()
    assert apply.run(applier, found).state == "applied"
    now = state(admin)
    assert now["nodes /ragbox"]["offers"] == {"nvidia.com/gpu.shared": "8"}
    assert now["nodes /ragbox"]["labels"]["ragstow.dev/pool"] == "notes"
    assert now["nodes /ragbox"]["spec"]["unschedulable"] is False
    assert apply.run(applier, found).state == "unchanged"
    assert left_over(now, admin) == []
    assert apply.undo(applier, "notes", "rag").state == "undone"
    assert left_over(was, admin) == []
    assert played.errors == []
    notes.kubectl("-n", "rag", "delete", "persistentvolumeclaims", "--all")


HELM = """#!{python}
import json, subprocess, sys
import yaml
arguments = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(" ".join(arguments) + "\\n")
def kubectl(*words):
    subprocess.run([{kubectl!r}, "--kubeconfig", arguments[arguments.index("--kubeconfig") + 1], *words], check=True,
                   stdout=subprocess.DEVNULL)
def patch(data):
    body = json.dumps({{"data": data}})
    kubectl("-n", {namespace!r}, "patch", "configmap", {config!r}, "--type=merge", "-p", body)
if arguments[0] == "history":
    print(json.dumps([{{"revision": 7}}]))
elif arguments[0] == "upgrade":
    values = yaml.safe_load(open(arguments[arguments.index("--values") + 1]))
    patch(values["config"]["map"])
else:
    patch({{{key!r}: None}})
"""


def fake_helm(tmp_path: Path) -> tuple[Path, Path]:
    """A `helm` that knows what this chart does with `config.map`, and the file of its calls."""
    log, program = tmp_path / "calls", tmp_path / "bin" / "helm"
    program.parent.mkdir()
    text = HELM.format(
        python=sys.executable, log=str(log), kubectl=str(folder() / "kubectl"), namespace=CHART,
        config=f"{PLUGIN}-configs", key=KEY,
    )  # fmt: skip
    program.write_text(text)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program.parent, log


def test_chart_through_helm(
    notes: ControlPlane, admin: ApiClient, applier: ApiClient, played: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    was = state(admin)
    found = made("time-slicing-chart")
    (upgrade,) = [action for action in found.actions if isinstance(action, HelmUpgrade)]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert apply.needs_helm(applier, found) == upgrade
    with pytest.raises(ApplyStopped) as caught:
        apply.run(applier, found)
    assert upgrade.command in caught.value.message
    assert left_over(was, admin) == []

    path, log = fake_helm(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join([str(path), "/usr/bin", "/bin"]))
    assert apply.needs_helm(applier, found) is None
    options = Options(helm=("--kubeconfig", str(notes.kubeconfig)))
    assert apply.run(applier, found, options=options).state == "applied"
    assert apply.undo(applier, "notes", "rag", options=options).state == "undone"
    calls = [line.split()[:3] for line in log.read_text().splitlines()]
    assert calls == [["history", "nvdp", "--namespace"], ["upgrade", "nvdp", upgrade.chart], ["rollback", "nvdp", "7"]]
    assert left_over(was, admin) == []
    assert played.errors == []
    notes.kubectl("-n", "rag", "delete", "persistentvolumeclaims", "--all")


def test_after_a_person_ran_helm_it_goes_on_without(
    notes: ControlPlane, admin: ApiClient, applier: ApiClient, played: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = made("time-slicing-chart")
    (upgrade,) = [action for action in found.actions if isinstance(action, HelmUpgrade)]
    monkeypatch.setenv("PATH", str(tmp_path))
    data = json.dumps({"data": dict(upgrade.data)})
    notes.kubectl("-n", CHART, "patch", "configmap", f"{PLUGIN}-configs", "--type=merge", "-p", data)
    assert apply.run(applier, found).state == "applied"
    done = apply.undo(applier, "notes", "rag")
    assert state(admin)["nodes /ragbox"]["offers"] == {"nvidia.com/gpu": "2"}
    assert played.errors == []
    assert done.notes == ()  # what was upgraded before the run is not the run's to take back
    gone = json.dumps({"data": {KEY: None}})
    notes.kubectl("-n", CHART, "patch", "configmap", f"{PLUGIN}-configs", "--type=merge", "-p", gone)
    notes.kubectl("-n", "rag", "delete", "persistentvolumeclaims", "--all")


def test_cutting_by_hand_is_refused_before_anything_is_touched(
    admin: ApiClient, applier: ApiClient, notes: ControlPlane
) -> None:
    create(notes, node("gpu-h100-1", {"nvidia.com/gpu": 8}, {}))
    was = state(admin)
    scenario = SCENARIOS["mig-by-hand"]()
    found = procedure(scenario.service, scenario.plan, FACTS)
    (hand,) = apply.needs_person(applier, found)
    with pytest.raises(ApplyStopped) as caught:
        apply.run(applier, found)
    assert (caught.value.code, caught.value.exit_code) == ("by-hand", 1)
    assert all(command in caught.value.message for command in hand.commands)
    assert left_over(was, admin) == []
    notes.kubectl("delete", "node", "gpu-h100-1")


def test_namespace_that_is_not_there_is_made_and_goes_only_where_nothing_can_be_in_it(
    notes: ControlPlane, admin: ApiClient, applier: ApiClient
) -> None:
    item = workload("Deployment", "gateway", 1)
    item["metadata"]["namespace"] = "fresh"
    found = Procedure("notes", "fresh", "d1", (ApplyObject(item),), 0, 0)
    was = state(admin)
    apply.run(applier, found)
    done = apply.undo(applier, "notes", "fresh")
    assert any("secrets" in note and "stays" in note for note in done.notes)
    apply.run(admin, found)
    create(notes, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token", "namespace": "fresh"}})
    done = apply.undo(admin, "notes", "fresh")
    assert any("Secret token is in it" in note for note in done.notes)
    notes.kubectl("-n", "fresh", "delete", "secret", "token")
    apply.run(admin, found)
    assert apply.undo(admin, "notes", "fresh").notes == ()
    notes.kubectl("wait", "--for=delete", "namespace/fresh", "--timeout=60s")
    assert left_over(was, admin) == []
