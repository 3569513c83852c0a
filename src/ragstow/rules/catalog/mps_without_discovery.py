"""A configuration shares cards by MPS, and nothing will label the nodes for the MPS daemon.

What
    A device-plugin configuration with `sharing.mps`, and a DaemonSet of the MPS control daemon among the manifests or in the cluster,
    but no GPU feature discovery in either.

Why
    The daemon runs on nodes with the label `nvidia.com/mps.capable=true` only, and feature discovery is what sets it. Without it the
    DaemonSet wants 0 pods, and the plugin waits for the daemon and serves nothing.

Fix
    Install the chart with `gfd.enabled=true`.

References
    - NVIDIA k8s-device-plugin: MPS sharing, templates/daemonset-mps-control-daemon.yml

Fires (lint): plugin and daemon alone
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin, namespace: gpu}
    data: {config.yaml: "version: v1\\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\\n"}
    ---
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: nvdp-mps-control-daemon, namespace: gpu}
    spec:
      selector: {matchLabels: {app: mps}}
      template: {metadata: {labels: {app: mps}}, spec: {nodeSelector: {nvidia.com/mps.capable: "true"}, containers: [{name: mps-control-daemon-ctr, image: "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"}]}}

Quiet (lint): with feature discovery
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin, namespace: gpu}
    data: {config.yaml: "version: v1\\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\\n"}
    ---
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: nvdp-mps-control-daemon, namespace: gpu}
    spec:
      selector: {matchLabels: {app: mps}}
      template: {metadata: {labels: {app: mps}}, spec: {nodeSelector: {nvidia.com/mps.capable: "true"}, containers: [{name: mps-control-daemon-ctr, image: "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"}]}}
    ---
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: nvdp-gpu-feature-discovery, namespace: gpu}
    spec:
      selector: {matchLabels: {app: gfd}}
      template: {metadata: {labels: {app: gfd}}, spec: {containers: [{name: gpu-feature-discovery-ctr, image: "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"}]}}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.cluster.objects import KubeObject
from ragstow.rules.configs import effective
from ragstow.rules.dra_objects import mapping
from ragstow.rules.index.stack import template
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.plugin_texts import plugin_texts
from ragstow.rules.rule import Rule

_LABEL = "nvidia.com/mps.capable"


class MpsWithoutDiscovery(Rule):
    """See the page above."""

    cause = "mps-without-discovery"
    severity = "high"
    needs = frozenset({"manifest"})
    asks_cluster = True

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each such configuration."""
        sets = [item.object for item in context.of("DaemonSet")]
        if context.cluster is not None:
            sets += list(context.cluster.snapshot.of("DaemonSet", "apps"))
        roles = {role: item for item in sets for role in _roles(context, item)}
        daemon = roles.get("mps-daemon")
        if daemon is None or "feature-discovery" in roles or _LABEL not in mapping(template(daemon).get("nodeSelector")):
            return
        for manifest, config in plugin_texts(context):
            said = effective(config.text)
            if said is None or said.sharing.strategy != "mps" or not said.sharing.active.replicated:
                continue
            ref = ObjectRef.of(config.map)
            yield self.finding(
                f"{ref} key {config.key} shares by MPS, and no feature discovery will set {_LABEL} for {ObjectRef.of(daemon)}",
                "The daemon would want 0 pods, and the plugin would wait for it and serve nothing.",
                Fix("Install GPU feature discovery too (gfd.enabled=true in the chart)."),
                (ref, ObjectRef.of(daemon)),
                evidence=(Evidence("sharing.mps", ref, f"data[{config.key}]"),),
                confidence="likely",
                file=manifest.file,
                line=manifest.line("data", config.key),
            )


def _roles(context: LintContext, item: KubeObject) -> tuple[str, ...]:
    spec = template(item)
    listed = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    programs = context.facts.stack.programs_of((str(c.get("name")), str(c.get("image"))) for c in listed if isinstance(c, dict))
    return tuple(program.role for program in programs)
