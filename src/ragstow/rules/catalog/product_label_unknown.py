"""A node selector asks for a GPU product by a name that no card's label has.

What
    A required selector on `nvidia.com/gpu.product` whose value belongs to none of the products that ragstow knows, with or without the
    suffixes that MIG and sharing add, while a product of nearly the same name exists. Only without a cluster; with one its labels decide.

Why
    The label is the driver's own product name with dashes for blanks. Marketing names and values from articles differ from it, and a pod
    that selects one of them waits for ever.

Fix
    Copy the value from a node (`kubectl get nodes -L nvidia.com/gpu.product`) or from `ragstow inspect`.

References
    - NVIDIA k8s-device-plugin: GPU feature discovery, labels

Fires (lint): a name of the form factor, as articles have it
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-SXM5}
      containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}]

Quiet (lint): the driver's name
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
      containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}]

Quiet (lint): with the suffixes of MIG and sharing
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED}
      containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}]
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from ragstow.facts.gpus import split_product
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.selection import allowed

_LABEL = "nvidia.com/gpu.product"
_CLOSE = 0.7


class ProductLabelUnknown(Rule):
    """See the page above."""

    cause = "product-label-unknown"
    severity = "low"
    needs = frozenset({"manifest"})

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each pod spec and value."""
        if context.cluster is not None:
            return
        known = sorted(card.product for card in context.facts.gpus.cards)
        for pod in context.pod_specs:
            for value in allowed(pod.spec).get(_LABEL, ()):
                if context.facts.gpus.find(value) is not None:
                    continue
                close = difflib.get_close_matches(split_product(value).base, known, 2, _CLOSE)
                if not close:
                    continue  # a product that ragstow does not know at all
                ref = ObjectRef.of(pod.manifest.object)
                yield self.finding(
                    f"{ref} selects {_LABEL}={value}, a name that no known card's label has; {close[0]} is one",
                    "The label is the driver's own product name with dashes for blanks.",
                    Fix(f"Copy the value from a node; of nearly this name there are {', '.join(close)}."),
                    (ref,),
                    evidence=(Evidence(value, ref, _LABEL),),
                    confidence="possible",
                    file=pod.manifest.file,
                    line=pod.manifest.line(*pod.path),
                )
