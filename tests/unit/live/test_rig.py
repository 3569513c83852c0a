"""The simulated GPU programs: what they do to nodes and pods is what the vendors' documents say they do."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from rig.cluster import Rig, gpu_cluster
from support import DATA, ROOT

H100 = "gpu-h100-1"
GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"


@pytest.fixture(scope="module")
def operator() -> Iterator[Rig]:
    with gpu_cluster(ROOT / "examples" / "h100-operator" / "cluster") as rig:
        yield rig


@pytest.fixture(scope="module")
def chart() -> Iterator[Rig]:
    with gpu_cluster(DATA / "clusters" / "04-time-slicing-renamed.tar.gz") as rig:
        yield rig


def offers(rig: Rig, node: str) -> dict[str, int]:
    amounts = rig.node(node)["status"]["allocatable"]
    return {name: int(count) for name, count in amounts.items() if name.startswith("nvidia.com/") and int(count)}


def label(rig: Rig, node: str, name: str, value: str | None) -> None:
    rig.patch_node(node, {"metadata": {"labels": {f"nvidia.com/{name}": value}}})


def state(rig: Rig) -> str:
    return str(rig.node(H100)["metadata"]["labels"].get("nvidia.com/mig.config.state"))


def gpu_pod(rig: Rig, name: str, resource: str, **more: Any) -> None:
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {resource: 1}}}], **more}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}
    rig.plane.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    rig.plane.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=30s")


def smi(rig: Rig, name: str, *arguments: str) -> str:
    # KWOK learns a moment after the start what exec runs in a pod.
    rig.wait("exec", lambda: rig.client.execute(name, "default", "c", ["nvidia-smi", "-L"]).code == 0)
    return rig.client.execute(name, "default", "c", ["nvidia-smi", *arguments]).stdout


def test_mig_manager_cuts_pauses_and_comes_back(operator: Rig) -> None:
    before = operator.node(H100)["metadata"]["labels"]
    label(operator, H100, "mig.config", "all-1g.10gb")
    operator.wait("pending", lambda: state(operator) == "pending")
    operator.wait("paused", lambda: offers(operator, H100) == {})
    operator.wait("success", lambda: state(operator) == "success")
    operator.settle()
    operator.wait("offered", lambda: offers(operator, H100) == {SLICE: 56})
    labels = operator.node(H100)["metadata"]["labels"]
    assert labels["nvidia.com/mig-1g.10gb.count"] == "56"
    assert labels["nvidia.com/gpu.deploy.device-plugin"] == "true"
    gpu_pod(operator, "slice", SLICE)
    assert smi(operator, "slice", "-L").splitlines()[1].startswith("  MIG 1g.10gb     Device  0: (UUID: MIG-")

    # In use, or an unknown layout: the cut stays.
    for layout in ("all-disabled", "no-such-layout"):
        label(operator, H100, "mig.config", layout)
        operator.wait("pending", lambda: state(operator) == "pending")
        operator.wait("failed", lambda: state(operator) == "failed")
        label(operator, H100, "mig.config", "all-1g.10gb")
        operator.wait("as it is cut", lambda: state(operator) == "success")
    operator.plane.kubectl("delete", "pod", "slice", "--now")
    operator.programs.mig_hangs.add(H100)
    label(operator, H100, "mig.config", "all-disabled")
    operator.wait("pending", lambda: state(operator) == "pending")
    time.sleep(2)
    assert state(operator) == "pending"
    operator.programs.mig_hangs.clear()
    operator.wait("success", lambda: state(operator) == "success")
    operator.settle()
    operator.wait("offered", lambda: offers(operator, H100) == {GPU: 8})
    assert operator.node(H100)["metadata"]["labels"] == {**before, "nvidia.com/mig.config": "all-disabled"}


def test_what_breaks_is_seen_in_the_pod(operator: Rig) -> None:
    gpu_pod(operator, "whole", GPU)
    query = ("--query-gpu=uuid,memory.used,driver_version", "--format=csv,noheader,nounits")
    uuid, used, driver = smi(operator, "whole", *query).strip().split(", ")
    card = next(item.index for item in operator.world.nodes[H100].cards if item.uuid == uuid)
    operator.steal(H100, card, 3000)
    assert smi(operator, "whole", *query).strip() == f"{uuid}, {int(used) + 3000}, {driver}"
    operator.steal(H100, card, 0)
    operator.driver(H100, "610.57.04")
    assert "KMD Version: 610.57.04" in smi(operator, "whole")
    operator.driver(H100, driver, libraries="610.57.04")
    assert "Driver/library version mismatch" in operator.client.execute("whole", "default", "c", ["nvidia-smi"]).stdout
    operator.driver(H100, driver)
    operator.card_dies(H100, card)
    operator.wait("one card less", lambda: offers(operator, H100) == {GPU: 7})
    assert operator.client.execute("whole", "default", "c", ["nvidia-smi"]).code == 15
    operator.card_dies(H100, card, dead=False)
    operator.wait("all cards", lambda: offers(operator, H100) == {GPU: 8})

    name = operator.trouble("crash", {"app": "whole"}, exit_code=137)
    operator.says({"app": "whole"}, "now", previous="CUDA out of memory")
    waiting = "{.status.containerStatuses[0].state.waiting.reason}"
    operator.plane.kubectl("wait", "pod/whole", f"--for=jsonpath={waiting}=CrashLoopBackOff", "--timeout=30s")
    assert operator.client.logs("whole", "default", "c", previous=True) == "CUDA out of memory\n"
    operator.relief(name)
    operator.plane.kubectl("delete", "pod", "whole", "--now")


def test_a_config_is_read_at_the_start_of_the_plugin_or_by_its_label(chart: Rig) -> None:
    nodes = [name for name in chart.world.nodes if offers(chart, name)]
    config_maps = [item for item in chart.objects("configmaps") if "sharing" in str(item.get("data"))]
    meta = config_maps[0]["metadata"]
    node = nodes[0]
    before, chosen = offers(chart, node), chart.node(node)["metadata"]["labels"].get("nvidia.com/device-plugin.config")
    shares = "renameByDefault: true\n    resources: [{name: nvidia.com/gpu, replicas: 3}]"
    text = f"version: v1\nsharing:\n  timeSlicing:\n    {shares}\n"
    change = json.dumps({"data": {"three": text}})
    chart.plane.kubectl("patch", "configmap", meta["name"], "-n", meta["namespace"], "--type=merge", "-p", change)
    label(chart, node, "device-plugin.config", "three")
    cards = len(chart.world.nodes[node].cards)
    chart.wait("three shares", lambda: offers(chart, node) == {"nvidia.com/gpu.shared": 3 * cards})
    four = json.dumps({"data": {"three": text.replace("3", "4")}})
    chart.plane.kubectl("patch", "configmap", meta["name"], "-n", meta["namespace"], "--type=merge", "-p", four)
    time.sleep(3)
    assert offers(chart, node) == {"nvidia.com/gpu.shared": 3 * cards}, "the config-manager does not watch the ConfigMap"
    label(chart, node, "device-plugin.config", "gone")
    time.sleep(3)
    assert offers(chart, node) == {"nvidia.com/gpu.shared": 3 * cards}, "who runs keeps what it had"
    label(chart, node, "device-plugin.config", chosen)
    chart.wait("as before", lambda: offers(chart, node) == before)
    assert chart.programs.crash is None
