"""A selector asks for a label value longer than 63 characters, which no label can have.

What
    nodeSelector or node affinity allow a value of more than 63 characters, such as a long product name with a MIG profile and -SHARED.

Why
    Kubernetes refuses such values in labels and in selectors. Feature discovery does not shorten product names: some cards, cut and shared
    under their plain name, would need more than 63 characters, and their label is missing.

Fix
    Select another label (nvidia.com/gpu.family, memory, the resource name), or share with renameByDefault.

References
    - Kubernetes: labels, syntax
    - NVIDIA GPU feature discovery: internal/lm/resource.go

Fires (lint): sixty-eight characters
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition-MIG-1g.24gb-SHARED}
      containers: [{name: c, image: i}]

Quiet (lint): sixty-three
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition-MIG-1g.24gb-SHARED}
      containers: [{name: c, image: i}]
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.selection import allowed

_MOST = 63


class LabelValueTooLong(Rule):
    """See the page above."""

    cause = "label-value-too-long"
    severity = "high"
    needs = frozenset({"manifest"})

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each value."""
        for pod in context.pod_specs:
            for key, values in allowed(pod.spec).items():
                for value in values:
                    if len(value) <= _MOST:
                        continue
                    ref = ObjectRef.of(pod.manifest.object)
                    yield self.finding(
                        f"{ref} selects {key}={value}: {len(value)} characters, a label value has at most {_MOST}",
                        "The API server refuses the object, and no node can carry the label.",
                        Fix("Select another label, or the resource name alone."),
                        (ref,),
                        evidence=(Evidence(value, ref, "spec.nodeSelector / nodeAffinity"),),
                        file=pod.manifest.file,
                        line=pod.manifest.line(*pod.path),
                    )
