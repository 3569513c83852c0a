"""Healthy clusters of kinds that were not recorded, made from recordings: MPS, MIG single, HAMi."""

from __future__ import annotations

import json
from typing import Any

from makers import thing
from variants import GPU, SHARED, Variant, limit

Raw = dict[str, Any]
CHART = "nvdp-nvidia-device-plugin"
L4 = "NVIDIA-L4"


def shared_by_mps(*, rename: bool) -> Variant:
    made = Variant("04")
    sharing = {
        "renameByDefault": rename,
        "resources": [{"name": GPU, "replicas": 4}],
    }
    text = json.dumps({"version": "v1", "flags": {"migStrategy": "none"}, "sharing": {"mps": sharing}})
    data = made.get("ConfigMap", f"{CHART}-configs")["data"]
    data["mps-4"] = text
    del data["shared-4"]
    product = L4 if rename else f"{L4}-SHARED"
    for name in ("l4-1", "l4-2"):
        made.relabel(
            name,
            {
                "nvidia.com/device-plugin.config": "mps-4",
                "nvidia.com/gpu.sharing-strategy": "mps",
                "nvidia.com/mps.capable": "true",
                "nvidia.com/gpu.product": product,
            },
        )
        made.serve(f"{CHART}-mps-control-daemon", name)
        if not rename:
            made.offer(name, {GPU: 8, SHARED: None})
    if not rename:
        for workload in ("classifier", "embedder", "reranker", "rewriter"):
            for spec in made.pod_specs(workload):
                limit(spec, {SHARED: None, GPU: 1})
                spec["nodeSelector"] = {"nvidia.com/gpu.product": product}
    return made


def mig_single() -> Variant:
    made = Variant("02")
    made.get("ClusterPolicy", "cluster-policy")["spec"]["mig"]["strategy"] = "single"
    for spec in made.pod_specs("nvidia-device-plugin-daemonset"):
        for container in spec["containers"]:
            for variable in container.get("env", ()):
                if variable["name"] == "MIG_STRATEGY":
                    variable["value"] = "single"
    labels = made.get("Node", "h100-1")["metadata"]["labels"]
    for key in [key for key in labels if key.startswith("nvidia.com/mig-")]:
        del labels[key]
    made.relabel(
        "h100-1",
        {
            "nvidia.com/mig.strategy": "single",
            "nvidia.com/mig.config": "all-1g.10gb",
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
            "nvidia.com/gpu.count": "56",
            "nvidia.com/gpu.memory": "9984",
        },
    )
    layouts = made.get("ConfigMap", "rag-mig-config")["data"]
    key = next(iter(layouts))
    whole = {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}
    off = {"devices": "all", "mig-enabled": False}
    layouts[key] = json.dumps({"version": "v1", "mig-configs": {"all-1g.10gb": [whole], "all-disabled": [off]}})
    made.offer(
        "h100-1", {GPU: 56, "nvidia.com/mig-1g.10gb": None, "nvidia.com/mig-2g.20gb": None, "nvidia.com/mig-3g.40gb": None}
    )
    product = "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"
    for workload in ("embedder", "judge", "llm", "reranker", "rewriter"):
        for spec in made.pod_specs(workload):
            gone = {name: None for name in spec["containers"][0]["resources"]["limits"] if name.startswith("nvidia.com/")}
            limit(spec, {**gone, GPU: 1})
            spec["affinity"] = {}
            spec["nodeSelector"] = {"nvidia.com/gpu.product": product}
    return made


def hami() -> Variant:
    made = Variant("06")
    made.drop("DaemonSet", lambda item: item["metadata"]["name"].startswith("nvdp"))
    made.drop("Pod", lambda item: item["metadata"]["name"].startswith("nvdp"))
    found = made.get("Node", "ragbox")
    cards = [
        {
            "id": f"GPU-{number}",
            "index": number,
            "count": 10,
            "devmem": 24576,
            "devcore": 100,
            "type": "NVIDIA-NVIDIA GeForce RTX 3090",
            "numa": 0,
            "mode": "hami-core",
            "health": True,
        }
        for number in (0, 1)
    ]
    del cards[0]["index"]
    found["metadata"].setdefault("annotations", {}).update(
        {
            "hami.io/node-nvidia-register": json.dumps(cards),
            "hami.io/node-handshake": "Requesting_2026-11-30 20:30:00",
            "hami.io/node-handshake-dcu": "Requesting_2026-11-30 20:30:00",
            "hami.io/node-handshake-va": "Requesting_2026-11-30 20:30:00",
        }
    )
    made.relabel("ragbox", {"gpu": "on", "nvidia.com/gpu.present": None})
    made.offer("ragbox", {GPU: 20})
    labels = {"app.kubernetes.io/component": "hami-device-plugin"}
    containers = [
        {"name": "device-plugin", "image": "projecthami/hami:v2.10.0", "command": ["nvidia-device-plugin"]},
        {"name": "vgpu-monitor", "image": "projecthami/hami:v2.10.0", "command": ["vGPUmonitor"]},
    ]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers, "nodeSelector": {"gpu": "on"}}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    made.add(thing("DaemonSet", "hami-device-plugin", api="apps/v1", namespace="kube-system", spec=spec, status={}))
    made.serve("hami-device-plugin", "ragbox")
    for workload in ("llm", "embedder", "reranker"):
        for pod_spec in made.pod_specs(workload):
            gpus = [
                name
                for name in pod_spec["containers"][0].get("resources", {}).get("limits", {})
                if name.startswith("nvidia.com/")
            ]
            if workload == "llm" or gpus:
                limit(pod_spec, {GPU: 1, "nvidia.com/gpumem": "14k", "nvidia.com/gpucores": 30})
                pod_spec["schedulerName"] = "hami-scheduler"
        for item in made.pods_of(workload):
            allocated = "GPU-0,NVIDIA,14000,30:;"
            item["metadata"].setdefault("annotations", {}).update(
                {"hami.io/bind-phase": "success", "hami.io/vgpu-node": "ragbox", "hami.io/vgpu-devices-allocated": allocated}
            )
            made.event(item, "FailedScheduling", "node ragbox has been locked within 5m0s: node lock contention")
            made.event(item, "FilteringFailed", "no available node, all node scores do not meet")
    return made
