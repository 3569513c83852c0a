"""An image's CUDA is of a newer major version than the drivers of the nodes that the pod may use.

What
    Against a cluster: the image's name says its CUDA (`cuda:13.0.1-…`, `…-cuda12.8`, `…-cu130`), and on every node that the pod may use the
    driver's CUDA (label nvidia.com/cuda.runtime-version.full) is of a lower major version.

Why
    Within a major version a newer toolkit runs on an older driver; across major versions it does not: the container is refused ("unsatisfied
    condition: cuda>=13.0") or, where CDI hands out the devices, starts and fails with CUDA error 35.

Fix
    Use an image with an older CUDA, or upgrade the driver. Images with CUDA's forward compatibility package may run on data-centre cards.

References
    - NVIDIA: CUDA compatibility, minor version compatibility

Fires (lint): CUDA 13 on a driver for 12.8
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/cuda.runtime-version.full: "12.8"}}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec: {containers: [{name: c, image: "registry.example/rag/llm:2.1-cu130", resources: {limits: {nvidia.com/gpu: 1}}}]}

Quiet (lint): CUDA 12.9 on it
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/cuda.runtime-version.full: "12.8"}}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec: {containers: [{name: c, image: "registry.example/rag/llm:2.1-cu129", resources: {limits: {nvidia.com/gpu: 1}}}]}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.demand import demands, supply
from ragstow.rules.images import cuda
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule


class CudaImageNewerThanDriver(Rule):
    """See the page above."""

    cause = "driver-cuda-mismatch"
    severity = "medium"
    needs = frozenset({"manifest", "snapshot"})
    asks_cluster = True

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each container that no node's driver is new enough for."""
        for demand in demands(context):
            known = supply(context, demand)
            if known is None or context.cluster is None:
                continue
            drivers = {name: context.cluster.inventory.node(name).cuda for name in known.nodes}
            firsts = {name: (text or "").partition(".")[0] for name, text in drivers.items()}
            majors = {name: int(first) for name, first in firsts.items() if first.isdecimal()}
            if len(majors) != len(drivers):
                continue
            for path, container in demand.spec.containers():
                wanted = cuda(str(container.get("image") or ""))
                if wanted is None or max(majors.values()) >= wanted[0]:
                    continue
                ref, best = ObjectRef.of(demand.manifest.object), max(majors, key=lambda name: majors[name])
                yield self.finding(
                    f"image {container['image']} of {ref} is built with CUDA {wanted[0]}.{wanted[1]}; the drivers of its nodes give at most "
                    f"{drivers[best]}",
                    f"{len(majors)} node(s) could run the pod ({', '.join(list(majors)[:5])}); none has a driver of that major version.",
                    Fix(f"Use an image with CUDA {majors[best]}, or upgrade the driver."),
                    (ref, *(ObjectRef("Node", "", name) for name in list(majors)[:5])),
                    evidence=(
                        Evidence(str(container["image"]), ref, ".".join(map(str, (*path, "image")))),
                        Evidence(
                            str(drivers[best]),
                            ObjectRef("Node", "", best),
                            "metadata.labels[nvidia.com/cuda.runtime-version.full]",
                        ),
                    ),
                    confidence="likely",
                    file=demand.manifest.file,
                    line=demand.manifest.line(*path, "image"),
                )
