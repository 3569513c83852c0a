"""A plugin configuration has both timeSlicing and mps: MPS wins, without a word.

What
    `sharing` of one configuration file has a `timeSlicing` and an `mps` section that both share something.

Why
    The plugin documents them as exclusive and does not refuse both. It takes MPS: the shares are memory-capped, need the control daemon
    and GPU feature discovery, and the numbers written under timeSlicing mean nothing (but must still be valid).

Fix
    Keep the one that is meant.

References
    - NVIDIA device plugin: api/config/v1/sharing.go

Fires (lint): both
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin, namespace: nvidia}
    data:
      any: |
        version: v1
        sharing:
          timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 8}]}
          mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}

Quiet (lint): one of them
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin, namespace: nvidia}
    data:
      any: |
        version: v1
        sharing:
          mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.configs import effective
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.plugin_texts import plugin_texts
from ragstow.rules.rule import Rule


class SharingStrategiesBoth(Rule):
    """See the page above."""

    cause = "sharing-strategies-both"
    severity = "medium"
    needs = frozenset({"manifest"})

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each configuration with both."""
        for manifest, config in plugin_texts(context):
            sharing = said.sharing if (said := effective(config.text)) is not None else None
            if sharing is None or sharing.mps is None or not (sharing.mps.replicated and sharing.time_slicing.replicated):
                continue
            ref, counts = ObjectRef.of(config.map), {item.name: item.replicas for item in sharing.mps.resources}
            yield self.finding(
                f"{ref} key {config.key} has timeSlicing and mps: MPS is used, timeSlicing is ignored",
                f"In force: mps with {', '.join(f'{name} x {count}' for name, count in counts.items())}.",
                Fix("Remove the section that is not meant."),
                (ref,),
                evidence=(Evidence("sharing.timeSlicing and sharing.mps", ref, f"data[{config.key}]"),),
                file=manifest.file,
                line=manifest.line("data", config.key),
            )
