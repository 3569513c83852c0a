"""One container asks for GPUs in two ways: by a claim and by an extended resource.

What
    A container has both `resources.claims` and a GPU in `resources.limits`.

Why
    Both are allocated: the pod holds a device by its claim and another by the extended resource, or waits for ever where the nodes are
    served by only one of them.

Fix
    Keep one of them.

References
    - Kubernetes: dynamic resource allocation; KEP-5004

Fires (lint): both
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
      containers: [{name: c, image: i, resources: {claims: [{name: gpu}], limits: {nvidia.com/gpu: 1}}}]

Quiet (lint): the claim alone
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
      containers: [{name: c, image: i, resources: {claims: [{name: gpu}], limits: {nvidia.com/gpu: 0}}}]

Quiet (lint): a claim for something else than a card
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec:
      resourceClaims: [{name: compute-domain-channel, resourceClaimTemplateName: channel}]
      containers: [{name: c, image: i, resources: {claims: [{name: compute-domain-channel}], limits: {nvidia.com/gpu: 4}}}]

Quiet (lint): a network card's claim, whatever its name
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaimTemplate
    metadata: {name: gpu-network, namespace: rag}
    spec: {spec: {devices: {requests: [{name: nic, exactly: {deviceClassName: mrdma.google.com}}]}}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec:
      resourceClaims: [{name: gpu-network, resourceClaimTemplateName: gpu-network}]
      containers: [{name: c, image: i, resources: {claims: [{name: gpu-network}], limits: {nvidia.com/gpu: 8}}}]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.cluster.objects import KubeObject
from ragstow.rules.dra_objects import GROUP, mapping, of_class
from ragstow.rules.engines import gpu_limits, has_claims
from ragstow.rules.manifests import LintContext, PodSpec
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule


class CardAskedForTwice(Rule):
    """See the page above."""

    cause = "card-asked-for-twice"
    severity = "medium"
    needs = frozenset({"manifest"})

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each container."""
        for pod in context.pod_specs:
            for path, container in pod.containers():
                wants = {name: count for name, count in gpu_limits(container).items() if count}
                if not wants or not has_claims(container) or not _claims_card(context, pod, container):
                    continue
                ref, (name, count) = ObjectRef.of(pod.manifest.object), next(iter(wants.items()))
                yield self.finding(
                    f"container {container.get('name')} of {ref} asks for GPUs twice: by a claim, and {count} {name} in limits",
                    "Both are allocated: it holds one device more than it uses, or waits where only one of the two ways is served.",
                    Fix("Keep the claim or the limit."),
                    (ref,),
                    evidence=(Evidence(str(count), ref, ".".join(map(str, (*path, "resources", "limits"))) + f"[{name}]"),),
                    file=pod.manifest.file,
                    line=pod.manifest.line(*path, "resources"),
                )


_CARD = re.compile(r"(?:^|[^a-z0-9])v?(?:gpus?|mig)(?:[^a-z0-9]|$)")
"""How classes, claims and templates of cards are called: gpu.nvidia.com, mig.nvidia.com, single-gpu."""


def _claims_card(context: LintContext, pod: PodSpec, container: Mapping[str, Any]) -> bool:
    """Whether one of the container's claims asks for a card, not for a network card or a channel between nodes (IMEX). Where
    the claim is not among the data, its name decides."""
    listed = pod.spec.get("resourceClaims")
    entries = {str(mapping(item).get("name")): mapping(item) for item in (listed if isinstance(listed, list) else ())}
    used = mapping(container.get("resources")).get("claims")
    for item in used if isinstance(used, list) else ():
        entry = entries.get(str(mapping(item).get("name")), {})
        names = [str(entry.get(key) or "") for key in ("resourceClaimTemplateName", "resourceClaimName")]
        found = _claim(context, pod.manifest.object.namespace, names)
        words = of_class(found) if found is not None else [str(mapping(item).get("name")), *names]
        if any(_CARD.search(word) for word in words):
            return True
    return False


def _claim(context: LintContext, namespace: str, names: list[str]) -> KubeObject | None:
    written = [manifest.object for manifest in context.of("ResourceClaimTemplate", "ResourceClaim")]
    cluster = context.cluster.snapshot if context.cluster is not None else None
    there = [
        item for kind in ("ResourceClaimTemplate", "ResourceClaim") for item in (cluster.of(kind, GROUP) if cluster else ())
    ]
    kinds = dict(zip(("ResourceClaimTemplate", "ResourceClaim"), names, strict=True))
    return next(
        (item for item in (*written, *there) if item.namespace == namespace and item.name == kinds[item.kind] != ""), None
    )
