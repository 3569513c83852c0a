"""flags.migStrategy of a plugin configuration is beaten by the GPU Operator's own setting.

What
    A configuration that a ClusterPolicy hands to the plugin sets `flags.migStrategy`, and the policy's `mig.strategy` is another one.

Why
    The operator exports MIG_STRATEGY to plugin and feature discovery whenever mig.strategy is set (single by default), and an environment
    variable beats the file: the strategy in the ConfigMap has no effect.

Fix
    Set the strategy in the ClusterPolicy (Helm: mig.strategy), and leave it out of the ConfigMap.

References
    - NVIDIA GPU Operator: controllers/object_controls.go
    - NVIDIA device plugin README: command line, then environment, then file

Fires (lint): mixed in the file, single in the policy
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy}
    spec: {mig: {strategy: single}, devicePlugin: {config: {name: plugin, default: any}}}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin, namespace: gpu-operator}
    data:
      any: |
        version: v1
        flags: {migStrategy: mixed}

Quiet (lint): both say mixed
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy}
    spec: {mig: {strategy: mixed}, devicePlugin: {config: {name: plugin, default: any}}}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin, namespace: gpu-operator}
    data:
      any: |
        version: v1
        flags: {migStrategy: mixed}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.configs import effective
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.plugin_texts import plugin_texts
from ragstow.rules.policies import plugin_config, policies, strategy
from ragstow.rules.rule import Rule


class MigStrategyOverridden(Rule):
    """See the page above."""

    cause = "mig-strategy-overridden"
    severity = "medium"
    needs = frozenset({"manifest"})
    asks_cluster = True

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each configuration whose strategy has no effect."""
        for policy in policies(context):
            wanted = strategy(policy)
            for manifest, config in plugin_texts(context):
                said = effective(config.text)
                own = str(said.flags.get("migStrategy") or "") if said is not None and "migStrategy" in config.text else ""
                if plugin_config(policy)[0] != config.map.name or not wanted or not own or own == wanted:
                    continue
                ref, above = ObjectRef.of(config.map), ObjectRef.of(policy)
                yield self.finding(
                    f"{ref} key {config.key}: migStrategy {own} has no effect, {above} sets {wanted}",
                    f"The operator starts the plugin with MIG_STRATEGY={wanted}, which beats the file.",
                    Fix(f"Set spec.mig.strategy: {own} in the ClusterPolicy, or drop flags.migStrategy here."),
                    (ref, above),
                    evidence=(
                        Evidence(own, ref, f"data[{config.key}].flags.migStrategy"),
                        Evidence(wanted, above, "spec.mig.strategy"),
                    ),
                    # Where no card is cut, none and single come to the same; the documentation's own example says none.
                    severity="low" if (own, wanted) == ("none", "single") else None,
                    file=manifest.file,
                    line=manifest.line("data", config.key),
                )
