"""A plugin configuration lists one resource twice: the larger number is advertised, the label says the first.

What
    `sharing.timeSlicing.resources` (or `mps`) names the same resource in two entries.

Why
    The plugin advertises every card by the larger factor; GPU feature discovery writes the first one into nvidia.com/gpu.replicas. Who
    computes with the label plans with a number of shares that does not exist.

Fix
    Keep one entry for each resource.

References
    - NVIDIA device plugin: internal/rm/device_map.go, internal/lm/resource.go

Fires (lint): four and eight
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin, namespace: nvidia}
    data:
      any: |
        version: v1
        sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}, {name: gpu, replicas: 8}]}}

Quiet (lint): two resources
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin, namespace: nvidia}
    data:
      any: |
        version: v1
        sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}, {name: nvidia.com/mig-1g.10gb, replicas: 2}]}}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.configs import effective
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.plugin_texts import plugin_texts
from ragstow.rules.rule import Rule


class SharingResourceTwice(Rule):
    """See the page above."""

    cause = "sharing-resource-twice"
    severity = "medium"
    needs = frozenset({"manifest"})

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each resource that stands twice."""
        for manifest, config in plugin_texts(context):
            said = effective(config.text)
            for shared in (said.sharing.mps, said.sharing.time_slicing) if said is not None else ():
                factors: dict[str, list[int]] = {}
                for item in shared.resources if shared is not None else ():
                    factors.setdefault(item.name, []).append(item.replicas)
                for name, numbers in factors.items():
                    if len(numbers) > 1:
                        ref = ObjectRef.of(config.map)
                        yield self.finding(
                            f"{ref} key {config.key} lists {name} {len(numbers)} times, with {', '.join(map(str, numbers))} replicas",
                            f"The plugin advertises {max(numbers)} for each card, the label nvidia.com/gpu.replicas says {numbers[0]}.",
                            Fix("Keep one entry for the resource."),
                            (ref,),
                            evidence=(Evidence(", ".join(map(str, numbers)), ref, f"data[{config.key}].sharing"),),
                            file=manifest.file,
                            line=manifest.line("data", config.key),
                        )
