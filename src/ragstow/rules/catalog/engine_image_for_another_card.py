"""An engine's image is built for another GPU architecture than that of the nodes that the pod may use.

What
    Against a cluster: the image is one of an engine that publishes one image for each architecture (Text Embeddings Inference: turing-,
    86-, 89-, hopper- ...), and every node that the pod may use has cards of another compute capability.

Why
    Such an image has no kernels for the card and ends at start: "Runtime compute cap … is not compatible with compile time compute cap …".

Fix
    Use the image for the card, or select nodes with the card of the image.

References
    - text-embeddings-inference README: Docker images

Fires (lint): the image for compute capability 8.9 on a 7.5
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.compute.major: "7", nvidia.com/gpu.compute.minor: "5"}}
    status: {capacity: {nvidia.com/gpu: 1}, allocatable: {nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec: {containers: [{name: tei, image: "ghcr.io/huggingface/text-embeddings-inference:89-1.8", resources: {limits: {nvidia.com/gpu: 1}}}]}

Quiet (lint): the one for it
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.compute.major: "7", nvidia.com/gpu.compute.minor: "5"}}
    status: {capacity: {nvidia.com/gpu: 1}, allocatable: {nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec: {containers: [{name: tei, image: "ghcr.io/huggingface/text-embeddings-inference:turing-1.8", resources: {limits: {nvidia.com/gpu: 1}}}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragstow.cluster.objects import Node
from ragstow.facts.drivers import version
from ragstow.facts.store import Facts
from ragstow.rules.demand import demands, supply
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule

_MAJOR, _MINOR = "nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor"


class EngineImageForAnotherCard(Rule):
    """See the page above."""

    cause = "gpu-arch-unsupported"
    severity = "high"
    needs = frozenset({"manifest", "snapshot"})
    asks_cluster = True

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each container that no node of the pod has a card for."""
        for demand in demands(context):
            known = supply(context, demand)
            if known is None or context.cluster is None:
                continue
            nodes = [node for name in known.nodes if isinstance(node := context.cluster.snapshot.get("Node", name), Node)]
            has = {
                node.name: f"{node.labels[_MAJOR]}.{node.labels[_MINOR]}"
                for node in nodes
                if node.labels.get(_MAJOR, "").isdecimal() and node.labels.get(_MINOR, "").isdecimal()
            }
            for path, container in demand.spec.containers():
                image = str(container.get("image") or "")
                built = _built_for(context.facts, image)
                if built is None or len(has) != len(nodes) or any(_within(cc, built) for cc in has.values()):
                    continue
                ref, first = ObjectRef.of(demand.manifest.object), next(iter(has))
                yield self.finding(
                    f"image {image} of {ref} is built for compute capability {_words(built)}; its nodes have "
                    f"{', '.join(sorted(set(has.values())))}",
                    "It has no kernels for these cards and ends at start.",
                    Fix("Use the image that is built for the card, or select nodes with the card of this one."),
                    (ref, *(ObjectRef("Node", "", name) for name in list(has)[:5])),
                    evidence=(
                        Evidence(image, ref, ".".join(map(str, (*path, "image")))),
                        Evidence(has[first], ObjectRef("Node", "", first), f"metadata.labels[{_MAJOR}, {_MINOR}]"),
                    ),
                    file=demand.manifest.file,
                    line=demand.manifest.line(*path, "image"),
                )


def _built_for(facts: Facts, image: str) -> tuple[str, str] | None:
    """The compute capabilities that an image is built for, by its engine's naming; None where the name says nothing."""
    for row in facts.serving.rows:
        for choice in row.images:
            pattern = re.escape(choice.image).replace(re.escape("{version}"), r"\d[\w.]*")
            if re.fullmatch(pattern, image):
                return choice.cc_from, choice.cc_to
    return None


def _within(capability: str, built: tuple[str, str]) -> bool:
    """Whether kernels for these run there: the same major version, and not an older minor one (TEI: compute_cap.rs)."""
    return version(built[0])[0] == version(capability)[0] and version(built[0]) <= version(capability)


def _words(built: tuple[str, str]) -> str:
    return built[0] if built[0] == built[1] else f"{built[0]} to {built[1]}"
