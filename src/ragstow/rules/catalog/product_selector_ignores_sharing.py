"""A workload selects a product label that the sharing configuration beside it changes.

What
    The manifests share nvidia.com/gpu without renaming it, and a workload selects nvidia.com/gpu.product with a value without -SHARED; or
    they share with renameByDefault, and it selects a value with -SHARED.

Why
    Feature discovery appends -SHARED to the product where shares keep the plain name, and only there. The selector stops matching the
    moment the configuration takes effect.

Fix
    Allow both values (In [X, X-SHARED]), or select another label.

References
    - NVIDIA GPU feature discovery: internal/lm/resource.go

Fires (lint): shared without renaming
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin, namespace: nvidia}
    data:
      any: |
        version: v1
        sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
      containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]

Quiet (lint): the shared product is selected
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin, namespace: nvidia}
    data:
      any: |
        version: v1
        sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4-SHARED}
      containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]

Fires (lint): renamed, and -SHARED is selected
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugin, namespace: nvidia}
    data:
      any: |
        version: v1
        sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 4}]}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4-SHARED}
      containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu.shared: 1}}}]
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.configs import effective
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.plugin_texts import plugin_texts
from ragstow.rules.rule import Rule
from ragstow.rules.selection import allowed

_PRODUCT, _SUFFIX, _CARD = "nvidia.com/gpu.product", "-SHARED", "nvidia.com/gpu"


class ProductSelectorIgnoresSharing(Rule):
    """See the page above."""

    cause = "product-selector-ignores-sharing"
    severity = "medium"
    needs = frozenset({"manifest"})

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each workload, where all configurations of the manifests agree on what happens to the label."""
        renames: dict[bool, ObjectRef] = {}
        for _, config in plugin_texts(context):
            said = effective(config.text)
            active = said.sharing.active if said is not None else None
            if active is not None and any(item.name == _CARD and item.replicas > 1 for item in active.resources):
                renames.setdefault(active.rename_by_default, ObjectRef.of(config.map))
            else:
                return  # some nodes stay whole: their label is the plain one
        if len(renames) != 1:
            return
        ((renamed, source),) = renames.items()
        for pod in context.pod_specs:
            values = allowed(pod.spec).get(_PRODUCT, ())
            if not values or any(value.endswith(_SUFFIX) is not renamed for value in values):
                continue
            ref = ObjectRef.of(pod.manifest.object)
            yield self.finding(
                f"{ref} selects {_PRODUCT}={'|'.join(values)}; with {source} the label "
                + ("has no -SHARED" if renamed else "ends in -SHARED"),
                "Feature discovery appends -SHARED to the product exactly where cards are shared under their plain name.",
                Fix("Allow both values: In [X, X-SHARED]."),
                (ref, source),
                evidence=(Evidence("|".join(values), ref, "spec.nodeSelector / nodeAffinity"),),
                confidence="likely",
                file=pod.manifest.file,
                line=pod.manifest.line(*pod.path),
            )
