"""A manifest asks for a vendor's GPU shares in a way that its webhook skips, so that the default scheduler gets the pod.

What
    A container asks for HAMi's nvidia.com/gpumem or gpucores and is privileged, or the pod names a node; a pod carries KAI's gpu-fraction or
    gpu-memory and does not name schedulerName kai-scheduler, or has no queue label.

Why
    HAMi's webhook leaves privileged containers and bound pods alone: the default scheduler says "Insufficient nvidia.com/gpumem" for ever,
    or nothing caps the memory. KAI acts only on pods that name it, and needs a queue (scheduler-bypass, queue-misconfigured).

Fix
    Drop privileged and nodeName; name the scheduler and the queue.

References
    - HAMi: webhook; KAI scheduler: GPU sharing

Fires (lint): privileged
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec: {containers: [{name: c, image: i, securityContext: {privileged: true}, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 4000}}}]}

Quiet (lint): not privileged
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag}
    spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 4000}}}]}

Fires (lint): a fraction for the default scheduler
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag, annotations: {gpu-fraction: "0.5"}}
    spec: {containers: [{name: c, image: i}]}

Quiet (lint): a fraction for KAI, in a queue
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag, labels: {kai.scheduler/queue: rag}, annotations: {gpu-fraction: "0.5"}}
    spec: {schedulerName: kai-scheduler, containers: [{name: c, image: i}]}

Quiet (lint): a fraction for the scheduler of Run:ai, whose projects are queues
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: rag, labels: {project: rag}, annotations: {gpu-fraction: "0.5"}}
    spec: {schedulerName: runai-scheduler, containers: [{name: c, image: i}]}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragstow.rules.engines import GPU_DOMAIN, limits
from ragstow.rules.manifests import LintContext, PodSpec
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule

_HAMI = tuple(f"{GPU_DOMAIN}{name}" for name in ("gpumem", "gpumem-percentage", "gpucores"))
_SCHEDULERS = ("kai", "runai")
"""KAI's name in its chart, and the one of the product that it comes from."""
_KAI, _QUEUES = ("gpu-fraction", "gpu-memory"), ("kai.scheduler/queue", "runai/queue")


class VendorShareBypassed(Rule):
    """See the page above."""

    cause = "vendor-share-bypassed"
    severity = "high"
    needs = frozenset({"manifest"})

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each pod spec and reason."""
        for pod in context.pod_specs:
            for text, field in (*_hami(pod), *_kai(pod)):
                ref = ObjectRef.of(pod.manifest.object)
                yield self.finding(
                    f"{ref}: {text}",
                    "The vendor's scheduler does not get the pod, and the default one knows nothing of its shares.",
                    Fix("Drop privileged and nodeName (HAMi), set schedulerName and the queue label (KAI)."),
                    (ref,),
                    evidence=(Evidence(text, ref, field),),
                    file=pod.manifest.file,
                    line=pod.manifest.line(*pod.path),
                )


def _hami(pod: PodSpec) -> Iterator[tuple[str, str]]:
    asking = [container for _, container in pod.containers() if any(name in limits(container) for name in _HAMI)]
    for container in asking:
        context = container.get("securityContext")
        if isinstance(context, Mapping) and context.get("privileged") is True:
            text = (
                f"container {container.get('name')} asks for HAMi's shares and is privileged, so that HAMi's webhook skips it"
            )
            yield text, "securityContext.privileged"
    if asking and pod.spec.get("nodeName"):
        yield f"it asks for HAMi's shares and names node {pod.spec['nodeName']}, past every scheduler", "spec.nodeName"


def _kai(pod: PodSpec) -> Iterator[tuple[str, str]]:
    annotations, labels = pod.metadata.get("annotations") or {}, pod.metadata.get("labels") or {}
    if pod.manifest.object.kind == "Pod":
        labels = pod.manifest.object.labels
    key = next((name for name in _KAI if name in annotations), None)
    if key is None:
        return
    scheduler = str(pod.spec.get("schedulerName") or "default-scheduler")
    if not any(name in scheduler for name in _SCHEDULERS):
        yield f"annotation {key} is KAI's, and schedulerName is {scheduler}", "spec.schedulerName"
    elif "kai" in scheduler and not any(name in labels for name in _QUEUES):
        yield f"annotation {key} is KAI's, and no label {_QUEUES[0]} names a queue", "metadata.labels"
