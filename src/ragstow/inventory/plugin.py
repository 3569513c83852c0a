"""The device plugin of a node: where it runs, and which configuration is in force there and why.

Follows the plugin's own precedence (flag, then environment, then file) and its config-manager: the node label names a key of
the mounted ConfigMap, else the default, else the fallback strategies (k8s-device-plugin cmd/config-manager). What the
configuration amounts to is `sharing`'s knowledge; here it is only found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ragstow import kubeyaml
from ragstow.cluster.objects import KubeObject, Node, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import InputError
from ragstow.facts.allocators import Allocators
from ragstow.inventory.model import PluginConfigInForce

CONFIG_LABEL = "nvidia.com/device-plugin.config"
_OPERATOR_GROUP, _POLICY_KIND = "nvidia.com", "ClusterPolicy"
_KINDS = ("device-plugin", "cloud-device-plugin")
_OVERRIDES = {"MIG_STRATEGY": "migStrategy", "DEVICE_LIST_STRATEGY": "deviceListStrategy"}
_FLAGS = {"--mig-strategy": "migStrategy", "--device-list-strategy": "deviceListStrategy"}


@dataclass(frozen=True, slots=True)
class PluginPod:
    """The pod (or the pod template) that a node's device plugin runs as. `kind` is the allocator's name in the facts."""

    kind: str
    owner: KubeObject
    namespace: str
    spec: Mapping[str, Any]
    container: Mapping[str, Any]

    @property
    def ref(self) -> str:
        """The DaemonSet behind the pod where it is known: pods come and go."""
        above = self.owner.controller
        return f"{above.kind} {self.namespace}/{above.name}" if above is not None else self.owner.ref

    @property
    def environment(self) -> Mapping[str, str]:
        """Literal environment of the plugin's container."""
        return environment(self.container)


class Plugins:
    """Finds the plugin and its configuration node by node; made once for a snapshot."""

    def __init__(self, snapshot: Snapshot, allocators: Allocators, pods_by_node: Mapping[str, Iterable[Pod]]) -> None:
        self._snapshot = snapshot
        self._allocators = allocators
        self._pods = pods_by_node
        self._templates = [
            found
            for item in (*snapshot.of("DaemonSet", "apps"), *snapshot.of("DaemonSet", "extensions"))
            if (found := self._plugin(item, _mapping(_mapping(_mapping(item.raw.get("spec")).get("template")).get("spec"))))
        ]
        self._policy = next(iter(snapshot.of(_POLICY_KIND, _OPERATOR_GROUP)), None)

    @property
    def templates(self) -> tuple[PluginPod, ...]:
        """The plugins that DaemonSets run, in the order of the snapshot."""
        return tuple(self._templates)

    def on(self, node: Node, *, serves: bool) -> PluginPod | None:
        """The plugin of a node: its pod there, else the only DaemonSet of one, if the node is served at all.

        Args:
            node: the node.
            serves: whether the node offers GPU resources; saved clusters may lack the pods of kube-system.
        """
        for pod in self._pods.get(node.name, ()):
            if (found := self._plugin(pod, pod.spec)) is not None:
                return found
        if not serves:
            return None
        visible = {found.owner.name for pods in self._pods.values() for pod in pods if (found := self._plugin(pod, pod.spec))}
        return self._templates[0] if len(self._templates) == 1 and not visible else None

    def config(self, node: Node, plugin: PluginPod | None) -> PluginConfigInForce | None:
        """The configuration that the plugin of this node runs with; None where there is no plugin to be seen."""
        if plugin is None:
            return self._of_policy(node) if self._policy is not None else None
        if plugin.kind != "device-plugin":
            return PluginConfigInForce(f"the cloud's own plugin ({plugin.ref}), configured by the cloud", None)
        overrides = _overrides(plugin)
        path = _argument(plugin.container, "--config-file") or plugin.environment.get("CONFIG_FILE")
        if not path:
            said = ", ".join(f"{name}={value}" for name, value in overrides.items())
            return PluginConfigInForce(
                f"no configuration file: the plugin's defaults{f' and {said}' if said else ''} ({plugin.ref})",
                None,
                overrides=overrides,
            )
        manager = _config_manager(plugin.spec, path)
        found = self._managed(node, plugin, manager) if manager is not None else self._mounted(plugin, path)
        return PluginConfigInForce(found.origin, found.config, found.config_map, found.key, overrides)

    def _managed(self, node: Node, plugin: PluginPod, manager: Mapping[str, Any]) -> PluginConfigInForce:
        env = environment(manager)
        volume = _volume_at(manager, plugin.spec, env.get("CONFIG_FILE_SRCDIR", ""))
        name = _config_map_name(volume)
        if name is None:
            return PluginConfigInForce(f"{plugin.ref} mounts no ConfigMap for its configuration", None)
        label = env.get("NODE_LABEL") or CONFIG_LABEL
        return self._choose(
            node,
            (plugin.namespace, name),
            label,
            env.get("DEFAULT_CONFIG", ""),
            [strategy for strategy in env.get("FALLBACK_STRATEGIES", "").split(",") if strategy],
        )

    def _choose(
        self, node: Node, config_map: tuple[str, str], label: str, default: str, fallbacks: list[str]
    ) -> PluginConfigInForce:
        """What the config-manager links for this node (cmd/config-manager/main.go: updateSymlink)."""
        where = f"ConfigMap {config_map[0]}/{config_map[1]}"
        data = self._data(config_map)
        key, why = node.labels.get(label, ""), f"by node label {label}"
        if not key:
            key, why = default, "the default"
        if not key and data is not None:
            key, why = _fallback(sorted(data), fallbacks)
            if not key:
                return PluginConfigInForce(f"{where}, but {why}", None, config_map)
        if data is None:
            return PluginConfigInForce(
                f"{where} key {key or '?'}, {why}; the ConfigMap is not in the data", None, config_map, key or None
            )
        if key not in data:
            return PluginConfigInForce(
                f"{where} has no key {key!r}, which is named {why}: the old state stays", None, config_map, key
            )
        return PluginConfigInForce(f"{where} key {key}, {why}", parse(data[key]), config_map, key)

    def _mounted(self, plugin: PluginPod, path: str) -> PluginConfigInForce:
        """A ConfigMap mounted straight at the file's path."""
        for mount in map(_mapping, _sequence(plugin.container.get("volumeMounts"))):
            at = str(mount.get("mountPath") or "").rstrip("/")
            if path != at and not path.startswith(f"{at}/"):
                continue
            volume = _volume(plugin.spec, str(mount.get("name") or ""))
            name = _config_map_name(volume)
            if name is None:
                continue
            key = str(mount.get("subPath") or "") or path.removeprefix(f"{at}/")
            items = _sequence(_mapping(volume.get("configMap")).get("items"))
            key = next((str(item.get("key")) for item in map(_mapping, items) if item.get("path") == key), key)
            config_map = (plugin.namespace, name)
            data = self._data(config_map)
            where = f"ConfigMap {plugin.namespace}/{name} key {key}, mounted by {plugin.ref}"
            if data is None:
                return PluginConfigInForce(f"{where}; the ConfigMap is not in the data", None, config_map, key)
            return PluginConfigInForce(where, parse(data[key]) if key in data else None, config_map, key)
        return PluginConfigInForce(f"the file {path} of the host or image, which is not in the data ({plugin.ref})", None)

    def _of_policy(self, node: Node) -> PluginConfigInForce | None:
        """What the GPU Operator would make of its ClusterPolicy, where the plugin itself is not in the data."""
        policy = self._policy
        assert policy is not None
        spec = _mapping(policy.raw.get("spec"))
        config = _mapping(_mapping(spec.get("devicePlugin")).get("config"))
        strategy = _mapping(spec.get("mig")).get("strategy")
        overrides = {"migStrategy": str(strategy)} if strategy else {}
        name = str(config.get("name") or "")
        if not name:
            return PluginConfigInForce(f"{policy.ref} names no configuration: the plugin's defaults", None, overrides=overrides)
        namespace = str(_mapping(policy.raw.get("status")).get("namespace") or "") or self._namespace_of(name)
        chosen = self._choose(node, (namespace, name), CONFIG_LABEL, str(config.get("default") or ""), ["empty"])
        return PluginConfigInForce(f"{chosen.origin} ({policy.ref})", chosen.config, chosen.config_map, chosen.key, overrides)

    def _namespace_of(self, config_map: str) -> str:
        found = [item.namespace for item in self._snapshot.of("ConfigMap") if item.name == config_map]
        return found[0] if found else ""

    def _data(self, config_map: tuple[str, str]) -> Mapping[str, str] | None:
        found = self._snapshot.get("ConfigMap", config_map[1], config_map[0])
        return None if found is None else {str(key): str(text) for key, text in _mapping(found.raw.get("data")).items()}

    def _plugin(self, owner: KubeObject, spec: Mapping[str, Any]) -> PluginPod | None:
        for container in map(_mapping, _sequence(spec.get("containers"))):
            found = self._allocators.of_container(str(container.get("name") or ""), str(container.get("image") or ""))
            if found is not None and found.allocator in _KINDS:
                return PluginPod(found.allocator, owner, owner.namespace, spec, container)
        return None


def parse(text: str) -> Mapping[str, Any] | None:
    """A configuration file as a mapping; None where it is none (the plugin reads only the first document)."""
    try:
        documents = kubeyaml.load_all(text)
    except InputError:
        return None
    value = documents[0].value if documents else {}
    return value if isinstance(value, dict) else None


def environment(container: Mapping[str, Any]) -> dict[str, str]:
    """Literal environment variables of a container."""
    return {
        str(item.get("name")): str(item.get("value"))
        for item in map(_mapping, _sequence(container.get("env")))
        if item.get("value") is not None
    }


def _overrides(plugin: PluginPod) -> dict[str, str]:
    """Settings of environment and flags, which beat the file; the flag beats the environment."""
    env = plugin.environment
    found = {setting: env[name] for name, setting in _OVERRIDES.items() if env.get(name)}
    for flag, setting in _FLAGS.items():
        if value := _argument(plugin.container, flag):
            found[setting] = value
    return found


def _argument(container: Mapping[str, Any], flag: str) -> str:
    words = [str(word) for key in ("command", "args") for word in _sequence(container.get(key))]
    for index, word in enumerate(words):
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
        if word == flag and index + 1 < len(words):
            return words[index + 1]
    return ""


def _config_manager(spec: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    for key in ("containers", "initContainers"):
        for container in map(_mapping, _sequence(spec.get(key))):
            env = environment(container)
            if env.get("CONFIG_FILE_DST") == path and env.get("CONFIG_FILE_SRCDIR"):
                return container
    return None


def _fallback(keys: list[str], strategies: list[str]) -> tuple[str, str]:
    """(key, why) by the fallback strategies in their order; an empty key with the reason where none applies."""
    for strategy in strategies:
        if strategy == "named" and "default" in keys:
            return "default", "the key named default (fallback)"
        if strategy == "single" and len(keys) == 1:
            return keys[0], "the only key (fallback)"
        if strategy == "empty":
            return "", "no node label and no default choose a key: the plugin runs without configuration"
    return "", "no node label, no default and no fallback choose a key: the plugin does not start"


def _volume_at(container: Mapping[str, Any], spec: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    for mount in map(_mapping, _sequence(container.get("volumeMounts"))):
        if str(mount.get("mountPath") or "").rstrip("/") == path.rstrip("/"):
            return _volume(spec, str(mount.get("name") or ""))
    return {}


def _volume(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return next((volume for volume in map(_mapping, _sequence(spec.get("volumes"))) if volume.get("name") == name), {})


def _config_map_name(volume: Mapping[str, Any]) -> str | None:
    name = _mapping(volume.get("configMap")).get("name")
    return name if isinstance(name, str) and name else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
