"""A ResourceQuota names a GPU resource without the prefix `requests.`

What
    `spec.hard` of a ResourceQuota has `nvidia.com/gpu` (or `limits.nvidia.com/gpu`) instead of `requests.nvidia.com/gpu`.

Why
    Extended resources are quota'd by their requests only; under any other name the API server refuses the object or the number is never
    counted. GPUs that a DeviceClass hands out are counted under names of their own.

Fix
    Write requests.nvidia.com/gpu.

References
    - Kubernetes: resource quotas, quota for extended resources

Fires (lint): without the prefix
    apiVersion: v1
    kind: ResourceQuota
    metadata: {name: gpus, namespace: rag}
    spec: {hard: {nvidia.com/gpu: 4}}

Quiet (lint): with it
    apiVersion: v1
    kind: ResourceQuota
    metadata: {name: gpus, namespace: rag}
    spec: {hard: {requests.nvidia.com/gpu: 4}}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.engines import is_device
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef, Patch
from ragstow.rules.rule import Rule


class QuotaNameUnprefixed(Rule):
    """See the page above."""

    cause = "quota-name-unprefixed"
    severity = "medium"
    needs = frozenset({"manifest"})

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each such name."""
        for manifest in context.of("ResourceQuota"):
            ref = ObjectRef.of(manifest.object)
            for name, amount in ((manifest.object.raw.get("spec") or {}).get("hard") or {}).items():
                plain = str(name).removeprefix("limits.")
                if not is_device(plain):
                    continue
                yield self.finding(
                    f"{ref} limits {name}: quota of extended resources is written requests.{plain}",
                    "The API server counts requests of extended resources only.",
                    Fix(
                        f"Write requests.{plain}: {amount}.",
                        patch=Patch("merge", ref, {"spec": {"hard": {str(name): None, f"requests.{plain}": str(amount)}}}),
                    ),
                    (ref,),
                    evidence=(Evidence(str(amount), ref, f"spec.hard[{name}]"),),
                    file=manifest.file,
                    line=manifest.line("spec", "hard", name),
                )
