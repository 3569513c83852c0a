"""A rolling update waits for itself: the new pod needs the GPUs that the old pod of the same Deployment holds.

What
    A new pod of a Deployment is Pending for lack of GPUs, an old pod of the same Deployment runs and holds them, and the strategy
    removes the old one only when the new one is ready (maxUnavailable rounds to 0).

Why
    With the default strategy (25 % / 25 %) a Deployment of up to three replicas has maxUnavailable 0: on a full pool the rollout
    never ends. Nothing is down, and nothing is updated.

Fix
    `maxSurge: 0, maxUnavailable: 1`, or `strategy: Recreate` for one replica. To unblock now, delete the old pod.

References
    - Kubernetes: Deployment, rolling update strategy: maxUnavailable is rounded down, maxSurge up

Fires: one replica, two cards, both held by the old pod
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag, uid: d}
    spec: {replicas: 1, selector: {matchLabels: {app: llm}}, strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}}
    status: {replicas: 2}
    ---
    apiVersion: apps/v1
    kind: ReplicaSet
    metadata: {name: llm-old, namespace: rag, uid: r1, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: llm, uid: d, controller: true}]}
    status: {replicas: 1}
    ---
    apiVersion: apps/v1
    kind: ReplicaSet
    metadata: {name: llm-new, namespace: rag, uid: r2, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: llm, uid: d, controller: true}]}
    status: {replicas: 1}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-old-a, namespace: rag, uid: p1, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: llm-old, uid: r1, controller: true}]}
    spec: {nodeName: gpu-1, containers: [{name: vllm, image: "vllm:1", resources: {requests: {nvidia.com/gpu: 2}, limits: {nvidia.com/gpu: 2}}}]}
    status: {phase: Running}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-new-b, namespace: rag, uid: p2, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: llm-new, uid: r2, controller: true}]}
    spec: {containers: [{name: vllm, image: "vllm:2", resources: {requests: {nvidia.com/gpu: 2}, limits: {nvidia.com/gpu: 2}}}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}

Quiet: surge 1, and two more cards are free
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 4}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 4}}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag, uid: d}
    spec: {replicas: 1, selector: {matchLabels: {app: llm}}, strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}}
    status: {replicas: 1}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-old-a, namespace: rag, uid: p1, labels: {app: llm}}
    spec: {nodeName: gpu-1, containers: [{name: vllm, image: "vllm:1", resources: {requests: {nvidia.com/gpu: 2}, limits: {nvidia.com/gpu: 2}}}]}
    status: {phase: Running}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.cluster.objects import KubeObject, Pod
from ragstow.rules.context import Context
from ragstow.rules.engines import is_device
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef, Patch
from ragstow.rules.rollouts import removes_last
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import FIT, Waiting, waiting


class RollingUpdateGpuDeadlock(Rule):
    """See the page above."""

    cause = "rolling-update-gpu-deadlock"
    severity = "high"
    needs = frozenset({"snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each Deployment whose new pod waits for its old one's GPUs."""
        for group in waiting(context):
            workload = context.owners.object(group.workload)
            if workload is None or workload.kind != "Deployment" or not group.wants or not removes_last(workload):
                continue
            old = _old_holders(context, group)
            if not old or not _would_fit_without(group, old):
                continue
            resource, count = next(iter(group.wants.items()))
            yield self.finding(
                f"{group.workload}: the rollout waits for the GPUs that its own old pod holds",
                f"The new pod needs {count} {resource}; none is free, and {', '.join(pod.key for pod in old)} keeps its GPUs until the "
                "new pod is ready (maxUnavailable is 0). It cannot end by itself.",
                Fix(
                    "Set maxSurge: 0 and maxUnavailable: 1 (or strategy Recreate), or free one GPU slot for the surge pod. To unblock "
                    "now, delete the old pod: the service is down until the new one is ready.",
                    command=f"kubectl -n {old[0].namespace} patch deployment {workload.name} --type merge -p "
                    '\'{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}}}\'',
                    patch=Patch(
                        "merge",
                        group.workload,
                        {
                            "spec": {
                                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
                            }
                        },
                    ),
                    disruption=f"replaces {old[0].key}",
                    check=f"kubectl -n {old[0].namespace} rollout status deployment/{workload.name}",
                ),
                (*group.objects, *map(ObjectRef.of, old)),
                evidence=(*group.evidence, Evidence(_strategy_text(workload), group.workload, "spec.strategy")),
                held=group.held,
                since=group.since,
                changed=_changed(group, old),
            )


def _old_holders(context: Context, group: Waiting) -> list[Pod]:
    new = context.owners.replica_set(group.pod)
    return [
        pod
        for pod in context.owners.pods(group.workload)
        if pod.node
        and not pod.finished
        and (context.owners.replica_set(pod) != new or not new)
        and any(is_device(name) and count for name, count in context.requests(pod).items())
    ]


def _would_fit_without(group: Waiting, old: list[Pod]) -> bool:
    """Whether only room is lacking, and the old pods' GPUs on one node would give it."""
    if not group.by_default_scheduler or group.verdict.feasible:
        return False
    for node in group.offering:
        freed = {
            name: sum(group.context.requests(pod).get(name, 0) for pod in old if pod.node == node.name) for name in group.wants
        }
        lacks = any(node.resources[name].free < count for name, count in group.wants.items())
        room = all(node.resources[name].free + freed[name] >= count for name, count in group.wants.items())
        if room and any(freed.values()) and group.only(node, FIT, "InterPodAffinity") and lacks:
            return True
    return False


def _strategy_text(deployment: KubeObject) -> str:
    update = _mapping(_mapping(_mapping(deployment.raw.get("spec")).get("strategy")).get("rollingUpdate"))
    return f"RollingUpdate, maxSurge {update.get('maxSurge', '25%')}, maxUnavailable {update.get('maxUnavailable', '25%')}"


def _changed(group: Waiting, old: list[Pod]) -> list[str]:
    changes = []
    for new, before in zip(group.pod.containers, old[0].containers, strict=False):
        if new.image != before.image:
            changes.append(f"{group.workload}: image of container {new.name} from {before.image} to {new.image}")
    return changes


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
