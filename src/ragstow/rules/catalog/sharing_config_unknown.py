"""A node label, or the default, names a plugin configuration that the ConfigMap does not have.

What
    `nvidia.com/device-plugin.config=<key>` on a node, or the plugin's default, names a key that is not in the ConfigMap. The config
    manager says "specified config … does not exist" and exits.

Why
    A running plugin keeps its old configuration, a new pod never starts: the sidecar (or the init container) crash-loops.

Fix
    Add the key to the ConfigMap or set the label to one that exists.

References
    - NVIDIA device plugin: cmd/config-manager

Fires: the label names a key that is not there
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin-configs, namespace: nvidia, uid: c}
    data:
      default: |
        version: v1
        flags: {migStrategy: none}
      shared-4: |
        version: v1
        sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}
    ---
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/device-plugin.config: shared-8, nvidia.com/gpu.present: "true"}}
    status: {capacity: {nvidia.com/gpu: 1}, allocatable: {nvidia.com/gpu: 1}}

Quiet: the key exists
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin-configs, namespace: nvidia, uid: c}
    data:
      default: |
        version: v1
        flags: {migStrategy: none}
      shared-4: |
        version: v1
        sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}
    ---
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/device-plugin.config: shared-4, nvidia.com/gpu.present: "true"}}
    status: {capacity: {nvidia.com/gpu: 4}, allocatable: {nvidia.com/gpu: 4}}
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from ragstow.cluster.objects import Node
from ragstow.rules.configs import config_texts
from ragstow.rules.context import Context
from ragstow.rules.grouping import by_node, evidence, sure
from ragstow.rules.index.stack import template
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.policies import plugin_config
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import gpu_nodes, unserved

_LABEL = "nvidia.com/device-plugin.config"


class SharingConfigUnknown(Rule):
    """See the page above."""

    cause = "sharing-config-unknown"
    severity = "high"
    needs = frozenset({"snapshot", "logs"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each name that the ConfigMap of a node's plugin does not have."""
        asked: dict[tuple[ObjectRef, str], list[Node]] = {}
        for found in gpu_nodes(context):
            node, config = context.snapshot.get("Node", found.name), found.config
            if config is None or config.config_map is None or not config.key or not isinstance(node, Node):
                continue
            data = _data(context, *config.config_map)
            if data is not None and config.key not in data:
                asked.setdefault((ObjectRef("ConfigMap", *config.config_map), config.key), []).append(node)
        asked = asked or _by_label(context)
        if not asked and not gpu_nodes(context):
            asked = {key: [] for key in _by_default(context)}
        for (ref, name), nodes in asked.items():
            yield self._finding(context, ref, name, nodes)
        if not asked:
            for site, hits in by_node(context.texts.of_cause(self.cause)):
                spaces = {hit.text.pod.namespace for hit in hits if hit.text.pod is not None}
                maps = {
                    ObjectRef.of(config.map): config.map
                    for config in config_texts(context.snapshot.of("ConfigMap"))
                    if config.kind == "plugin" and config.map.namespace in spaces
                }
                name = next((said for hit in hits if (said := hit.match.groupdict().get("name"))), "") or _default(context)
                yield self.finding(
                    f"the device plugin on {site.words} is told to use a configuration that does not exist"
                    + (f": {name}" if name else ""),
                    "The config manager found no such key; with an empty name the default itself is missing from the ConfigMap."
                    + "".join(
                        f" {ref} has {', '.join(_data(context, ref.namespace, ref.name) or ()) or 'no key'}." for ref in maps
                    ),
                    Fix("Name a key that exists, as node label or as default.", check="the plugin pod is Ready"),
                    (*site.objects, *maps, *map(ObjectRef.of, context.snapshot.of("ClusterPolicy", "nvidia.com"))),
                    evidence=evidence(hits),
                    held=site.pods,
                    confidence=sure(hits),
                )

    def _finding(self, context: Context, ref: ObjectRef, name: str, nodes: list[Node]) -> Finding:
        keys = sorted(_data(context, ref.namespace, ref.name) or {})
        close = difflib.get_close_matches(name, keys, 1) or keys[:1] or ["<key>"]
        labelled = bool(nodes) and all(node.labels.get(_LABEL) == name for node in nodes)
        plugins = [item for item in context.stack.workloads("device-plugin") if item.namespace == ref.namespace]
        who = f"node label {_LABEL}={name}" if labelled else f"the default {name}"
        return self.finding(
            f"{who} names a configuration that {ref} does not have" + (f" ({len(nodes)} node(s))" if nodes else ""),
            f"The ConfigMap has {', '.join(keys) or 'no key'}. The config manager ends with an error; a running plugin keeps its old "
            "configuration, and a new plugin pod does not start.",
            Fix(
                f"Set the label to a key that exists, or add the key {name} to the ConfigMap."
                if labelled
                else f"Make the default a key that exists (chart: config.default; operator: devicePlugin.config.default), or add the key {name}.",
                command=f"kubectl label node {' '.join(node.name for node in nodes[:5])} {_LABEL}={close[0]} --overwrite"
                if nodes
                else "",
                disruption="reloads the device plugin of the node",
                check=f"kubectl -n {ref.namespace} get pods -o wide   # the plugin pods are Ready; allocatable is as wanted",
            ),
            (*map(ObjectRef.of, nodes), ref, *map(ObjectRef.of, plugins)),
            evidence=(
                *(
                    Evidence(node.labels[_LABEL], ObjectRef.of(node), f"metadata.labels[{_LABEL}]")
                    for node in nodes[:3]
                    if _LABEL in node.labels
                ),
                *(
                    Evidence(f"DEFAULT_CONFIG={name}", ObjectRef.of(item), "spec.template.spec")
                    for item in plugins
                    if not labelled
                ),
                Evidence(", ".join(keys), ref, "data"),
            ),
            held=[key for group in unserved(context, [node.name for node in nodes]) for key in group.held],
        )


def _by_default(context: Context) -> Iterator[tuple[ObjectRef, str]]:
    """(ConfigMap, default) of plugins whose default is no key of the ConfigMap that they mount, in data without GPU nodes."""
    for item in context.stack.workloads("device-plugin"):
        spec = template(item)
        maps = [(volume.get("configMap") or {}).get("name") for volume in spec.get("volumes") or ()]
        containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        told = [entry.get("value") for c in containers for entry in c.get("env") or () if entry.get("name") == "DEFAULT_CONFIG"]
        for name in maps:
            data = _data(context, item.namespace, name) if isinstance(name, str) else None
            if data is not None and told and told[0] and told[0] not in data:
                yield ObjectRef("ConfigMap", item.namespace, str(name)), str(told[0])
                return
    for policy in context.snapshot.of("ClusterPolicy", "nvidia.com"):
        name, default = plugin_config(policy)
        for found in context.snapshot.of("ConfigMap"):
            data = found.raw.get("data")
            if found.name == name and default and isinstance(data, Mapping) and default not in data:
                yield ObjectRef.of(found), default
                return


def _default(context: Context) -> str:
    """The default that a ClusterPolicy names."""
    return next(
        (default for item in context.snapshot.of("ClusterPolicy", "nvidia.com") if (default := plugin_config(item)[1])), ""
    )


def _by_label(context: Context) -> dict[tuple[ObjectRef, str], list[Node]]:
    """Where the plugin itself is not in the data: labels that no configuration of the cluster answers to."""
    maps = {ObjectRef.of(config.map) for config in config_texts(context.snapshot.of("ConfigMap")) if config.kind == "plugin"}
    if not maps:
        return {}
    keys = {key for ref in maps for key in _data(context, ref.namespace, ref.name) or ()}
    asked: dict[tuple[ObjectRef, str], list[Node]] = {}
    for found in gpu_nodes(context):
        node = context.snapshot.get("Node", found.name)
        name = node.labels.get(_LABEL) if node is not None else None
        if isinstance(node, Node) and name and name not in keys and (found.config is None or found.config.config_map is None):
            asked.setdefault((min(maps), name), []).append(node)
    return asked


def _data(context: Context, namespace: str, name: str) -> Mapping[str, object] | None:
    found = context.snapshot.get("ConfigMap", name, namespace)
    data = found.raw.get("data") if found is not None else None
    return data if isinstance(data, Mapping) else None if found is None else {}
