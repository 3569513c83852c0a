"""How the cluster's GPUs are served: who installed the device plugin, where its configuration is, and what pods need for it.

Reads DaemonSets, the operator's ClusterPolicy and ConfigMaps; what they contain is handed on as it is. Nothing is decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstow.cluster.objects import KubeObject
from ragstow.cluster.snapshot import Snapshot
from ragstow.facts import Facts
from ragstow.inventory.model import Inventory
from ragstow.plan.model import PluginInstall

_POLICY_GROUP, _POLICY_KIND = "nvidia.com", "ClusterPolicy"
_DEFAULT_MIG_CONFIG = "default-mig-parted-config"
_MIG_KEY = "config.yaml"
_GFD_LABEL = "nvidia.com/gfd.timestamp"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def plugin_install(snapshot: Snapshot, inventory: Inventory, facts: Facts) -> PluginInstall:
    """The device plugin's installation; kind "none" where nothing serves GPUs."""
    programs = _programs(snapshot, facts)
    policy = next(iter(snapshot.of(_POLICY_KIND, _POLICY_GROUP)), None)
    gfd = "feature-discovery" in programs or any(_GFD_LABEL in node.labels for node in snapshot.nodes)
    plugin = programs.get("device-plugin")
    if policy is not None:
        return _of_operator(snapshot, policy, plugin, gfd=gfd)
    if plugin is None:
        serves = {node.sharing for node in inventory.nodes if node.cards or node.resources}
        if "dra" in serves or "dra-driver" in programs:
            driver = programs.get("dra-driver")
            return PluginInstall("dra", namespace=driver.namespace if driver else None, gfd=gfd)
        return PluginInstall("cloud" if serves - {"none"} else "none", gfd=gfd)
    if _managed_by_cloud(snapshot, facts):
        return PluginInstall("cloud", plugin.namespace, plugin.name, gfd=gfd, image=_image(plugin, facts))
    release = _release(plugin)
    name, default = _mounted(plugin)
    data = _data(snapshot, plugin.namespace, name)
    return PluginInstall(
        kind="chart" if release else "static",
        namespace=plugin.namespace,
        daemonset=plugin.name,
        release=release,
        config_map=name,
        config_keys=tuple(sorted(data)),
        config_default=default,
        config_data=data,
        mig_strategy=_environment(_container(plugin, facts)).get("MIG_STRATEGY"),
        gfd=gfd,
        image=_image(plugin, facts),
    )


def plugin_environment(snapshot: Snapshot, install: PluginInstall, facts: Facts) -> dict[str, str]:
    """The literal environment of the device plugin's container; empty where the plugin is not in the data."""
    if not install.daemonset:
        return {}
    daemonset = snapshot.get("DaemonSet", install.daemonset, install.namespace or "", "apps")
    return _environment(_container(daemonset, facts)) if daemonset is not None else {}


def runtime_classes(snapshot: Snapshot) -> tuple[str, ...]:
    """The names of all RuntimeClasses."""
    return tuple(sorted(item.name for item in snapshot.of("RuntimeClass", "node.k8s.io")))


def runtime_class_needed(snapshot: Snapshot, install: PluginInstall, facts: Facts) -> str | None:
    """The RuntimeClass without which a GPU pod sees no card there; None where the default runtime does it.

    Needed where the distribution keeps another default (facts), or where the plugin itself, installed by chart or manifest,
    had to name one. Under the GPU Operator pods need none (CDI, or the toolkit's default runtime).
    """
    present = runtime_classes(snapshot)
    for node in snapshot.nodes:
        cloud = facts.clouds.of_node(node.labels, _provider(node), node.kubelet_version or "")
        if cloud is not None and cloud.runtime_class in present:
            return cloud.runtime_class
    if install.kind in ("chart", "static") and install.daemonset:
        daemonset = snapshot.get("DaemonSet", install.daemonset, install.namespace or "", "apps")
        named = _pod_spec(daemonset).get("runtimeClassName") if daemonset is not None else None
        if isinstance(named, str) and named in present:
            return named
    return None


def default_storage_class(snapshot: Snapshot) -> str | None:
    """The name of the default StorageClass (the newest, as the API server takes it); None where there is none."""
    marked = [item for item in snapshot.of("StorageClass", "storage.k8s.io") if item.annotations.get(_DEFAULT_CLASS) == "true"]
    return max(marked, key=lambda item: (item.created or "", item.name)).name if marked else None


def _release(plugin: KubeObject) -> str | None:
    """The Helm release that made the plugin; None where no chart did."""
    named = plugin.annotations.get("meta.helm.sh/release-name")
    if named is not None and named != "(redacted)":
        return named
    by_helm = plugin.labels.get("app.kubernetes.io/managed-by") == "Helm" or "helm.sh/chart" in plugin.labels
    label = plugin.labels.get("app.kubernetes.io/instance") if by_helm else None
    # A capture may hide the name; the chart calls its DaemonSet after the release.
    return label or (plugin.name.removesuffix("-nvidia-device-plugin") if named is not None else None)


def _of_operator(snapshot: Snapshot, policy: KubeObject, plugin: KubeObject | None, *, gfd: bool) -> PluginInstall:
    spec = _mapping(policy.raw.get("spec"))
    config = _mapping(_mapping(spec.get("devicePlugin")).get("config"))
    manager = _mapping(spec.get("migManager"))
    namespace = plugin.namespace if plugin is not None else str(_mapping(policy.raw.get("status")).get("namespace") or "")
    name = str(config.get("name") or "") or None
    data = _data(snapshot, namespace, name)
    layouts = str(_mapping(manager.get("config")).get("name") or "") or _DEFAULT_MIG_CONFIG
    return PluginInstall(
        kind="operator",
        namespace=namespace or None,
        daemonset=plugin.name if plugin is not None else None,
        config_map=name,
        config_keys=tuple(sorted(data)),
        config_default=str(config.get("default") or "") or None,
        config_data=data,
        cluster_policy=policy.name,
        mig_strategy=str(_mapping(spec.get("mig")).get("strategy") or "") or None,
        mig_config_map=None if manager.get("enabled") is False else layouts,
        mig_config_data=_data(snapshot, namespace, layouts),
        gfd=gfd,
    )


def _programs(snapshot: Snapshot, facts: Facts) -> dict[str, KubeObject]:
    """Role of a program of the GPU stack -> the first DaemonSet that runs it, by name."""
    found: dict[str, KubeObject] = {}
    for item in sorted(snapshot.of("DaemonSet", "apps"), key=lambda item: (item.namespace, item.name)):
        for container in _containers(item):
            program = facts.stack.program(str(container.get("name") or ""), str(container.get("image") or ""))
            if program is not None:
                found.setdefault(program.role, item)
    return found


def _managed_by_cloud(snapshot: Snapshot, facts: Facts) -> bool:
    for node in snapshot.nodes:
        cloud = facts.clouds.of_node(node.labels, _provider(node), node.kubelet_version or "")
        if cloud is not None and cloud.plugin_managed:
            return True
    return False


def _mounted(daemonset: KubeObject) -> tuple[str | None, str | None]:
    """The ConfigMap that the plugin or its config-manager mounts, and the default key."""
    spec = _pod_spec(daemonset)
    default = next(
        (value for item in _containers(daemonset) if (value := _environment(item).get("DEFAULT_CONFIG"))),
        None,
    )
    for volume in map(_mapping, _sequence(spec.get("volumes"))):
        name = _mapping(volume.get("configMap")).get("name")
        if isinstance(name, str) and ("config" in str(volume.get("name"))):
            return name, default
    return None, default


def _container(daemonset: KubeObject, facts: Facts) -> Mapping[str, Any]:
    for container in _containers(daemonset):
        program = facts.stack.program(str(container.get("name") or ""), str(container.get("image") or ""))
        if program is not None and program.role == "device-plugin":
            return container
    return {}


def _image(daemonset: KubeObject, facts: Facts) -> str | None:
    image = _container(daemonset, facts).get("image")
    return image if isinstance(image, str) and image else None


def _containers(daemonset: KubeObject) -> list[Mapping[str, Any]]:
    return [_mapping(item) for item in _sequence(_pod_spec(daemonset).get("containers"))]


def _pod_spec(daemonset: KubeObject) -> Mapping[str, Any]:
    return _mapping(_mapping(_mapping(daemonset.raw.get("spec")).get("template")).get("spec"))


def _environment(container: Mapping[str, Any]) -> dict[str, str]:
    return {
        str(item.get("name")): str(item.get("value"))
        for item in map(_mapping, _sequence(container.get("env")))
        if item.get("value") is not None
    }


def _data(snapshot: Snapshot, namespace: str | None, name: str | None) -> dict[str, str]:
    found = snapshot.get("ConfigMap", name, namespace or "") if name else None
    data = _mapping(found.raw.get("data")) if found is not None else {}
    return {str(key): str(data[key]) for key in sorted(data)}


def _provider(node: KubeObject) -> str:
    value = _mapping(node.raw.get("spec")).get("providerID")
    return value if isinstance(value, str) else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
