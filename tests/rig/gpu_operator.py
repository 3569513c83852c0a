"""The part of the GPU Operator that follows changes of a ClusterPolicy: MIG strategy, plugin configuration, MIG layouts.

The DaemonSets are changed as the operator changes them (controllers/object_controls.go): MIG_STRATEGY in the environment of
plugin and discovery, a config-manager beside the plugin with the fallback strategy `empty`, the ConfigMap that the MIG manager
mounts.
"""

from __future__ import annotations

import json
from typing import Any

from ragstow.cluster.objects import KubeObject
from ragstow.cluster.snapshot import Snapshot
from ragstow.live.client import ApiClient
from ragstow.live.failures import Right

_DEFAULT_LAYOUTS = "default-mig-parted-config"
_KEY = "config.yaml"
_PLUGIN = {"nvidia-device-plugin-daemonset": "nvidia-device-plugin", "gpu-feature-discovery": "gpu-feature-discovery"}
_MANAGER_IMAGE = "nvcr.io/nvidia/k8s-device-plugin"

Json = dict[str, Any]


def sync(client: ApiClient, snapshot: Snapshot) -> None:
    """Bring the operator's DaemonSets to what its policy says."""
    policy = next(iter(snapshot.of("ClusterPolicy", "nvidia.com")), None)
    if policy is None:
        return
    spec = policy.raw["spec"]
    for daemonset in snapshot.of("DaemonSet", "apps"):
        if all(owner.kind != "ClusterPolicy" for owner in daemonset.owners):
            continue
        pod: Json = json.loads(json.dumps(daemonset.raw["spec"]["template"]["spec"]))
        before = json.dumps(pod)
        if daemonset.name in _PLUGIN:
            _strategy(pod, _PLUGIN[daemonset.name], (spec.get("mig") or {}).get("strategy"))
            _config(pod, _PLUGIN[daemonset.name], (spec.get("devicePlugin") or {}).get("config") or {})
        if daemonset.name == "nvidia-mig-manager":
            name = ((spec.get("migManager") or {}).get("config") or {}).get("name") or _DEFAULT_LAYOUTS
            for volume in pod["volumes"]:
                if volume["name"] == "mig-parted-config":
                    volume["configMap"]["name"] = name
        if json.dumps(pod) != before:
            _replace(client, daemonset, pod)


def _strategy(pod: Json, container: str, strategy: str | None) -> None:
    for item in pod["containers"]:
        if item["name"] == container and strategy:
            kept = [one for one in item.get("env") or [] if one["name"] != "MIG_STRATEGY"]
            now = next((one for one in item.get("env") or [] if one["name"] == "MIG_STRATEGY"), None)
            if now is None or now.get("value") != strategy:
                item["env"] = [*kept, {"name": "MIG_STRATEGY", "value": strategy}]


def _config(pod: Json, container: str, config: Json) -> None:
    name, default = str(config.get("name") or ""), str(config.get("default") or "")
    volumes = [item for item in pod.get("volumes") or [] if item["name"] not in ("config", container + "-config")]
    has = len(volumes) != len(pod.get("volumes") or [])
    if not name and not has:
        return
    main = next(item for item in pod["containers"] if item["name"] == container)
    kept = [item for item in pod["containers"] if item["name"] != "config-manager"]
    init = [item for item in pod.get("initContainers") or [] if item["name"] != "config-manager-init"]
    main["env"] = [item for item in main.get("env") or [] if item["name"] != "CONFIG_FILE"]
    main["volumeMounts"] = [item for item in main.get("volumeMounts") or [] if item["name"] != "config"]
    if not name:
        pod.update({"containers": kept, "initContainers": init, "volumes": volumes})
        pod.pop("shareProcessNamespace", None)
        return
    main["env"].append({"name": "CONFIG_FILE", "value": "/config/config.yaml"})
    main["volumeMounts"].append({"name": "config", "mountPath": "/config"})
    manager: Json = {
        "image": main["image"],
        "command": ["config-manager"],
        "env": [
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}},
            {"name": "NODE_LABEL", "value": "nvidia.com/device-plugin.config"},
            {"name": "CONFIG_FILE_SRCDIR", "value": "/available-configs"},
            {"name": "CONFIG_FILE_DST", "value": "/config/config.yaml"},
            {"name": "DEFAULT_CONFIG", "value": default},
            {"name": "FALLBACK_STRATEGIES", "value": "empty"},
            {"name": "SEND_SIGNAL", "value": "true"},
            {"name": "SIGNAL", "value": "1"},
            {"name": "PROCESS_TO_SIGNAL", "value": container},
        ],
        "volumeMounts": [
            {"name": container + "-config", "mountPath": "/available-configs"},
            {"name": "config", "mountPath": "/config"},
        ],
    }
    once = [{**one, "value": "true"} if one["name"] == "ONESHOT" else one for one in manager["env"]]
    pod.update(
        {
            "containers": [*kept, {**manager, "name": "config-manager"}],
            "initContainers": [
                *init,
                {**manager, "name": "config-manager-init", "env": [*once, {"name": "ONESHOT", "value": "true"}]},
            ],
            "volumes": [
                *volumes,
                {"name": container + "-config", "configMap": {"name": name}},
                {"name": "config", "emptyDir": {}},
            ],
            "shareProcessNamespace": True,
        }
    )


def _replace(client: ApiClient, daemonset: KubeObject, pod: Json) -> None:
    path = f"/apis/apps/v1/namespaces/{daemonset.namespace}/daemonsets/{daemonset.name}"
    right = Right("update", "daemonsets", "apps")
    # Read anew: the snapshot is a moment old, and a PUT of the whole must not take others' changes back.
    whole = client.transport.json("GET", path, right)
    whole["spec"]["template"]["spec"] = pod
    client.transport.json("PUT", path, right, body=whole)


def mig_file(client: ApiClient) -> str | None:
    """The layouts that the MIG manager's pods mount; None where the ConfigMap is not there."""
    resource = client.resources().plural("apps", "daemonsets")
    config_maps = client.resources().plural("", "configmaps")
    assert resource is not None
    assert config_maps is not None
    for daemonset in client.list(resource):
        for volume in daemonset["spec"]["template"]["spec"].get("volumes") or ():
            if volume["name"] == "mig-parted-config":
                found = client.get(config_maps, volume["configMap"]["name"], daemonset["metadata"]["namespace"])
                return None if found is None else (found.get("data") or {}).get(_KEY)
    return None
