"""A ConfigMap for the MIG manager lacks the key config.yaml, or the layout all-disabled.

What
    The ConfigMap that ClusterPolicy `migManager.config.name` names (or one that holds `mig-configs`) has its file under another key than
    `config.yaml`, or no layout `all-disabled`.

Why
    A ConfigMap of your own replaces all the built-in layouts. The manager reads only the key config.yaml, and the operator labels new
    nodes with the default layout all-disabled: without it such nodes end in mig.config.state=failed.

Fix
    Name the key config.yaml and keep the layout all-disabled.

References
    - NVIDIA GPU Operator: MIG, custom configuration

Fires (lint): another key
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: mig, namespace: gpu-operator}
    data:
      config.yml: |
        version: v1
        mig-configs:
          all-disabled: [{devices: all, mig-enabled: false}]

Fires (lint): no all-disabled
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: mig, namespace: gpu-operator}
    data:
      config.yaml: |
        version: v1
        mig-configs:
          small: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]

Quiet (lint): both are there
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: mig, namespace: gpu-operator}
    data:
      config.yaml: |
        version: v1
        mig-configs:
          all-disabled: [{devices: all, mig-enabled: false}]
          small: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.configs import layouts
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.plugin_texts import mig_texts
from ragstow.rules.rule import Rule

_KEY, _DEFAULT = "config.yaml", "all-disabled"


class MigConfigmapIncomplete(Rule):
    """See the page above."""

    cause = "mig-configmap-incomplete"
    severity = "medium"
    needs = frozenset({"manifest"})

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each ConfigMap and reason."""
        for manifest, config in mig_texts(context):
            ref = ObjectRef.of(config.map)
            if _KEY not in (config.map.raw.get("data") or {}):
                text, evidence = f"{ref} has its layouts under the key {config.key}; the MIG manager reads {_KEY}", config.key
            elif config.key == _KEY and layouts(config.text) and _DEFAULT not in layouts(config.text):
                text, evidence = f"{ref} has no layout {_DEFAULT}", ", ".join(layouts(config.text))
            else:
                continue
            yield self.finding(
                text,
                "A ConfigMap of your own replaces the built-in layouts; the operator gives new nodes the layout all-disabled.",
                Fix(f"Put the file under {_KEY}, with a layout {_DEFAULT}: [{{devices: all, mig-enabled: false}}]."),
                (ref,),
                evidence=(Evidence(evidence, ref, "data"),),
                file=manifest.file,
                line=manifest.line("data", config.key),
            )
