"""An image needs a newer NVIDIA driver than the node has.

What
    The container is refused with "unsatisfied condition: cuda>=…", or the program ends with "CUDA driver version is insufficient",
    "the NVIDIA driver on your system is too old", PTX of an unsupported toolchain, or forward compatibility on a card that has none.

Why
    Each CUDA release needs a minimum driver. With the legacy runtime hook the container does not start at all; under CDI nothing
    checks, and the program fails later with CUDA error 35.

Fix
    Upgrade the node's driver, or use an image built with an older CUDA; on data-centre cards the cuda-compat package of the image
    may bridge the gap.

References
    - CUDA compatibility guide: minimum driver by CUDA release
    - NVIDIA Container Toolkit: NVIDIA_REQUIRE_CUDA

Fires: the container is refused
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec:
      nodeName: gpu-1
      containers: [{name: vllm, image: "vllm-openai:v0.23.0", resources: {limits: {nvidia.com/gpu: 1}}}]
    status:
      phase: Running
      containerStatuses: [{name: vllm, ready: false, restartCount: 4, state: {waiting: {reason: RunContainerError}}}]
    ---
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: b, labels: {nvidia.com/cuda.driver-version.full: 535.129.03, nvidia.com/cuda.runtime-version.full: "12.2"}}
    status: {capacity: {nvidia.com/gpu: 1}, allocatable: {nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Event
    metadata: {name: e1, namespace: rag, uid: c}
    involvedObject: {kind: Pod, namespace: rag, name: llm-0}
    reason: Failed
    type: Warning
    message: "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0, please update your driver to a newer version, or use an earlier cuda container: unknown"

Quiet: the driver is new enough
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec:
      nodeName: gpu-1
      containers: [{name: vllm, image: "vllm-openai:v0.23.0", resources: {limits: {nvidia.com/gpu: 1}}}]
    status:
      phase: Running
      containerStatuses: [{name: vllm, ready: true, restartCount: 0, state: {running: {}}}]
    ---
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: b, labels: {nvidia.com/cuda.driver-version.full: 580.95.05, nvidia.com/cuda.runtime-version.full: "13.0"}}
    status: {capacity: {nvidia.com/gpu: 1}, allocatable: {nvidia.com/gpu: 1}}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragstow.rules.context import Context
from ragstow.rules.driverless import driverless
from ragstow.rules.grouping import by_workload, evidence, sure
from ragstow.rules.index.texts import Hit
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule

_LABELS = ("nvidia.com/cuda.driver-version.full", "nvidia.com/cuda.driver.major", "nvidia.com/cuda.runtime-version.full")


def _counts(context: Context, hit: Hit) -> bool:
    """Whether a warning stopped its pod: images print that they want a newer driver and then mostly run."""
    state = context.states.of(hit.text.pod) if hit.text.pod is not None else None
    return hit.signature.strong or (state is not None and not state.healthy)


def _said(hits: Sequence[Hit]) -> str:
    """What a program found of the driver: its CUDA version as a number, or its release."""
    for hit in hits:
        found = hit.match.groupdict()
        if (found.get("found") or "").isdecimal():
            return f", whose driver gives CUDA {int(found['found']) // 1000}.{int(found['found']) % 1000 // 10}"
        if found.get("has"):
            return f", which has driver {found['has']}"
    return ""


class DriverCudaMismatch(Rule):
    """See the page above."""

    cause = "driver-cuda-mismatch"
    severity = "high"
    needs = frozenset({"events", "logs", "snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload that says so."""
        for site, hits in by_workload(context, [hit for hit in context.texts.of_cause(self.cause) if _counts(context, hit)]):
            if driverless(context, hits):
                continue
            node = context.snapshot.get("Node", site.node or "")
            labels = (
                [
                    Evidence(node.labels[name], ObjectRef.of(node), f"metadata.labels[{name}]")
                    for name in _LABELS
                    if name in node.labels
                ]
                if node
                else []
            )
            either = not labels and all(hit.signature.without_driver for hit in hits)
            wanted = next((hit.match.groupdict().get("wanted") for hit in hits if hit.match.groupdict().get("wanted")), None)
            has = f", which has driver {labels[0].value}" if labels else _said(hits)
            needs = f"CUDA {wanted}" if wanted else "a newer CUDA"
            yield self.finding(
                f"{site.words} needs {needs} than the driver on {site.node or 'its node'} gives"
                if not wanted
                else f"{site.words} needs {needs}, and the driver on {site.node or 'its node'} is too old for it",
                f"The image was built with a CUDA whose minimum driver is newer than that of {site.node or 'the node'}{has}."
                + (" A container without any driver says the same: see whether its runtime is NVIDIA's." if either else ""),
                Fix(
                    "Upgrade the driver of the node (drain it first), or use an image built with an older CUDA.",
                    disruption=f"restarts {site.words}",
                    check=f"kubectl get node {site.node or '<node>'} -L nvidia.com/cuda.runtime-version.full",
                ),
                site.objects,
                evidence=(*evidence(hits), *labels),
                held=site.pods,
                confidence="likely" if either else sure(hits),
            )
