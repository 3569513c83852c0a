"""A time-slicing or MPS configuration has unknown, misplaced or malformed keys.

What
    The device plugin refuses the file, or reads it and silently drops a key that stands in the wrong place: `renameByDefault` under
    `flags`, `replicas` beside `resources`, a misspelt key. The plugin reads non-strictly, so that nothing is logged.

Why
    Sharing then works differently from what the file seems to say: shares keep the plain name, requests for several shares are not
    refused, or nothing is shared at all.

Fix
    Put the key where it belongs; a patch of the ConfigMap is only read after the plugin restarts.

References
    - NVIDIA device plugin: configuration file, version v1 (api/config/v1)

Fires: renameByDefault under flags
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: time-slicing, namespace: kube-system, uid: c}
    data:
      any: |
        version: v1
        flags: {renameByDefault: true}
        sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}
    ---
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {nvidia.com/gpu: 4}, allocatable: {nvidia.com/gpu: 4}}

Quiet: it stands where it belongs
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: time-slicing, namespace: kube-system, uid: c}
    data:
      any: |
        version: v1
        sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 4}]}}
    ---
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {nvidia.com/gpu.shared: 4}, allocatable: {nvidia.com/gpu.shared: 4}}

Fires (lint): one replica is no sharing
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: time-slicing, namespace: kube-system}
    data:
      any: |
        version: v1
        sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}

Quiet (lint): two are
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: time-slicing, namespace: kube-system}
    data:
      any: |
        version: v1
        sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.cluster.objects import KubeObject
from ragstow.rules.configs import ConfigText, config_texts, trouble
from ragstow.rules.context import Context
from ragstow.rules.grouping import by_node, evidence, sure
from ragstow.rules.manifests import LintContext, Manifest
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import gpu_nodes, unserved

_READERS = ("device-plugin", "mps-daemon")


class SharingConfigInvalid(Rule):
    """See the page above."""

    cause = "sharing-config-invalid"
    severity = "medium"
    needs = frozenset({"manifest", "snapshot", "logs"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each configuration that is wrong, then for logs whose configuration is not in the data."""
        found = False
        for item in context.snapshot.of("ConfigMap"):
            for finding in self._judge(item, context=context):
                found = True
                yield finding
        hits = [
            hit
            for hit in context.texts.of_cause(self.cause, strong=True)
            if hit.signature.software in _READERS and _plugin_said(hit.text.pod, context)
        ]
        if found:
            return
        for site, members in by_node(hits):
            yield self.finding(
                f"the {'MPS daemon' if members[0].signature.software == _READERS[1] else 'device plugin'} on {site.words} refuses its "
                "configuration",
                members[0].text.value.strip(),
                Fix("Mend the configuration file and restart the plugin.", check="the plugin pod is Ready"),
                site.objects,
                evidence=evidence(members),
                held=[
                    *site.pods,
                    *(key for group in unserved(context, [site.node] if site.node else ()) for key in group.held),
                ],
                confidence=sure(members),
            )

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """The same for manifests."""
        for manifest in context.of("ConfigMap"):
            yield from self._judge(manifest.object, manifest)

    def _judge(self, item: KubeObject, manifest: Manifest | None = None, context: Context | None = None) -> Iterator[Finding]:
        for config in config_texts((item,)):
            wrong = trouble(config) if config.kind == "plugin" else ()
            if wrong:
                ref = ObjectRef.of(item)
                nodes, plugins = _users(context, config) if context is not None else ([], [])
                held = unserved(context, nodes) if context is not None else ()
                restart = plugins[0] if plugins else None
                yield self.finding(
                    f"{ref} key {config.key}: {wrong[0]}",
                    "The device plugin reads its configuration non-strictly: " + "; ".join(wrong) + ".",
                    Fix(
                        "Put the key where it belongs and restart the plugin, which reads a changed ConfigMap only at its start.",
                        command=f"kubectl -n {item.namespace} edit configmap {item.name} && "
                        f"kubectl -n {restart.namespace} rollout restart daemonset {restart.name}"
                        if restart
                        else f"kubectl -n {item.namespace} edit configmap {item.name}",
                        disruption="restarts the device plugin; running pods keep their devices",
                        check="the node's allocatable shows the wanted resource names and counts",
                    ),
                    (ref, *(ObjectRef("Node", "", node) for node in nodes), *plugins),
                    evidence=[Evidence(text, ref, f"data[{config.key}]") for text in wrong],
                    held=[key for group in held for key in group.held],
                    file=manifest.file if manifest is not None else None,
                    line=manifest.line("data", config.key) if manifest is not None else None,
                )


def _users(context: Context, config: ConfigText) -> tuple[list[str], list[ObjectRef]]:
    """(nodes whose plugin reads this configuration, DaemonSets of plugins in its namespace)."""
    where = (config.map.namespace, config.map.name)
    nodes = [
        node.name
        for node in gpu_nodes(context)
        if node.config is not None and node.config.config_map == where and node.config.key == config.key
    ]
    plugins = [
        ObjectRef.of(item)
        for item in context.stack.workloads("device-plugin")
        if item.kind == "DaemonSet" and item.namespace == config.map.namespace
    ]
    return nodes, plugins


def _plugin_said(pod: object, context: Context) -> bool:
    return isinstance(pod, KubeObject) and bool(
        set(context.stack.roles(pod)) & {"device-plugin", "feature-discovery", "mps-daemon", "config-manager"}
    )
