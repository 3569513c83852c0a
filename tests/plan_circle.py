"""The cluster after a plan was applied, without a cluster: node changes and rendered pods laid onto the snapshot.

What controllers, kubelet and device plugin would do is played as far as the API shows it: labels and resources as the layout
says, the chart's ConfigMap with its config-manager, pods bound to the nodes of the plan, claims allocated to free devices.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from ragstow.cluster import dra
from ragstow.cluster.build import RawObject, make
from ragstow.cluster.objects import KubeObject
from ragstow.cluster.snapshot import Snapshot
from ragstow.plan.model import Plan
from ragstow.plan.planner import snapshot_after

_COMPONENT = "ragstow.dev/component"
_DRIVER = "gpu.nvidia.com"


def apply_to_snapshot(snapshot: Snapshot, plan: Plan, objects: Iterable[dict[str, Any]]) -> Snapshot:
    """The snapshot once node configuration and workloads of a plan are in place and its pods run.

    Args:
        snapshot: the cluster before.
        plan: a feasible plan.
        objects: the rendered objects.
    """
    after = snapshot_after(snapshot, plan.layouts)
    objects = list(objects)
    if plan.cluster.plugin.kind == "chart":
        after = _chart(after, plan)
    if plan.cluster.plugin.kind == "operator":
        after = _operator(after, plan, objects)
    put: list[KubeObject] = []
    waiting = {
        component.name: [item.node for item in plan.placements if item.component == component.name]
        for component in plan.components
    }
    templates: dict[str, dict[str, Any]] = {}
    workloads: list[dict[str, Any]] = []
    for raw in objects:
        if raw["kind"] in ("Deployment", "StatefulSet"):
            workloads.append(raw)
        elif raw["kind"] == "ResourceClaimTemplate":
            templates[raw["metadata"]["name"]] = raw
        put.append(make(RawObject(raw)))
    claims = {item.name: item for item in put if item.kind == "ResourceClaim"}
    holders: dict[str, tuple[str, list[str]]] = {}
    for raw in workloads:
        component = raw["spec"]["template"]["metadata"]["labels"][_COMPONENT]
        for number in range(raw["spec"]["replicas"]):
            node = waiting[component].pop(0)
            pod = _pod(raw, number, node)
            for entry in pod["spec"].get("resourceClaims", ()):
                name = entry.get("resourceClaimName")
                if name is None:
                    template = templates[entry.pop("resourceClaimTemplateName")]
                    name = entry["resourceClaimName"] = f"{pod['metadata']['name']}-{entry['name']}"
                    claims[name] = make(RawObject(_claim(template, name, raw["metadata"]["namespace"])))
                holders.setdefault(name, (node, []))[1].append(pod["metadata"]["name"])
            put.append(make(RawObject(pod)))
    assert not any(waiting.values()), "the rendering has fewer pods than the plan"
    return _allocated(after.replace(put=put), claims, holders)


def _pod(workload: dict[str, Any], number: int, node: str) -> dict[str, Any]:
    template = copy.deepcopy(workload["spec"]["template"])
    meta = template["metadata"]
    name = f"{workload['metadata']['name']}-{number}"
    owner = {
        "apiVersion": "apps/v1",
        "kind": workload["kind"],
        "name": workload["metadata"]["name"],
        "uid": f"uid-{workload['metadata']['name']}",
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **meta,
            "name": name,
            "namespace": workload["metadata"]["namespace"],
            "uid": f"uid-{name}",
            "ownerReferences": [owner],
        },
        "spec": {**template["spec"], "nodeName": node},
        "status": {"phase": "Running"},
    }


def _claim(template: dict[str, Any], name: str, namespace: str) -> dict[str, Any]:
    spec = template["spec"]
    labels = dict(spec.get("metadata", {}).get("labels", {}))
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": copy.deepcopy(spec["spec"]),
    }


def _allocated(snapshot: Snapshot, claims: dict[str, KubeObject], holders: dict[str, tuple[str, list[str]]]) -> Snapshot:
    taken = {device for claim in dra.claims(snapshot) for device in claim.devices}
    put: list[KubeObject] = []
    for name, (node, pods) in holders.items():
        raw = copy.deepcopy(dict(claims[name].raw))
        exactly = raw["spec"]["devices"]["requests"][0]["exactly"]
        kind = "mig" if exactly["deviceClassName"].startswith("mig.") else "gpu"
        free = [
            item.id
            for item in dra.devices(snapshot, _DRIVER)
            if item.node == node and item.id not in taken and item.attributes.get("type") == kind
        ][: exactly.get("count", 1)]
        taken.update(free)
        results = [{"request": "gpu", "driver": _DRIVER, "pool": item.pool, "device": item.device} for item in free]
        raw["status"] = {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in pods],
        }
        put.append(make(RawObject(raw)))
    return snapshot.replace(put=put)


def _chart(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """What `helm upgrade` with configurations makes of the plugin (chart 0.20.0): a ConfigMap and a config-manager."""
    plugin = plan.cluster.plugin
    added = {layout.plugin_config_key: layout.plugin_config for layout in plan.layouts if layout.plugin_config is not None}
    if not added or plugin.daemonset is None or plugin.namespace is None:
        return snapshot
    name = plugin.config_map or f"{plugin.daemonset}-configs"
    data = {"default": "version: v1\n", **plugin.config_data, **{str(key): _text(value) for key, value in added.items()}}
    meta = {"name": name, "namespace": plugin.namespace}
    put = [make(RawObject({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}))]
    if plugin.config_map is None:
        for item in (*snapshot.of("DaemonSet", "apps"), *snapshot.of("Pod")):
            of_plugin = item.name == plugin.daemonset or any(owner.name == plugin.daemonset for owner in item.owners)
            if item.namespace == plugin.namespace and of_plugin:
                raw = copy.deepcopy(dict(item.raw))
                _managed(raw["spec"]["template"]["spec"] if item.kind == "DaemonSet" else raw["spec"], name)
                put.append(make(RawObject(raw)))
    return snapshot.replace(put=put)


def _operator(snapshot: Snapshot, plan: Plan, objects: list[dict[str, Any]]) -> Snapshot:
    """The ClusterPolicy as the rendered patches leave it: our ConfigMaps are those it names."""
    policy = snapshot.get("ClusterPolicy", plan.cluster.plugin.cluster_policy or "", group="nvidia.com")
    assert policy is not None
    raw = copy.deepcopy(dict(policy.raw))
    for item in objects:
        if item["kind"] == "ConfigMap" and "config.yaml" in item["data"]:
            raw["spec"].setdefault("migManager", {})["config"] = {"name": item["metadata"]["name"]}
        elif item["kind"] == "ConfigMap":
            raw["spec"].setdefault("devicePlugin", {})["config"] = {"name": item["metadata"]["name"], "default": ""}
    if any(layout.sharing == "mig-mixed" and layout.changes for layout in plan.layouts):
        raw["spec"].setdefault("mig", {})["strategy"] = "mixed"
    return snapshot.replace(put=[make(RawObject(raw))])


def _text(value: Any) -> str:
    import json

    return json.dumps(value)


def _managed(spec: dict[str, Any], config_map: str) -> None:
    variables = {
        "NODE_LABEL": "nvidia.com/device-plugin.config",
        "CONFIG_FILE_SRCDIR": "/available-configs",
        "CONFIG_FILE_DST": "/config/config.yaml",
        "DEFAULT_CONFIG": "default",
        "FALLBACK_STRATEGIES": "named,single",
    }
    mounts = [{"mountPath": "/available-configs", "name": "available-configs"}, {"mountPath": "/config", "name": "config"}]
    spec["containers"][0].setdefault("env", []).append({"name": "CONFIG_FILE", "value": "/config/config.yaml"})
    spec["containers"].append(
        {
            "name": "nvidia-device-plugin-sidecar",
            "image": spec["containers"][0]["image"],
            "command": ["config-manager"],
            "env": [{"name": key, "value": value} for key, value in variables.items()],
            "volumeMounts": mounts,
        }
    )
    spec.setdefault("volumes", []).append({"name": "available-configs", "configMap": {"name": config_map}})
