"""GPU feature discovery is told to look again after a number without a unit, which it reads as nanoseconds.

What
    `flags.gfd.sleepInterval: 60` in the configuration of plugin and feature discovery: a bare number. With a unit (`60s`) or as
    `infinite` it is what it looks like.

Why
    60 is 60 ns: feature discovery asks NVML and writes its labels without a pause, loading a core and the API server.

Fix
    Write the unit: `sleepInterval: 60s`.

References
    - NVIDIA k8s-device-plugin: api/config/v1/duration.go

Fires (lint): a bare number
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin, namespace: gpu}
    data:
      config.yaml: |
        version: v1
        flags:
          gfd: {sleepInterval: 60}

Quiet (lint): seconds
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin, namespace: gpu}
    data:
      config.yaml: |
        version: v1
        flags:
          gfd: {sleepInterval: 60s}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow import kubeyaml
from ragstow.errors import InputError
from ragstow.rules.dra_objects import mapping
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.plugin_texts import plugin_texts
from ragstow.rules.rule import Rule

_SECOND = 1_000_000_000


class DiscoveryIntervalUnitless(Rule):
    """See the page above."""

    cause = "discovery-interval-unitless"
    severity = "medium"
    needs = frozenset({"manifest"})

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each configuration with an interval below a second."""
        for manifest, config in plugin_texts(context):
            interval = _interval(config.text)
            if isinstance(interval, bool) or not isinstance(interval, int) or interval >= _SECOND:
                continue
            ref = ObjectRef.of(config.map)
            yield self.finding(
                f"{ref}: sleepInterval {interval} is {interval} nanoseconds",
                "A number without a unit is read as nanoseconds: feature discovery would run without a pause.",
                Fix(f"Write sleepInterval: {interval}s."),
                (ref,),
                evidence=(Evidence(str(interval), ref, f"data[{config.key}].flags.gfd.sleepInterval"),),
                file=manifest.file,
                line=manifest.line("data", config.key),
            )


def _interval(text: str) -> object:
    try:
        documents = kubeyaml.load_all(text)
    except InputError:
        return None
    value = mapping(documents[0].value) if documents else {}
    return mapping(mapping(value.get("flags")).get("gfd")).get("sleepInterval")
