"""An MPS configuration asks for what MPS cannot do: too many replicas, MIG, or another resource than whole cards.

What
    More than 48 replicas of a card (16 below compute capability 7.5), MPS together with MIG strategy mixed, or MPS for a resource other
    than nvidia.com/gpu.

Why
    The plugin's file is accepted. The control daemon then refuses the number ("maximum allowed replicas exceeded") and the plugin never
    serves; with MIG the plugin ends, and feature discovery writes no labels at all; for a resource that the node does not have no daemon
    is made, and nothing is ever served.

Fix
    At most 48 (16) replicas; MIG slices are shared by time-slicing only.

References
    - NVIDIA device plugin: cmd/mps-control-daemon/mps/device.go, README (MPS)

Fires (lint): sixty-four replicas
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin, namespace: nvidia}
    data:
      any: |
        version: v1
        sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 64}]}}

Quiet (lint): forty-eight
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin, namespace: nvidia}
    data:
      any: |
        version: v1
        sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 48}]}}

Fires (lint): MPS for a MIG slice
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin, namespace: nvidia}
    data:
      any: |
        version: v1
        sharing: {mps: {resources: [{name: nvidia.com/mig-1g.10gb, replicas: 2}]}}

Quiet (lint): time-slicing for it
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin, namespace: nvidia}
    data:
      any: |
        version: v1
        flags: {migStrategy: mixed}
        sharing: {timeSlicing: {resources: [{name: nvidia.com/mig-1g.10gb, replicas: 2}]}}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.configs import ConfigText, effective
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.plugin_texts import plugin_texts
from ragstow.rules.rule import Rule

_MOST, _MOST_BEFORE_TURING, _TURING = 48, 16, (7, 5)
"""k8s-device-plugin cmd/mps-control-daemon/mps/device.go."""
_MAJOR, _MINOR = "nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor"


class MpsLimitsExceeded(Rule):
    """See the page above."""

    cause = "mps-limits-exceeded"
    severity = "medium"
    needs = frozenset({"manifest"})
    asks_cluster = True

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each configuration and reason."""
        most, why = _most(context)
        for manifest, config in plugin_texts(context):
            for text in _wrong(config, most, why):
                ref = ObjectRef.of(config.map)
                yield self.finding(
                    f"{ref} key {config.key}: {text}",
                    "The plugin accepts the file and serves no GPU with it.",
                    Fix(f"Use at most {most} replicas for each card, and MPS for nvidia.com/gpu without MIG only."),
                    (ref,),
                    evidence=(Evidence(text, ref, f"data[{config.key}].sharing.mps"),),
                    file=manifest.file,
                    line=manifest.line("data", config.key),
                )


def _wrong(config: ConfigText, most: int, why: str) -> Iterator[str]:
    said = effective(config.text)
    if said is None or said.sharing.mps is None or not said.sharing.mps.replicated:
        return
    if said.flags.get("migStrategy") == "mixed":
        yield "MPS does not work with MIG strategy mixed"
    for item in said.sharing.mps.resources:
        if "/mig-" in item.name:
            yield f"MPS cannot share {item.name}, only whole cards"
        elif item.replicas > most:
            yield f"{item.replicas} MPS replicas of {item.name}; {why}"


def _most(context: LintContext) -> tuple[int, str]:
    """The most replicas, and why: that of the oldest card of the cluster where one is given."""
    nodes = context.cluster.snapshot.nodes if context.cluster is not None else ()
    for node in nodes:
        major, minor = node.labels.get(_MAJOR, ""), node.labels.get(_MINOR, "")
        if major.isdecimal() and minor.isdecimal() and (int(major), int(minor)) < _TURING:
            return (
                _MOST_BEFORE_TURING,
                f"the cards of {node.name} (compute capability {major}.{minor}) allow {_MOST_BEFORE_TURING}",
            )
    return _MOST, f"{_MOST} is the limit"
