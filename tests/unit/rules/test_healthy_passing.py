"""Healthy clusters in motion and with strangers: nodes that come and go, leftovers, other vendors, virtual machines."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kinds import shared_by_mps
from makers import node, pod, thing
from ragstow.cli.diagnosis import make_context
from ragstow.rules.run import diagnose
from rules_support import FACTS
from variants import GPU, Variant, running

Raw = dict[str, Any]
CHART = "nvdp-nvidia-device-plugin"
OLD, NOW = "2026-11-20T08:00:00Z", "2026-12-01T06:10:40Z"
JOINED = "2026-12-01T06:09:30Z"
BROKEN_OFF = (
    ("UnexpectedAdmissionError", "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices"),
    (
        "UnexpectedAdmissionError",
        "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0",
    ),
    ("TopologyAffinityError", "Resources cannot be allocated with Topology locality"),
    ("Evicted", "The node was low on resource: ephemeral-storage. Threshold quantity: 1, available: 0."),
    ("Terminated", "Pod was terminated in response to imminent node shutdown."),
)


def quiet(variant: Variant) -> None:
    report = diagnose(make_context(variant.snapshot(), FACTS), strict=True)
    assert [f"{finding.rule}: {finding.headline}" for finding in report.findings] == []
    assert [item.missing for item in report.unknown] == []


def found(variant: Variant) -> list[str]:
    return [finding.cause for finding in diagnose(make_context(variant.snapshot(), FACTS), strict=True).findings]


def aged(start: str) -> Variant:
    """A recorded cluster whose nodes have been there for days, at a known time."""
    made = Variant(start)
    for item in made.all("Node"):
        item["metadata"]["creationTimestamp"] = OLD
    made.event(made.all("Pod")[0], "Pulled", "Container image already present on machine", type_="Normal", when=NOW)
    return made


def joined(made: Variant, name: str, labels: dict[str, str], created: str = JOINED, **more: Any) -> Raw:
    item = node(name, None, labels, provider=f"aws:///eu-west-1a/{name}", **more)
    item["metadata"]["creationTimestamp"] = created
    made.add(item)
    return item


G6 = {"node.kubernetes.io/instance-type": "g6.12xlarge", "eks.amazonaws.com/nodegroup": "gpu"}


def test_a_node_that_joined_a_minute_ago_has_no_labels_yet() -> None:
    made = aged("01")
    joined(made, "new-1", G6)
    quiet(made)


def test_a_node_without_labels_for_an_hour_is_a_finding() -> None:
    made = aged("01")
    joined(made, "new-1", G6, created="2026-12-01T05:00:00Z")
    assert found(made) == ["device-plugin-not-scheduled"]


def test_a_node_that_is_not_ready_yet_takes_no_plugin() -> None:
    made = aged("01")
    joined(made, "new-1", G6, created="2026-12-01T05:55:00Z", ready=False, taints=("node.kubernetes.io/not-ready=:NoSchedule",))
    quiet(made)


def test_a_node_that_the_autoscaler_deletes() -> None:
    made = aged("01")
    leaving = joined(made, "spot-1", G6, created=OLD, taints=("karpenter.sh/disrupted=:NoSchedule",))
    leaving["metadata"].update(deletionTimestamp=NOW, finalizers=["karpenter.sh/termination"])
    quiet(made)


@pytest.mark.parametrize(("node_born", "driver_born"), [(JOINED, JOINED), (OLD, "2026-12-01T05:55:00Z")])
def test_a_driver_that_is_being_built(node_born: str, driver_born: str) -> None:
    """The operator's driver container compiles the module; its start-up probe allows 21 minutes."""
    made = aged("02")
    made.copy_node("h100-1", "h100-2")["metadata"]["creationTimestamp"] = node_born
    labels = made.get("Node", "h100-2")["metadata"]["labels"]
    for key in [key for key in labels if key.startswith("nvidia.com/") and not key.startswith("nvidia.com/gpu.deploy")]:
        del labels[key]
    gone = [key for key in made.get("Node", "h100-2")["status"]["capacity"] if key.startswith("nvidia.com/")]
    made.offer("h100-2", dict.fromkeys(gone))
    made.relabel("h100-2", {"nvidia.com/gpu.present": "true"})
    driver = made.serve("nvidia-driver-daemonset", "h100-2")
    driver["metadata"]["creationTimestamp"] = driver_born
    driver["status"]["conditions"] = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]
    for status in driver["status"]["containerStatuses"]:
        status.update(ready=False, started=False, restartCount=0, state={"running": {"startedAt": driver_born}})
    quiet(made)


@pytest.mark.parametrize(("reason", "message"), BROKEN_OFF)
def test_a_failed_pod_that_was_replaced_long_ago(reason: str, message: str) -> None:
    made = aged("01")
    left = copy.deepcopy(made.pods_of("embedder")[0])
    left["metadata"].update(name="embedder-left", uid="left", creationTimestamp=OLD)
    left["status"] = {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}", "startTime": OLD}
    made.add(left)
    quiet(made)


def test_a_rejected_pod_that_nobody_replaced_is_a_finding() -> None:
    made = aged("01")
    lost = copy.deepcopy(made.pods_of("embedder")[0])
    lost["metadata"].update(name="alone", uid="alone")
    del lost["metadata"]["ownerReferences"]
    reason, message = BROKEN_OFF[2]
    lost["status"] = {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}", "startTime": OLD}
    made.add(lost)
    assert found(made) == ["topology-alignment-failed"]


def test_another_vendors_plugin_runs_on_every_node() -> None:
    """The AMD plugin's static manifest has no node selector, and its image is called k8s-device-plugin as well."""
    made = Variant("01")
    labels = {"name": "amdgpu-dp-ds"}
    container = {"name": "dp", "image": "docker.io/rocm/k8s-device-plugin:1.31.0.9"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    made.add(thing("DaemonSet", "amdgpu-device-plugin", api="apps/v1", namespace="kube-system", spec=spec, status={}))
    made.add(node("mi300-1", {"amd.com/gpu": 8}))
    for item in made.all("Node"):
        made.serve("amdgpu-device-plugin", item["metadata"]["name"])
    quiet(made)


@pytest.mark.parametrize("labelled", [True, False])
def test_nodes_whose_cards_go_to_virtual_machines(labelled: bool) -> None:
    """sandboxWorkloads of the operator: the KubeVirt plugin calls its resources after the cards."""
    made = Variant("02")
    made.get("ClusterPolicy", "cluster-policy")["spec"]["sandboxWorkloads"] = {"enabled": True, "defaultWorkload": "container"}
    present = {"nvidia.com/gpu.present": "true", "feature.node.kubernetes.io/pci-10de.present": "true"}
    for name, mode, resource in (("vm-1", "vm-passthrough", "GA102GL_A10"), ("vm-2", "vm-vgpu", "NVIDIA_A10-12Q")):
        mode_label = {"nvidia.com/gpu.workload.config": mode} if labelled else {}
        made.add(node(name, {f"nvidia.com/{resource}": 2}, {**present, **mode_label}))
        machine = pod(f"virt-launcher-{name}", name, {f"nvidia.com/{resource}": 1})
        machine["status"] = running(machine["spec"])
        made.add(machine)
    quiet(made)


def test_cards_by_the_plugin_and_channels_between_nodes_by_the_dra_driver() -> None:
    """Multi-node NVLink: the DRA driver hands out IMEX channels, the plugin the cards."""
    made = Variant("01")
    slices = [
        thing(
            "ResourceSlice",
            f"{name}-channels",
            api="resource.k8s.io/v1",
            spec={
                "driver": "compute-domain.nvidia.com",
                "nodeName": name,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "channel-0", "attributes": {"type": {"string": "channel"}}}],
            },
        )
        for name in ("a100-1", "a100-2")
    ]
    container = {"name": "compute-domains", "image": "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.12.0"}
    labels = {"app": "dra"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    made.add(*slices, thing("DaemonSet", "dra-kubelet-plugin", api="apps/v1", namespace="dra", spec=spec, status={}))
    for name in ("a100-1", "a100-2"):
        made.serve("dra-kubelet-plugin", name)
    worker = pod("worker-0", "a100-1", {GPU: 1}, resourceClaims=[{"name": "channel", "resourceClaimTemplateName": "imex"}])
    worker["spec"]["containers"][0]["resources"]["claims"] = [{"name": "channel"}]
    worker["spec"]["runtimeClassName"] = "nvidia"
    worker["status"] = running(worker["spec"])
    made.add(worker)
    quiet(made)


HARMLESS = {
    "embedder": "WARN Could not import Flash Attention: GPU with CUDA capability 7 5 is not supported for Flash Attention V2",
    "gateway": "Could not load dynamic library 'libcuda.so.1'; dlerror: libcuda.so.1: cannot open shared object file",
    "gateway sees none": "UserWarning: CUDA initialization: Found no NVIDIA driver on your system.",
    "gateway asks": "WARNING:root:nvidia-smi: command not found",
    "dmesg-t4-1": "NVRM: Xid (PCI:0000:00:1e): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
    "dmesg-t4-2": "[ 99.1] NVRM: Xid (PCI:0000:00:1e): 31, pid=1921, name=python3, Ch 00000008, intr 00000000. MMU Fault",
    "kubelet-t4-1": 'E1130 20:29:05 kuberuntime_manager.go] "Unhandled Error" err="no runtime for \\"nvidia\\" is configured"',
}
"""What programs of healthy clusters log: file -> line."""


@pytest.mark.parametrize("name", HARMLESS)
def test_warnings_in_the_logs_of_what_runs_well(name: str) -> None:
    made = Variant("01")
    for item in made.all("Node"):
        item["status"]["runtimeHandlers"] = [{"name": ""}, {"name": "nvidia"}, {"name": "runc"}]
    made.attachments[f"logs/{name.split()[0]}.txt"] = f"INFO starting\n{HARMLESS[name]}\nINFO Application startup complete.\n"
    quiet(made)


def test_the_static_plugin_says_on_a_node_without_card_that_it_finds_none() -> None:
    """The static manifest has no node selector; without a GPU its pods wait, and say what they say on a broken node."""
    made = Variant("", node("gpu-1", {GPU: 1}), node("cpu-1"))
    for name in ("gpu-1", "cpu-1"):
        plugin = pod(f"nvidia-device-plugin-{name}", name, namespace="kube-system")
        plugin["spec"]["containers"][0].update(
            name="nvidia-device-plugin-ctr", image="nvcr.io/nvidia/k8s-device-plugin:v0.18.2"
        )
        plugin["status"] = running(plugin["spec"])
        made.add(plugin)
    text = "could not load NVML library: libnvidia-ml.so.1: cannot open shared object file\nIncompatible strategy detected auto"
    made.attachments["logs/nvidia-device-plugin-cpu-1.log"] = f"{text}\nNo devices found. Waiting indefinitely.\n"
    quiet(made)


def test_a_node_for_mps_that_joined_a_minute_ago() -> None:
    made = shared_by_mps(rename=False)
    for item in made.all("Node"):
        item["metadata"]["creationTimestamp"] = OLD
    made.event(made.all("Pod")[0], "Pulled", "Container image already present on machine", type_="Normal", when=NOW)
    present = {"feature.node.kubernetes.io/pci-10de.present": "true", "nvidia.com/device-plugin.config": "mps-4"}
    joined(made, "l4-new", {**G6, **present})
    plugin = made.serve("nvdp-nvidia-device-plugin", "l4-new")
    plugin["metadata"]["creationTimestamp"] = JOINED
    quiet(made)
