"""The GPU Operator is given a plugin ConfigMap, and nothing selects one of its keys, or the default is no key of it.

What
    ClusterPolicy `devicePlugin.config.name` names a ConfigMap, `devicePlugin.config.default` is empty (and no GPU node of the cluster
    carries the label nvidia.com/device-plugin.config), or names a key that the ConfigMap does not have.

Why
    The operator falls back to an empty configuration: nothing is shared, nothing is logged ("I created the ConfigMap and nothing
    changed"). With a default that does not exist the plugin's pods do not start at all.

Fix
    Set devicePlugin.config.default to a key of the ConfigMap, or label the nodes.

References
    - NVIDIA device plugin: cmd/config-manager (fallback strategies); GPU Operator: FALLBACK_STRATEGIES=empty

Fires (lint): no default
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy}
    spec: {devicePlugin: {config: {name: plugin}}}

Quiet (lint): a default
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy}
    spec: {devicePlugin: {config: {name: plugin, default: any}}}

Fires (lint): the default is no key
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy}
    spec: {devicePlugin: {config: {name: plugin, default: shared}}}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin, namespace: gpu-operator}
    data: {any: "version: v1"}

Quiet (lint): it is
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy}
    spec: {devicePlugin: {config: {name: plugin, default: any}}}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin, namespace: gpu-operator}
    data: {any: "version: v1"}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.cluster.objects import KubeObject
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.policies import plugin_config
from ragstow.rules.rule import Rule

_LABEL = "nvidia.com/device-plugin.config"


class PluginConfigUnselected(Rule):
    """See the page above."""

    cause = "plugin-config-unselected"
    severity = "medium"
    needs = frozenset({"manifest"})
    asks_cluster = True

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each ClusterPolicy."""
        for manifest in context.of("ClusterPolicy"):
            ref = ObjectRef.of(manifest.object)
            name, default = plugin_config(manifest.object)
            found = _config_map(context, name) if name else None
            keys = sorted(found.raw.get("data") or ()) if found is not None else []
            nodes = context.cluster.snapshot.nodes if context.cluster is not None else ()
            unseen = False
            if name and not default and not any(_LABEL in node.labels for node in nodes):
                unseen = context.cluster is None
                text = f"{ref} gives the plugin ConfigMap {name} and selects no key of it"
                why = "Without a default and without node labels the operator runs the plugin with an empty configuration."
            elif default and found is not None and default not in keys:
                text = f"{ref}: the default {default} is no key of ConfigMap {name}"
                why = f"It has {', '.join(keys) or 'no key'}. The plugin's pods do not start on nodes without a label of their own."
            else:
                continue
            yield self.finding(
                text,
                why,
                Fix(
                    f"Set spec.devicePlugin.config.default to a key{' (' + ', '.join(keys[:4]) + ')' if keys else ''}, or label the nodes "
                    f"{_LABEL}=<key>."
                ),
                (ref, *([ObjectRef.of(found)] if found is not None else [])),
                severity="low" if unseen else None,  # the labels of the nodes may select it
                evidence=(Evidence(default or "(absent)", ref, "spec.devicePlugin.config.default"),),
                file=manifest.file,
                line=manifest.line("spec", "devicePlugin", "config"),
            )


def _config_map(context: LintContext, name: str) -> KubeObject | None:
    written = [manifest.object for manifest in context.of("ConfigMap")]
    there = context.cluster.snapshot.of("ConfigMap") if context.cluster is not None else ()
    return next((item for item in (*written, *there) if item.name == name), None)
