"""A pod's volume is bound to nodes or zones that do not meet the nodes with its GPU.

What
    Every node that offers what the pod asks for is refused because of its volume (node affinity of the PersistentVolume, zone), and
    the nodes where the volume lies lack the GPU.

Why
    A model cache on local or zonal storage pins all its pods to where it was first used; with ReadWriteOnce it also ties replicas
    to one node.

Fix
    Give each pod its own claim on the node it runs on (StatefulSet with volumeClaimTemplates, WaitForFirstConsumer), use storage
    that all GPU nodes reach, or delete the cache and let it be filled again where the GPU is.

References
    - Kubernetes: PersistentVolume node affinity; storage class volumeBindingMode

Fires: the cache lies on the CPU node
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n1, labels: {kubernetes.io/hostname: gpu-1}}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Node
    metadata: {name: cpu-1, uid: n2, labels: {kubernetes.io/hostname: cpu-1}}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110}, allocatable: {cpu: 8, memory: 32Gi, pods: 110}}
    ---
    apiVersion: v1
    kind: PersistentVolume
    metadata: {name: pv-1, uid: v}
    spec:
      capacity: {storage: 10Gi}
      accessModes: [ReadWriteOnce]
      claimRef: {namespace: rag, name: cache, uid: c}
      nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [cpu-1]}]}]}}
    status: {phase: Bound}
    ---
    apiVersion: v1
    kind: PersistentVolumeClaim
    metadata: {name: cache, namespace: rag, uid: c, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}, volumeName: pv-1}
    status: {phase: Bound}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec:
      containers: [{name: vllm, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]
      volumes: [{name: cache, persistentVolumeClaim: {claimName: cache}}]
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}

Quiet: the pod has no volume
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n1, labels: {kubernetes.io/hostname: gpu-1}}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec: {nodeName: gpu-1, containers: [{name: vllm, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Running}
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragstow.rules.context import Context
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import Waiting, for_work, waiting

_PLUGINS = frozenset({"VolumeBinding", "VolumeZone"})
_SAID = re.compile(r"volume node affinity conflict|didn't match PersistentVolume's node affinity|no available volume zone")


class VolumeTopologyConflict(Rule):
    """See the page above."""

    cause = "volume-topology-conflict"
    severity = "high"
    needs = frozenset({"snapshot", "events"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload whose volume lies where its GPU is not."""
        for group in waiting(context):
            claims = _claims(group)
            if not claims or group.verdict.feasible:
                continue
            blocked = [node for node in context.snapshot.nodes if for_work(context, node.name) and group.only(node, *_PLUGINS)]
            said = [entry for entry in group.evidence if _SAID.search(entry.value)]
            if not blocked and not said:
                continue
            volumes = [
                ObjectRef("PersistentVolume", "", str((item.raw.get("spec") or {}).get("volumeName")))
                for name in claims
                if (item := context.snapshot.get("PersistentVolumeClaim", name, group.pod.namespace)) is not None
                and (item.raw.get("spec") or {}).get("volumeName")
            ]
            refs = [ObjectRef("PersistentVolumeClaim", group.pod.namespace, name) for name in claims]
            where = ", ".join(node.name for node in blocked[:5])
            yield self.finding(
                f"{group.workload}: its volume is bound elsewhere than its GPU",
                (f"{where} would take the pod, but " if where else "")
                + f"claim {', '.join(claims)} is bound to a volume that other nodes or zones hold.",
                Fix(
                    "Give each pod its own claim where it runs (volumeClaimTemplates, WaitForFirstConsumer), use storage that all GPU "
                    "nodes reach, or delete the claim if it is only a cache.",
                    command=f"kubectl get pv {volumes[0].name} -o jsonpath='{{.spec.nodeAffinity}}'" if volumes else "",
                    disruption="a deleted cache is filled again",
                    check="the pod gets a node",
                ),
                (*group.objects, *refs, *volumes, *map(ObjectRef.of, blocked[:3])),
                evidence=(
                    *group.evidence,
                    *(
                        Evidence("; ".join(refusal.texts), ObjectRef.of(node), refusal.plugin)
                        for node in blocked[:2]
                        for refusal in group.refusals(node)
                    ),
                ),
                held=group.held,
                since=group.since,
                confidence="certain" if blocked else "likely",
            )


def _claims(group: Waiting) -> list[str]:
    return [
        str(volume["persistentVolumeClaim"].get("claimName"))
        for volume in group.pod.spec.get("volumes") or ()
        if isinstance(volume, dict) and isinstance(volume.get("persistentVolumeClaim"), dict)
    ]
