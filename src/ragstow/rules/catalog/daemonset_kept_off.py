"""A DaemonSet of the GPU stack would have no pod on GPU nodes of the cluster that it is meant for.

What
    The device plugin, GPU feature discovery, the worker of node feature discovery or the DRA driver of these manifests, put into the
    cluster: a taint that it does not tolerate, or a label that it selects, keeps it off nodes that have GPUs.

Why
    Such a node offers no GPU, has no labels or publishes no devices, and nothing says so: the DaemonSet just wants fewer pods.

Fix
    Add the taint to its tolerations (of plugin, feature discovery and the NFD worker alike), or set the label that it selects.

References
    - NVIDIA k8s-device-plugin: Helm chart, affinity and tolerations
    - node feature discovery: worker.tolerations

Fires (lint): the team's taint
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.present: "true", node.kubernetes.io/instance-type: g5.xlarge}}
    spec: {taints: [{key: team, value: llm, effect: NoSchedule}]}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110}, allocatable: {cpu: 8, memory: 32Gi, pods: 110}}
    ---
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: nvdp, namespace: gpu}
    spec:
      selector: {matchLabels: {app: nvdp}}
      template:
        metadata: {labels: {app: nvdp}}
        spec:
          tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
          containers: [{name: nvidia-device-plugin-ctr, image: "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"}]

Quiet (lint): it tolerates that too
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.present: "true", node.kubernetes.io/instance-type: g5.xlarge}}
    spec: {taints: [{key: team, value: llm, effect: NoSchedule}]}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110}, allocatable: {cpu: 8, memory: 32Gi, pods: 110}}
    ---
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: nvdp, namespace: gpu}
    spec:
      selector: {matchLabels: {app: nvdp}}
      template:
        metadata: {labels: {app: nvdp}}
        spec:
          tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}, {key: team, operator: Exists, effect: NoSchedule}]
          containers: [{name: nvidia-device-plugin-ctr, image: "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"}]

Quiet (lint): another plugin serves that node
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {pool: other}}
    spec: {taints: [{key: team, value: llm, effect: NoSchedule}]}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 4}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 4}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: other-plugin, namespace: gpu, uid: p}
    spec: {nodeName: gpu-1, containers: [{name: nvidia-device-plugin-ctr, image: "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"}]}
    status: {phase: Running}
    ---
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: nvdp, namespace: gpu}
    spec:
      selector: {matchLabels: {app: nvdp}}
      template: {metadata: {labels: {app: nvdp}}, spec: {nodeSelector: {pool: mine}, containers: [{name: nvidia-device-plugin-ctr, image: "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"}]}}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.cluster.objects import Node
from ragstow.rules.context import Context
from ragstow.rules.daemonsets import ineligible, looks_like_gpu_node
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import TAINT
from ragstow.rules.youth import passing

_ROLES = ("device-plugin", "feature-discovery", "node-feature-discovery", "dra-driver")


class DaemonsetKeptOff(Rule):
    """See the page above."""

    cause = "daemonset-kept-off"
    severity = "high"
    needs = frozenset({"manifest", "snapshot"})
    asks_cluster = True

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each DaemonSet of the manifests, with the GPU nodes that it would not reach."""
        cluster = context.cluster
        if cluster is None:
            return
        for manifest in context.of("DaemonSet"):
            item = manifest.object
            roles = [role for role in cluster.stack.roles(item) if role in _ROLES]
            if not roles:
                continue
            refused = ineligible(cluster, item)
            nodes = [
                node
                for node in cluster.snapshot.nodes
                if node.name in refused and not node.unschedulable and _needs(cluster, node, roles[0], item.name)
            ]
            if not nodes:
                continue
            words = list(
                dict.fromkeys(word for node in nodes for why in refused[node.name] for word in (why.words or why.texts))
            )
            tainted = any(why.plugin == TAINT for node in nodes for why in refused[node.name])
            ref = ObjectRef.of(item)
            yield self.finding(
                f"{ref} would have no pod on {len(nodes)} GPU node(s): {', '.join(node.name for node in nodes[:5])}",
                "; ".join(words[:3]) + ". Nothing would say so: the DaemonSet just wants fewer pods.",
                Fix(
                    "Add the taint to its tolerations."
                    if tainted
                    else "Set the label that it selects, or select one that the nodes have."
                ),
                (ref, *map(ObjectRef.of, nodes[:5])),
                evidence=[Evidence(word, ref, "spec.template.spec") for word in words[:3]],
                severity=None if roles[0] != "node-feature-discovery" else "medium",
                file=manifest.file,
                line=manifest.line("spec", "template", "spec", "tolerations" if tainted else "nodeSelector"),
            )


def _needs(cluster: Context, node: Node, role: str, name: str) -> bool:
    """Whether a node has GPUs that this kind of DaemonSet should look after, and nobody else's pod does."""
    if (
        not looks_like_gpu_node(cluster, node)
        or passing(cluster, node)
        or any("control-plane" in taint.key for taint in node.taints)
    ):
        return False
    sharing = cluster.inventory.node(node.name).sharing
    if (role == "dra-driver") is not (sharing == "dra") and sharing not in ("none", "unknown", "exclusive"):
        return False
    offered = any(use.capacity for use in cluster.inventory.node(node.name).resources.values())
    if role == "dra-driver" and offered:
        return False  # the device plugin's node
    # A node of a pool that the cloud's own, invisible plugin serves has GPUs and no plugin pod: it needs none.
    mine = [pod for pod in cluster.stack.pods(role, node=node.name) if cluster.owners.workload(pod).name == name]
    others = [pod for pod in cluster.stack.pods(role, node=node.name) if pod not in mine]
    return not others and (not offered or bool(mine))
