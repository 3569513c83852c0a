"""Small Kubernetes objects for tests, in the shape that an API server gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Raw = dict[str, Any]


def thing(
    kind: str, name: str, *, api: str = "v1", namespace: str = "", labels: Mapping[str, str] | None = None, **more: Any
) -> Raw:
    """Any object; `annotations` and `owners` go into its metadata."""
    meta: Raw = {"name": name, "uid": f"{kind}-{namespace}-{name}"}
    if namespace:
        meta["namespace"] = namespace
    if labels:
        meta["labels"] = dict(labels)
    for key, place in (("annotations", "annotations"), ("owners", "ownerReferences")):
        if (value := more.pop(key, None)) is not None:
            meta[place] = value
    return {"apiVersion": api, "kind": kind, "metadata": meta, **more}


def node(
    name: str,
    resources: Mapping[str, int | str] | None = None,
    labels: Mapping[str, str] | None = None,
    *,
    allocatable: Mapping[str, int | str] | None = None,
    ready: bool = True,
    cordoned: bool = False,
    taints: tuple[str, ...] = (),
    annotations: Mapping[str, str] | None = None,
    kubelet: str = "v1.37.2",
    provider: str = "",
) -> Raw:
    """A node; `resources` are its capacity (and allocatable, where that is not given), taints read key=value:effect."""
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", **{key: str(value) for key, value in (resources or {}).items()}}
    spec: Raw = {"taints": [_taint(text) for text in taints]} if taints else {}
    if cordoned:
        spec["unschedulable"] = True
    if provider:
        spec["providerID"] = provider
    status = {
        "capacity": amounts,
        "allocatable": {**amounts, **{key: str(value) for key, value in (allocatable or {}).items()}},
        "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
        "nodeInfo": {"kubeletVersion": kubelet},
    }
    return thing("Node", name, labels=labels, annotations=dict(annotations or {}), spec=spec, status=status)


def _taint(text: str) -> Raw:
    rest, _, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    return {"key": key, "value": value, "effect": effect}


def pod(
    name: str,
    on: str | None = None,
    asks: Mapping[str, int | str] | None = None,
    *,
    namespace: str = "rag",
    phase: str = "Running",
    **more: Any,
) -> Raw:
    """A pod with one container that asks for `asks`; `more` goes to spec, metadata or status."""
    amounts = {key: str(value) for key, value in (asks or {}).items()}
    meta = {key: more.pop(key) for key in ("labels", "annotations", "owners") if key in more}
    status = {"phase": phase, **more.pop("status", {})}
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"limits": amounts, "requests": amounts}}
    spec: Raw = {"containers": [container], **more}
    if on is not None:
        spec["nodeName"] = on
    return thing("Pod", name, namespace=namespace, spec=spec, status=status, **meta)


def gfd(
    product: str, count: int, memory: int, more: Mapping[str, str] | None = None, *, replicas: int = 1, strategy: str = "none"
) -> dict[str, str]:
    """The labels of GPU feature discovery that say what a node has; `more` are further ones after nvidia.com/."""
    labels = {
        "gpu.product": product,
        "gpu.count": str(count),
        "gpu.memory": str(memory),
        "gpu.replicas": str(replicas),
        "gpu.sharing-strategy": strategy,
        "mps.capable": "true" if strategy == "mps" else "false",
        **(more or {}),
    }
    return {f"nvidia.com/{key}": value for key, value in labels.items()}


def config_map(name: str, data: Mapping[str, str], *, namespace: str = "gpu") -> Raw:
    """A ConfigMap."""
    return thing("ConfigMap", name, namespace=namespace, data=dict(data))


def plugin(
    on: str,
    *,
    namespace: str = "gpu",
    env: Mapping[str, str] | None = None,
    args: tuple[str, ...] = (),
    mounts: tuple[Raw, ...] = (),
    volumes: tuple[Raw, ...] = (),
    others: tuple[Raw, ...] = (),
) -> Raw:
    """The device plugin's pod on a node, as its DaemonSet "plugin" makes it."""
    container: Raw = {
        "name": "nvidia-device-plugin-ctr",
        "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
        "command": ["nvidia-device-plugin"],
        "args": list(args),
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
        "volumeMounts": list(mounts),
    }
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "plugin", "uid": "d", "controller": True}
    spec = {"nodeName": on, "containers": [container, *others], "volumes": list(volumes)}
    return thing("Pod", f"plugin-{on}", namespace=namespace, spec=spec, status={"phase": "Running"}, owners=[owner])


def managed_plugin(on: str, config: str, *, default: str = "", fallbacks: str = "named,single") -> Raw:
    """The plugin with its config-manager, as the chart makes it when it is given ConfigMap `config`."""
    env = {
        "NODE_LABEL": "nvidia.com/device-plugin.config",
        "CONFIG_FILE_SRCDIR": "/available-configs",
        "CONFIG_FILE_DST": "/config/config.yaml",
        "DEFAULT_CONFIG": default,
        "FALLBACK_STRATEGIES": fallbacks,
    }
    manager = {
        "name": "nvidia-device-plugin-sidecar",
        "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
        "env": [{"name": key, "value": value} for key, value in env.items()],
        "volumeMounts": [{"name": "available-configs", "mountPath": "/available-configs"}],
    }
    volumes = ({"name": "available-configs", "configMap": {"name": config}},)
    return plugin(
        on, env={"CONFIG_FILE": "/config/config.yaml", "MPS_ROOT": "/run/nvidia/mps"}, volumes=volumes, others=(manager,)
    )


def sharing_config(replicas: int, *, kind: str = "timeSlicing", rename: bool = False, resource: str = "nvidia.com/gpu") -> str:
    """A device-plugin configuration that shares one resource."""
    renaming = "\n    renameByDefault: true" if rename else ""
    return f"version: v1\nsharing:\n  {kind}:{renaming}\n    resources:\n    - name: {resource}\n      replicas: {replicas}\n"
