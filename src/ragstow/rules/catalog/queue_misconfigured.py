"""A batch or AI scheduler has the pod, and its queue is missing, wrong or closed.

What
    A pod of KAI, Kueue or Volcano names no queue, or one that does not exist in the cluster, or the queue cannot hand it out: no
    quota of that kind, stopped, or the scheduler's shard does not serve the node pool.

Why
    Such schedulers do not look at pods without a queue of theirs; the pod stays Pending or gated, often without any event.

Fix
    Name an existing queue (KAI: label `kai.scheduler/queue`; Kueue: label `kueue.x-k8s.io/queue-name` with a LocalQueue in the namespace;
    Volcano: `spec.queue` of the PodGroup), or create it.

References
    - KAI scheduler: queues
    - Kueue: LocalQueue, ClusterQueue

Fires: KAI and a queue that does not exist
    apiVersion: scheduling.run.ai/v2
    kind: Queue
    metadata: {name: default-queue, uid: q}
    spec: {}
    status: {}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b, labels: {kai.scheduler/queue: team-a}}
    spec: {schedulerName: kai-scheduler, containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}

Quiet: the queue exists
    apiVersion: scheduling.run.ai/v2
    kind: Queue
    metadata: {name: team-a, uid: q}
    spec: {}
    status: {}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b, labels: {kai.scheduler/queue: team-a}}
    spec: {nodeName: gpu-1, schedulerName: kai-scheduler, containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Running}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.cluster.objects import KubeObject
from ragstow.rules.context import Context
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import waiting

KAI_LABELS = ("kai.scheduler/queue", "runai/queue")
KUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_KAI_GROUPS = ("scheduling.run.ai", "kai.scheduler")
_SAID = re.compile(
    r"(?i)queue\b.*(?:not found|does not exist|doesn't exist|missing|is stopped|not active|inactive)|no queue|(?:Local|Cluster)Queue .*(?:doesn't|does not) exist"
)

_POOL = "kai.scheduler/node-pool"
_SHARDS = "kai.scheduler"


class QueueMisconfigured(Rule):
    """See the page above."""

    cause = "queue-misconfigured"
    severity = "high"
    needs = frozenset({"snapshot", "events"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload that waits for a queue that is not there."""
        for group in waiting(context):
            trouble = _kai(context, group.pod.scheduler, group.pod.labels) if "kai" in group.pod.scheduler else ""
            said = [entry for entry in group.evidence if _SAID.search(entry.value)]
            if trouble or (said and group.pod.scheduler != "default-scheduler"):
                yield self._finding(group.objects, group.held, trouble or said[0].value, (*said, *group.evidence), group.since)
        for state in context.states.in_state("gated"):
            name = state.pod.labels.get(KUEUE_LABEL)
            kinds = context.snapshot.of("LocalQueue", "kueue.x-k8s.io")
            known = [item for item in kinds if item.namespace == state.pod.namespace]
            if name and kinds and name not in {item.name for item in known}:
                text = f"LocalQueue {state.pod.namespace}/{name} does not exist"
                yield self._finding(
                    (context.owners.workload(state.pod), ObjectRef.of(state.pod)),
                    (state.pod.key,),
                    text,
                    (Evidence(name, ObjectRef.of(state.pod), f"metadata.labels[{KUEUE_LABEL}]"),),
                    state.since,
                )

    def _finding(
        self,
        objects: tuple[ObjectRef, ...],
        held: tuple[str, ...],
        trouble: str,
        evidence: tuple[Evidence, ...],
        since: str | None,
    ) -> Finding:
        return self.finding(
            f"{objects[0]} waits for a queue: {trouble}",
            "Its scheduler hands out GPUs by queue, and this queue cannot serve the pod.",
            Fix("Name an existing queue in the pod's label, or create the queue.", check="the pod gets a node"),
            objects,
            evidence=evidence,
            held=held,
            since=since,
        )


def _kai(context: Context, scheduler: str, labels: Mapping[str, str]) -> str:
    queues = {item.name: item for group in _KAI_GROUPS for item in context.snapshot.of("Queue", group)}
    name = next((labels[key] for key in KAI_LABELS if key in labels), None)
    if name is None:
        return f"no label {KAI_LABELS[0]}, without which {scheduler} ignores the pod"
    queue = queues.get(name)
    if queue is None:
        return f'queue "{name}" does not exist' if queues else ""
    pool, asked = queue.labels.get(_POOL, ""), labels.get(_POOL, "")
    shards = {str(_spec(item).get("partitionLabelValue") or "") for item in context.snapshot.of("SchedulingShard", _SHARDS)}
    if pool != asked:
        return f'queue "{name}" belongs to node pool {pool or "(default)"}, the pod to {asked or "(default)"} (label {_POOL})'
    if pool and pool not in shards:
        return f"no SchedulingShard serves node pool {pool} (partitionLabelValue)"
    parents = {str(_spec(item).get("parentQueue")) for item in queues.values()}
    if not _spec(queue).get("parentQueue") and (name in parents or len(queues) == 1 or any(p in queues for p in parents)):
        return f'queue "{name}" is at the top (it has no parentQueue): {scheduler} takes pods in queues below one'
    return ""


def _spec(item: KubeObject) -> Mapping[str, Any]:
    spec = item.raw.get("spec")
    return spec if isinstance(spec, Mapping) else {}
