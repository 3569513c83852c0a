"""A pod uses a vendor's GPU-sharing resources, but the vendor's scheduler or webhook does not handle it.

What
    A pod asks for HAMi's `nvidia.com/gpumem` or `gpucores` (or carries KAI's annotations) and is in the hands of the default scheduler,
    because it is privileged, names another scheduler or a node, or the webhook was not there when it was made.

Why
    Those resources are in no node's allocatable: the default scheduler says "Insufficient nvidia.com/gpumem" for ever, or, with a
    node named, nothing accounts for the memory.

Fix
    Drop `privileged` (add only the capabilities that are needed), do not set schedulerName or nodeName, make sure that the webhook
    runs, and create the pod again.

References
    - HAMi: privileged containers are skipped by the webhook
    - KAI scheduler: GPU sharing needs schedulerName kai-scheduler

Fires: privileged, so HAMi's webhook skipped it
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, annotations: {hami.io/node-nvidia-register: "GPU-0,10,24576,100,NVIDIA-A10,0,true:"}}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 10}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 10}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec:
      containers:
      - {name: c, image: i, securityContext: {privileged: true}, resources: {requests: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3k}, limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3k}}}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}

Quiet: HAMi's scheduler has it
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, annotations: {hami.io/node-nvidia-register: "GPU-0,10,24576,100,NVIDIA-A10,0,true:"}}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 10}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 10}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec:
      nodeName: gpu-1
      schedulerName: hami-scheduler
      containers:
      - {name: c, image: i, resources: {requests: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3k}, limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3k}}}
    status: {phase: Running}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.cluster.objects import Pod
from ragstow.rules.context import Context
from ragstow.rules.engines import GPU_DOMAIN
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import DEFAULT_SCHEDULER, waiting

_HAMI = tuple(f"{GPU_DOMAIN}{name}" for name in ("gpumem", "gpumem-percentage", "gpucores"))
_KAI = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices")


class SchedulerBypass(Rule):
    """See the page above."""

    cause = "scheduler-bypass"
    severity = "high"
    needs = frozenset({"snapshot", "events"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each waiting workload that the wrong scheduler has."""
        for group in waiting(context):
            pod = group.pod
            vendor, scheduler = _vendor(context, pod)
            if not vendor or pod.scheduler != DEFAULT_SCHEDULER:
                continue
            why = _why(pod)
            yield self.finding(
                f"{group.workload} asks for {vendor}'s shares, but the default scheduler has it"
                + (f": {why[0]}" if why else ""),
                f"{vendor}'s webhook sets schedulerName {scheduler} on such pods; it skipped this one, and the default scheduler knows "
                "nothing of those resources.",
                Fix(
                    f"Remove what made the webhook skip the pod ({why[0] if why else 'see whether the webhook runs'}), or set "
                    f"schedulerName: {scheduler} yourself, and create the pod again.",
                    disruption=f"restarts {group.workload}",
                    check=f"kubectl -n {pod.namespace} get pod -o jsonpath='{{.items[*].spec.schedulerName}}'",
                ),
                group.objects,
                evidence=(
                    Evidence(pod.scheduler, ObjectRef.of(pod), "spec.schedulerName"),
                    *(Evidence(text, ObjectRef.of(pod), "spec") for text in why),
                    *group.evidence,
                ),
                held=group.held,
                since=group.since,
            )


def _vendor(context: Context, pod: Pod) -> tuple[str, str]:
    if any(context.requests(pod).get(name) for name in _HAMI):
        return "HAMi", "hami-scheduler"
    if any(name in pod.annotations for name in _KAI):
        return "KAI", "kai-scheduler"
    return "", ""


def _why(pod: Pod) -> list[str]:
    return [
        f"container {container.name} is privileged"
        for container in pod.containers
        if isinstance(context := container.raw.get("securityContext"), dict) and context.get("privileged") is True
    ]
