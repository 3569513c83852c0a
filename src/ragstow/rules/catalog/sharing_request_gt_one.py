"""A pod asks for more than one share of a shared GPU, where only one is allowed.

What
    The kubelet rejects the pod at admission: "maximum request size for shared resources is 1". The pod is Failed with reason
    UnexpectedAdmissionError, and its controller makes the next one.

Why
    Two shares are not twice the card: they may be the same one. MPS refuses such requests by default, time-slicing only with
    failRequestsGreaterThanOne.

Fix
    Ask for 1. A pod that needs more memory needs a larger share (fewer replicas), a MIG slice or a whole card.

References
    - NVIDIA device plugin: shared access to GPUs, failRequestsGreaterThanOne

Fires: ten shares of an MPS card
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 10}, limits: {nvidia.com/gpu: 10}}}]}
    status:
      phase: Failed
      reason: UnexpectedAdmissionError
      message: 'Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = invalid allocation request for "nvidia.com/gpu": invalid request: maximum request size for shared resources is 1; found 10'

Quiet: one share
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Running}

Fires (lint): against a node that shares
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.replicas: "4", nvidia.com/gpu.sharing-strategy: time-slicing, nvidia.com/gpu.product: NVIDIA-L4}}
    status: {capacity: {nvidia.com/gpu.shared: 4}, allocatable: {nvidia.com/gpu.shared: 4}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu.shared: 2}}}]}

Quiet (lint): one
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu.shared: 1}}}]}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragstow.rules.context import Context
from ragstow.rules.demand import shared_only
from ragstow.rules.engines import gpu_limits, is_device
from ragstow.rules.fixes import resources_patch
from ragstow.rules.grouping import by_workload, evidence, sure
from ragstow.rules.index.texts import Hit
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef, Patch
from ragstow.rules.rule import Rule


class SharingRequestGtOne(Rule):
    """See the page above."""

    cause = "sharing-request-gt-one"
    severity = "high"
    needs = frozenset({"manifest", "events", "snapshot"})
    asks_cluster = True

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload that the kubelet rejects for it."""
        for site, members in by_workload(context, context.texts.of_cause(self.cause)):
            yield self.finding(
                f"{site.words} asks for several shares of one shared GPU resource and is rejected at admission",
                "Shares of a card are not additive: the plugin allows one for each container. The pod is Failed for good; its controller "
                "makes the next one, which fails the same way.",
                Fix(
                    "Ask for 1; for more memory use fewer replicas for each card, a MIG slice or a whole card.",
                    patch=_patch(site.workload, members),
                    disruption=f"restarts {site.words}",
                    check="the pod reaches Running",
                ),
                site.objects,
                evidence=evidence(members),
                held=site.pods,
                confidence=sure(members),
            )

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each container that asks for several shares: by their name, or where the cluster's nodes share."""
        for pod in context.pod_specs:
            shared = shared_only(context, pod)
            for path, container in pod.containers():
                for name, count in gpu_limits(container).items():
                    if count > 1 and (name.endswith(".shared") or name in shared):
                        ref = ObjectRef.of(pod.manifest.object)
                        yield self.finding(
                            f"container {container.get('name')} of {ref} asks for {count} shares ({name})",
                            "Shares are not additive; MPS refuses this, time-slicing gives no more than one share's worth.",
                            Fix("Ask for 1; for more memory use fewer replicas, a MIG slice or a whole card."),
                            (ref,),
                            evidence=(Evidence(str(count), ref, f"resources.limits[{name}]"),),
                            severity="medium",
                            file=pod.manifest.file,
                            line=pod.manifest.line(*path, "resources", "limits", name),
                        )


def _patch(workload: ObjectRef | None, hits: Sequence[Hit]) -> Patch | None:
    """The one container that asks for several shares of one resource asks for one."""
    pod = next((hit.text.pod for hit in hits if hit.text.pod is not None), None)
    asking = [
        (container, name)
        for container in (pod.containers if pod is not None else ())
        for name, count in container.limits.items()
        if is_device(name) and count > 1
    ]
    return resources_patch(workload, asking[0][0], {asking[0][1]: 1}) if workload is not None and len(asking) == 1 else None
