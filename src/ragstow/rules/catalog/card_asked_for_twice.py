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
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.engines import gpu_limits, has_claims
from ragstow.rules.manifests import LintContext
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
                if not wants or not has_claims(container):
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
