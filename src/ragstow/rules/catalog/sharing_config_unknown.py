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
from collections.abc import Iterator

from ragstow.cluster.objects import Node
from ragstow.rules.configs import config_texts
from ragstow.rules.context import Context
from ragstow.rules.grouping import by_node, evidence, sure
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule

_LABEL = "nvidia.com/device-plugin.config"


class SharingConfigUnknown(Rule):
    """See the page above."""

    cause = "sharing-config-unknown"
    severity = "high"
    needs = frozenset({"snapshot", "logs"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each name that no ConfigMap has."""
        maps = {
            ObjectRef.of(config.map) for config in config_texts(context.snapshot.of("ConfigMap")) if config.kind == "plugin"
        }
        keys = sorted({config.key for config in config_texts(context.snapshot.of("ConfigMap")) if config.kind == "plugin"})
        asked: dict[str, list[Node]] = {}
        for node in context.snapshot.nodes:
            name = node.labels.get(_LABEL)
            if name and maps and name not in keys:
                asked.setdefault(name, []).append(node)
        for name, nodes in asked.items():
            close = difflib.get_close_matches(name, keys, 1) or keys[:1]
            yield self.finding(
                f"node label {_LABEL}={name} names a configuration that does not exist ({len(nodes)} node(s))",
                f"The plugin's ConfigMap has {', '.join(keys)}. The config manager ends with an error; a running plugin keeps its old "
                "configuration, and a new plugin pod does not start.",
                Fix(
                    f"Set the label to a key that exists, or add the key {name} to the ConfigMap.",
                    command=f"kubectl label node {nodes[0].name} {_LABEL}={close[0]} --overwrite",
                    disruption="reloads the device plugin of the node",
                    check="the plugin pod is Ready, allocatable is as wanted",
                ),
                (*map(ObjectRef.of, nodes), *sorted(maps)),
                evidence=(
                    *(Evidence(name, ObjectRef.of(node), f"metadata.labels[{_LABEL}]") for node in nodes[:3]),
                    *(Evidence(", ".join(keys), ref, "data") for ref in sorted(maps)),
                ),
            )
        if not asked:
            for site, hits in by_node(context.texts.of_cause(self.cause)):
                yield self.finding(
                    f"the device plugin on {site.words} is told to use a configuration that does not exist",
                    "The config manager found no such key; with an empty name the default itself is missing from the ConfigMap.",
                    Fix("Name a key that exists, as node label or as default.", check="the plugin pod is Ready"),
                    site.objects,
                    evidence=evidence(hits),
                    held=site.pods,
                    confidence=sure(hits),
                )
