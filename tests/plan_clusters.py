"""Small GPU clusters for planning, by hand: GFD's labels, the plugin's chart or the GPU Operator, holders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from makers import gfd, node, pod, thing
from ragstow import facts
from ragstow.cluster.build import build
from ragstow.cluster.snapshot import Snapshot
from ragstow.plan.model import Plan
from ragstow.plan.planner import plan
from ragstow.spec import load_text, to_document
from ragstow.spec.model import Service

Raw = dict[str, Any]
FACTS = facts.load()
L4, A100, H100, T4 = "NVIDIA-L4", "NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3", "Tesla-T4"
MIB = {L4: 23034, A100: 40960, H100: 81559, T4: 15360}
HOSTNAME = "kubernetes.io/hostname"
_DRIVER = {"cuda.driver-version.full": "580.95.05", "cuda.runtime-version.full": "13.0", "gfd.timestamp": "1"}


def gpu_node(name: str, product: str, cards: int, labels: Mapping[str, str] | None = None, **more: Any) -> Raw:
    """A node of whole cards under the device plugin with GFD."""
    known = {HOSTNAME: name, **gfd(product, cards, MIB[product], _DRIVER), **(labels or {})}
    return node(name, {"nvidia.com/gpu": cards}, known, **more)


def chart(*, config: str | None = None) -> Raw:
    """The device plugin's DaemonSet of its chart, with feature discovery beside it."""
    plugin = {
        "name": "nvidia-device-plugin-ctr",
        "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
        "env": [{"name": "MPS_ROOT", "value": "/run/nvidia/mps"}],
    }
    spec: Raw = {"containers": [plugin]}
    if config is not None:
        spec["volumes"] = [{"name": "available-configs", "configMap": {"name": config}}]
    return thing(
        "DaemonSet",
        "nvdp-nvidia-device-plugin",
        api="apps/v1",
        namespace="gpu",
        labels={"helm.sh/chart": "nvidia-device-plugin-0.20.0", "app.kubernetes.io/instance": "nvdp"},
        spec={"template": {"spec": spec}},
    )


def operator(strategy: str = "mixed") -> tuple[Raw, Raw]:
    """The GPU Operator: its ClusterPolicy and the plugin's DaemonSet."""
    policy = thing(
        "ClusterPolicy",
        "cluster-policy",
        api="nvidia.com/v1",
        spec={"mig": {"strategy": strategy}, "devicePlugin": {}, "migManager": {"enabled": True}},
    )
    container = {
        "name": "nvidia-device-plugin",
        "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
        "env": [{"name": "MIG_STRATEGY", "value": strategy}, {"name": "MPS_ROOT", "value": "/run/nvidia/mps"}],
    }
    owner = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": "cluster-policy", "uid": "p", "controller": True}
    daemonset = thing(
        "DaemonSet",
        "nvidia-device-plugin-daemonset",
        api="apps/v1",
        namespace="gpu-operator",
        owners=[owner],
        spec={"template": {"spec": {"containers": [container]}}},
    )
    return policy, daemonset


def holder(name: str, on: str, count: int = 1, resource: str = "nvidia.com/gpu") -> Raw:
    """A pod of somebody else that holds GPU slots."""
    return pod(name, on, {resource: count}, namespace="others")


def cluster(*objects: Raw) -> Snapshot:
    """A snapshot of these objects and a node without GPUs, in 1.34."""
    return build([node("cpu-1", labels={HOSTNAME: "cpu-1"}), *objects], version="v1.34.1")


def service(components: str, spec: str = "") -> Service:
    """A service of components ("name memoryMiB [replicas [cards]]", one a line) with measured footprints, and more fields."""
    rows = []
    for line in components.strip().splitlines():
        name, memory, replicas, cards = [*line.split(), "1", "1"][:4] if len(line.split()) < 4 else line.split()
        rows.append(
            f"  - {{name: {name}, role: ingest, image: 'registry.example/{name}:1', gpu: required, replicas: {replicas}, "
            f"cpu: 1, memory: 1Gi, footprint: {{memoryMiB: {memory}, cards: {cards}}}}}"
        )
    head = "apiVersion: ragstow.dev/v1alpha1\nkind: RagService\nmetadata: {name: demo, namespace: rag}\nspec:\n"
    return load_text(f"{head}{spec}  components:\n" + "\n".join(rows) + "\n", FACTS)


def planned(wanted: Service, snapshot: Snapshot, **more: Any) -> Plan:
    """The plan of a service on a snapshot."""
    return plan(wanted, snapshot, FACTS, document=to_document(wanted), **more)


def modes(made: Plan) -> dict[str, str]:
    """Component -> mode, with the profile of a slice and the sharers of a share."""
    found: dict[str, str] = {}
    for item in made.components:
        text: str = item.slot.mode
        if item.slot.profile:
            text += f" {item.slot.profile}"
        if item.slot.sharers > 1:
            text += f" x{item.slot.sharers}"
        found[item.name] = text
    return found


def codes(made: Plan) -> set[str]:
    """The codes of a refused plan's reasons."""
    return {reason.code for reason in made.reasons}
