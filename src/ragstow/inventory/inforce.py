"""Which device-plugin configuration is in force on a node, and where that is written.

Follows the plugin's precedence (flag, then environment, then file) and its config-manager: the node label names a key of the
mounted ConfigMap, else the default, else the fallback strategies (k8s-device-plugin cmd/config-manager). What a configuration
amounts to is `sharing`'s knowledge; here it is found and handed on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragstow.cluster.objects import KubeObject, Node
from ragstow.cluster.snapshot import Snapshot
from ragstow.inventory import rawspec
from ragstow.inventory.model import PluginConfigInForce
from ragstow.inventory.plugin import PluginPod
from ragstow.inventory.rawspec import Spec
from ragstow.sharing import commandline, verdict
from ragstow.sharing.gojson import Refused

CONFIG_LABEL = "nvidia.com/device-plugin.config"
POLICY = ("ClusterPolicy", "nvidia.com")
_SHOWN = {"mig-strategy": "migStrategy", "device-list-strategy": "deviceListStrategy"}
"""Settings that are worth a word when environment or flags give them."""


@dataclass(frozen=True, slots=True)
class _File:
    """A configuration file; `text` is None where there is none, `known` False where the data lack what the plugin reads."""

    origin: str
    text: str | None = None
    config_map: tuple[str, str] | None = None
    key: str | None = None
    known: bool = True


def in_force(snapshot: Snapshot, node: Node, plugin: PluginPod | None) -> PluginConfigInForce | None:
    """The configuration that the plugin of this node runs with; None where no plugin and no ClusterPolicy are to be seen."""
    if plugin is None:
        policy = next(iter(snapshot.of(*POLICY)), None)
        return None if policy is None else _of_policy(snapshot, node, policy)
    if not plugin.vendor:
        return PluginConfigInForce(f"the cloud's own plugin ({plugin.ref}), configured by the cloud", None)
    try:
        given = commandline.given(commandline.PLUGIN_OPTIONS, plugin.environment, plugin.arguments)
    except Refused as error:
        return PluginConfigInForce(f"the plugin ends: {error.text} ({plugin.ref})", None)
    overrides = {shown: _text(given[name]) for name, shown in _SHOWN.items() if name in given}
    path = given.get("config-file")
    if path:
        manager = _config_manager(plugin.spec, path)
        file = _mounted(snapshot, plugin, path) if manager is None else _managed(snapshot, node, plugin, manager)
    else:
        said = "".join(f", {name}={value}" for name, value in overrides.items())
        file = _File(f"no configuration file: the plugin's defaults{said} ({plugin.ref})")
    return _read(file, overrides, plugin.environment, plugin.arguments)


def _read(file: _File, overrides: Mapping[str, str], env: Mapping[str, str], args: Sequence[str] = ()) -> PluginConfigInForce:
    """What the plugin makes of file, environment and flags."""
    origin, config = file.origin, None
    if file.known:
        said = verdict.plugin(file.text, env=env, args=args)
        if said.failure is not None:
            origin = f"{origin}; the plugin refuses it: {said.failure.text}"
        elif said.effective is not None:
            config = said.effective.to_json()
    return PluginConfigInForce(origin, config, file.config_map, file.key, overrides)


def _managed(snapshot: Snapshot, node: Node, plugin: PluginPod, manager: Spec) -> _File:
    """A file that the config-manager links."""
    env = rawspec.environment(manager)
    source = env["CONFIG_FILE_SRCDIR"].rstrip("/")
    name = next(
        (
            rawspec.config_map_name(rawspec.volume(plugin.spec, str(mount.get("name") or "")))
            for path, mount in rawspec.mounts(manager)
            if path == source
        ),
        None,
    )
    if name is None:
        return _File(f"{plugin.ref} mounts no ConfigMap for its configuration", known=False)
    fallbacks = [strategy for strategy in env.get("FALLBACK_STRATEGIES", "").split(",") if strategy]
    label = env.get("NODE_LABEL") or CONFIG_LABEL
    return _choose(snapshot, node, (plugin.namespace, name), label, env.get("DEFAULT_CONFIG", ""), fallbacks)


def _choose(
    snapshot: Snapshot, node: Node, config_map: tuple[str, str], label: str, default: str, fallbacks: Sequence[str]
) -> _File:
    """What the config-manager links for this node (cmd/config-manager/main.go: updateSymlink)."""
    where = f"ConfigMap {config_map[0]}/{config_map[1]}"
    data = _data(snapshot, config_map)
    key, why = node.labels.get(label, ""), f"by node label {label}"
    if not key:
        key, why = default, "the default"
    if not key and data is not None:
        key, why = _fallback(sorted(data), fallbacks)
        if not key:
            return _File(f"{where}, but {why}", None, config_map, known="empty" in fallbacks)
    if data is None:
        text = f"{where} key {key or '?'}, {why}; the ConfigMap is not in the data"
        return _File(text, None, config_map, key or None, known=False)
    if key not in data:
        text = f"{where} has no key {key!r}, which is named {why}: the plugin keeps what it had, or does not start"
        return _File(text, None, config_map, key, known=False)
    return _File(f"{where} key {key}, {why}", data[key], config_map, key)


def _fallback(keys: Sequence[str], strategies: Sequence[str]) -> tuple[str, str]:
    """(key, why) by the fallback strategies in their order; an empty key with the reason where none applies."""
    for strategy in strategies:
        if strategy == "named" and "default" in keys:
            return "default", "the key named default (fallback)"
        if strategy == "single" and len(keys) == 1:
            return keys[0], "the only key (fallback)"
        if strategy == "empty":
            return "", "no node label and no default choose a key: the plugin runs without configuration"
    return "", "no node label, no default and no fallback choose a key: the plugin does not start"


def _mounted(snapshot: Snapshot, plugin: PluginPod, path: str) -> _File:
    """A file out of a ConfigMap that is mounted straight at its path."""
    for at, mount in rawspec.mounts(plugin.container):
        if path != at and not path.startswith(f"{at}/"):
            continue
        found = rawspec.volume(plugin.spec, str(mount.get("name") or ""))
        name = rawspec.config_map_name(found)
        if name is None:
            continue
        key = str(mount.get("subPath") or "") or path.removeprefix(f"{at}/")
        items = map(rawspec.mapping, rawspec.sequence(rawspec.mapping(found.get("configMap")).get("items")))
        key = next((str(item.get("key")) for item in items if item.get("path") == key), key)
        config_map = (plugin.namespace, name)
        data = _data(snapshot, config_map)
        where = f"ConfigMap {plugin.namespace}/{name} key {key}, mounted by {plugin.ref}"
        if data is None:
            return _File(f"{where}; the ConfigMap is not in the data", None, config_map, key, known=False)
        if key not in data:
            return _File(f"{where}; there is no such key", None, config_map, key, known=False)
        return _File(where, data[key], config_map, key)
    return _File(f"the file {path} of the host or image, which is not in the data ({plugin.ref})", known=False)


def _of_policy(snapshot: Snapshot, node: Node, policy: KubeObject) -> PluginConfigInForce:
    """What the GPU Operator would make of its ClusterPolicy, where the plugin itself is not in the data.

    It exports mig.strategy to the plugin whenever it is set, and environment beats file (controllers/object_controls.go); it
    sets the fallback strategy `empty`.
    """
    spec = rawspec.mapping(policy.raw.get("spec"))
    config = rawspec.mapping(rawspec.mapping(spec.get("devicePlugin")).get("config"))
    strategy = rawspec.mapping(spec.get("mig")).get("strategy")
    env = {"MIG_STRATEGY": str(strategy)} if strategy else {}
    overrides = {"migStrategy": str(strategy)} if strategy else {}
    name = str(config.get("name") or "")
    if not name:
        return _read(_File(f"{policy.ref} names no configuration: the plugin's defaults"), overrides, env)
    namespace = str(rawspec.mapping(policy.raw.get("status")).get("namespace") or "") or _namespace_of(snapshot, name)
    file = _choose(snapshot, node, (namespace, name), CONFIG_LABEL, str(config.get("default") or ""), ["empty"])
    return _read(replace(file, origin=f"{file.origin} ({policy.ref})"), overrides, env)


def _namespace_of(snapshot: Snapshot, config_map: str) -> str:
    return next((item.namespace for item in snapshot.of("ConfigMap") if item.name == config_map), "")


def _config_manager(spec: Spec, path: str) -> Spec | None:
    """The container that links the configuration file at `path`."""
    for key in ("containers", "initContainers"):
        for container in rawspec.containers(spec, key):
            env = rawspec.environment(container)
            if env.get("CONFIG_FILE_DST") == path and env.get("CONFIG_FILE_SRCDIR"):
                return container
    return None


def _data(snapshot: Snapshot, config_map: tuple[str, str]) -> Mapping[str, str] | None:
    found = snapshot.get("ConfigMap", config_map[1], config_map[0])
    return None if found is None else {str(key): str(text) for key, text in rawspec.mapping(found.raw.get("data")).items()}


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
