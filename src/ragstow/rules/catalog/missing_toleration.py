"""A pod waits because it does not tolerate a taint that every otherwise suitable node carries.

What
    A Pending pod for which at least one node would do, but for a taint that the pod has no toleration for: none at all, or one with
    another key, value, operator or effect.

Why
    GPU nodes are tainted so that nothing else lands there. GKE adds the toleration by itself, but only to pods that ask for
    `nvidia.com/gpu` itself: not to helpers without a GPU, not for shares or MIG slices under another name, not with a claim.

Fix
    Add the toleration to the pod template; `operator: Exists` fits every value.

References
    - Kubernetes: taints and tolerations
    - Kubernetes: admission plugin ExtendedResourceToleration

Fires: the only GPU node is tainted
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: a, labels: {nvidia.com/gpu.present: "true"}}
    spec: {taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec: {containers: [{name: vllm, image: vllm-openai, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}

Quiet: the pod tolerates it and runs
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: a, labels: {nvidia.com/gpu.present: "true"}}
    spec: {taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec:
      nodeName: gpu-1
      tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
      containers: [{name: vllm, image: vllm-openai, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]
    status: {phase: Running}

Quiet: the card is taken; the taint is tolerated
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: a, labels: {nvidia.com/gpu.present: "true"}}
    spec: {taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: holder, namespace: rag, uid: c}
    spec: {nodeName: gpu-1, containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Running}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec:
      tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
      containers: [{name: vllm, image: vllm-openai, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}

Fires (lint): the taint of every GPU node of the cluster is not tolerated
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.product: NVIDIA-L4}}
    spec: {taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      selector: {matchLabels: {app: llm}}
      template:
        metadata: {labels: {app: llm}}
        spec: {tolerations: [], containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}]}

Quiet (lint): it is
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.product: NVIDIA-L4}}
    spec: {taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      selector: {matchLabels: {app: llm}}
      template:
        metadata: {labels: {app: llm}}
        spec: {tolerations: [{key: nvidia.com/gpu, operator: Exists}], containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}]}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.cluster.objects import Node, Taint
from ragstow.rules.context import Context
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef, Patch
from ragstow.rules.prospects import in_cluster
from ragstow.rules.rule import Rule
from ragstow.rules.taints import stuck_taints, text, untolerated
from ragstow.rules.waiting import FIT, TAINT, Waiting, for_work, waiting


class MissingToleration(Rule):
    """See the page above."""

    cause = "missing-toleration"
    severity = "high"
    needs = frozenset({"manifest", "snapshot", "events"})
    asks_cluster = True

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload that only a taint keeps off its nodes."""
        for group in waiting(context):
            nodes = _kept_off(context, group)
            if not nodes:
                continue
            taints = list(dict.fromkeys(taint for node in nodes for taint in untolerated(node, group.pod)))
            named = ", ".join(map(text, taints))
            yield self.finding(
                f"{group.workload} does not tolerate taint {named}: {len(group.pods)} pod(s) wait",
                f"{len(nodes)} node(s) would take the pod but for that taint ({', '.join(node.name for node in nodes[:5])}).",
                _fix(group, taints),
                (*group.objects, *(ObjectRef.of(node) for node in nodes[:10])),
                evidence=(
                    *group.evidence,
                    *(
                        Evidence(text(t), ObjectRef.of(node), "spec.taints")
                        for node in nodes[:3]
                        for t in untolerated(node, group.pod)
                    ),
                ),
                held=group.held,
                since=group.since,
            )

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """The same for pods that these manifests would make, against the cluster."""
        yield from in_cluster(context, self.diagnose)


def _kept_off(context: Context, group: Waiting) -> list[Node]:
    """Nodes that nothing but a taint keeps the pod off; where all of those are full as well, nodes with both obstacles count
    only if the pod tolerates no node that offers what it wants."""
    if not group.by_default_scheduler or group.verdict.feasible:
        return []
    offering = {node.name for node in group.offering} if group.wants else None
    candidates = [
        node
        for node in context.snapshot.nodes
        if for_work(context, node.name) and not stuck_taints(node) and (offering is None or node.name in offering)
    ]
    alone = [node for node in candidates if group.only(node, TAINT)]
    if alone:
        return alone
    if any(TAINT not in group.plugins(node) for node in candidates):
        return []
    return [node for node in candidates if group.wants and group.only(node, TAINT, FIT)]


def _fix(group: Waiting, taints: list[Taint]) -> Fix:
    listed = [{"key": taint.key, "operator": "Exists", "effect": taint.effect} for taint in taints]
    existing = [
        dict(item)
        for item in group.pod.spec.get("tolerations") or ()
        if not str(item.get("key", "")).startswith("node.kubernetes.io/")
    ]
    content: Mapping[str, Any] = {"spec": {"template": {"spec": {"tolerations": [*existing, *listed]}}}}
    patch = (
        Patch("merge", group.workload, content) if group.workload.kind in ("Deployment", "StatefulSet", "DaemonSet") else None
    )
    keys = ", ".join(f"{{key: {item['key']}, operator: Exists, effect: {item['effect']}}}" for item in listed)
    return Fix(
        f"Add to the pod template's tolerations: {keys}.",
        patch=patch,
        disruption=f"restarts {group.workload}",
        check="the pod gets a node",
    )
