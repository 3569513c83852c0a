"""An inference engine's image has no fixed tag.

What
    A container with a GPU runs an image with the tag latest, nightly, main or none, and no digest.

Why
    Memory, flags and the CUDA that an engine needs change from version to version. A pod that is rescheduled months later may pull another
    engine, which no longer fits its card or its driver; two replicas may run different ones.

Fix
    Name a version, or a digest.

References
    - Kubernetes: images, image pull policy

Fires (lint): latest
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec: {containers: [{name: c, image: "vllm/vllm-openai:latest", resources: {limits: {nvidia.com/gpu: 1}}}]}

Fires (lint): no tag, and a port in the registry's name
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec: {containers: [{name: c, image: "registry.example:5000/vllm", resources: {limits: {nvidia.com/gpu: 1}}}]}

Quiet (lint): a version
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec: {containers: [{name: c, image: "vllm/vllm-openai:v0.23.0", resources: {limits: {nvidia.com/gpu: 1}}}]}

Quiet (lint): a digest
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec: {containers: [{name: c, image: "vllm/vllm-openai@sha256:0b5c2e", resources: {limits: {nvidia.com/gpu: 1}}}]}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.engines import gpu_limits, has_claims
from ragstow.rules.images import tag
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule

_FLOATING = frozenset({"latest", "nightly", "main", "master", "dev", "edge"})


class EngineImageFloating(Rule):
    """See the page above."""

    cause = "engine-image-floating"
    severity = "low"
    needs = frozenset({"manifest"})

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each container."""
        for pod in context.pod_specs:
            for path, container in pod.containers():
                image = container.get("image")
                if (
                    not isinstance(image, str)
                    or not image
                    or not (any(gpu_limits(container).values()) or has_claims(container))
                ):
                    continue
                found = tag(image)
                if found is None or (found and found not in _FLOATING):
                    continue
                ref = ObjectRef.of(pod.manifest.object)
                yield self.finding(
                    f"container {container.get('name')} of {ref} runs image {image}, "
                    + (f"whose tag {found} moves" if found else "which names no version"),
                    "The engine, its memory and the CUDA it needs may change whenever the pod is created anew.",
                    Fix("Name a version or a digest."),
                    (ref,),
                    evidence=(Evidence(image, ref, ".".join(map(str, (*path, "image")))),),
                    file=pod.manifest.file,
                    line=pod.manifest.line(*path, "image"),
                )
