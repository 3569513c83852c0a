"""An image was not built for the compute capability of the GPU that it runs on.

What
    The program ends with "no kernel image is available", "compute cap … is not compatible", or the framework says that the card is
    not supported: the image has no machine code for this generation of cards.

Why
    The pod is scheduled, gets its card and crashes at start, again and again. Embedding servers ship one image for each
    generation; CUDA 13 dropped everything before Turing.

Fix
    Use the image for this card (for text-embeddings-inference another tag for each generation), or keep the pod on nodes with a
    card that the image was built for (node affinity on nvidia.com/gpu.family or gpu.compute.major).

References
    - CUDA error 209 (cudaErrorNoKernelImageForDevice)
    - text-embeddings-inference, supported hardware: image tags by compute capability

Fires: an embedder's image for Ampere on a Turing card
    apiVersion: v1
    kind: Pod
    metadata: {name: embedder-0, namespace: rag, uid: a}
    spec:
      nodeName: gpu-1
      containers: [{name: tei, image: text-embeddings-inference:1.9, resources: {limits: {nvidia.com/gpu: 1}}}]
    status:
      phase: Running
      containerStatuses: [{name: tei, ready: false, restartCount: 9, state: {waiting: {reason: CrashLoopBackOff}}}]
    ---
    kind: Log
    name: tei.txt
    text: |
      Error: Could not create backend
      Could not start backend: Runtime compute cap 75 is not compatible with compile time compute cap 80

Quiet: the image for Turing
    apiVersion: v1
    kind: Pod
    metadata: {name: embedder-0, namespace: rag, uid: a}
    spec:
      nodeName: gpu-1
      containers: [{name: tei, image: text-embeddings-inference:turing-1.9, resources: {limits: {nvidia.com/gpu: 1}}}]
    status:
      phase: Running
      containerStatuses: [{name: tei, ready: true, restartCount: 0, state: {running: {}}}]
    ---
    kind: Log
    name: tei.txt
    text: |
      Starting FlashBert model on Cuda
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.cluster.objects import Pod
from ragstow.rules.context import Context
from ragstow.rules.grouping import by_workload, evidence, sure
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.states import serves

_LABELS = ("nvidia.com/gpu.product", "nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor")


class GpuArchUnsupported(Rule):
    """See the page above."""

    cause = "gpu-arch-unsupported"
    severity = "high"
    needs = frozenset({"logs", "snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload that says so."""
        # A server that is ready has found another way (TGI without flash attention on an older card).
        failing = [
            hit for hit in context.texts.of_cause(self.cause) if hit.signature.strong or not _well(context, hit.text.pod)
        ]
        for site, hits in by_workload(context, failing):
            node = context.snapshot.get("Node", site.node or "")
            card = node.labels.get(_LABELS[0], "") if node is not None else ""
            labels = (
                [
                    Evidence(node.labels[name], ObjectRef.of(node), f"metadata.labels[{name}]")
                    for name in _LABELS
                    if name in node.labels
                ]
                if node
                else []
            )
            image = next(
                (hit.text.pod.containers[0].image for hit in hits if hit.text.pod and hit.text.pod.containers), "the image"
            )
            yield self.finding(
                f"{site.words} runs an image that was not built for its GPU{f' ({card})' if card else ''}",
                f"{image} holds no code for the compute capability of the card on {site.node or 'its node'}, so that it ends at start "
                "or runs without the card.",
                Fix(
                    "Use the image that is built for this generation of cards, or keep the pod on nodes with a card that this image "
                    "supports (node affinity on nvidia.com/gpu.compute.major or nvidia.com/gpu.family).",
                    disruption=f"restarts {site.words}",
                    check="the log shows the backend starting; the pod is Ready",
                ),
                site.objects,
                evidence=(*evidence(hits), *labels),
                held=site.pods,
                confidence=sure(hits),
            )


def _well(context: Context, pod: Pod | None) -> bool:
    """Whether the pod serves; of an unnamed one that is believed where all pods of the data are well."""
    states = context.states.all
    return serves(context, pod) if pod is not None else bool(states) and all(state.healthy for state in states)
