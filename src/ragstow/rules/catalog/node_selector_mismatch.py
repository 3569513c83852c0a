"""A nodeSelector or required node affinity names a label value that no suitable node carries.

What
    A Pending pod, or a DaemonSet that runs nowhere, selects nodes by a label whose key exists on the GPU nodes with another value (or, for a
    pod, is on none of them), and nothing else keeps it off.

Why
    Product labels change: `NVIDIA-L4` becomes `NVIDIA-L4-SHARED` when sharing is turned on, old drivers left the vendor out, and the
    operator's `gpu.deploy.*` labels say `pre-installed` or `paused-…` besides `true`.

Fix
    Select a value that the nodes have; list several with `In`.

References
    - Kubernetes: assigning pods to nodes
    - GPU feature discovery: product label and its suffixes

Fires: the product label has changed
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.product: NVIDIA-L4-SHARED}}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 4}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 4}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
      containers: [{name: vllm, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}

Fires: a vendor's DaemonSet selects `true`, the label says `pre-installed`
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.present: "true", nvidia.com/gpu.deploy.driver: pre-installed}}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110}, allocatable: {cpu: 8, memory: 32Gi, pods: 110}}
    ---
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: vgpu-device-plugin, namespace: kube-system, uid: d}
    spec:
      selector: {matchLabels: {app: vgpu}}
      template: {metadata: {labels: {app: vgpu}}, spec: {nodeSelector: {nvidia.com/gpu.deploy.driver: "true"}, containers: [{name: device-plugin, image: vgpu-device-plugin}]}}
    status: {desiredNumberScheduled: 0, currentNumberScheduled: 0}

Quiet: the DaemonSet has nothing to do, the operator labels say so
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.present: "true", nvidia.com/mps.capable: "false"}}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: nvdp-nvidia-device-plugin-mps-control-daemon, namespace: nvidia, uid: d}
    spec:
      selector: {matchLabels: {app: mps}}
      template: {metadata: {labels: {app: mps}}, spec: {nodeSelector: {nvidia.com/mps.capable: "true"}, containers: [{name: mps-control-daemon-ctr, image: k8s-device-plugin}]}}
    status: {desiredNumberScheduled: 0, currentNumberScheduled: 0}

Fires (lint): no node of the cluster carries that product
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
        spec: {nodeSelector: {nvidia.com/gpu.product: L4}, tolerations: [{key: nvidia.com/gpu, operator: Exists}], containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}]}

Quiet (lint): one does
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
        spec: {nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}, tolerations: [{key: nvidia.com/gpu, operator: Exists}], containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}]}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.cluster.objects import KubeObject, Node
from ragstow.rules.context import Context
from ragstow.rules.fixes import template_patch
from ragstow.rules.index.stack import template
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef, Patch
from ragstow.rules.prospects import in_cluster
from ragstow.rules.rule import Rule
from ragstow.rules.selection import unmet, wanted_values
from ragstow.rules.waiting import AFFINITY, FIT, GPU_LABELS, Waiting, for_work, gpu_nodes, unserved, waiting, wishes


class NodeSelectorMismatch(Rule):
    """See the page above."""

    cause = "node-selector-mismatch"
    severity = "high"
    needs = frozenset({"manifest", "snapshot"})
    asks_cluster = True

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload or DaemonSet that only a label keeps off the GPU nodes."""
        for group in waiting(context):
            yield from self._pods(context, group)
        for item in context.snapshot.of("DaemonSet", "apps"):
            if item.live and _desired(item) == 0:
                yield from self._daemonset(context, item)

    def _pods(self, context: Context, group: Waiting) -> Iterator[Finding]:
        if not group.by_default_scheduler or group.verdict.feasible or not (group.wants or group.pod.node_selector):
            return
        nodes = [node for node in context.snapshot.nodes if for_work(context, node.name) and group.only(node, AFFINITY)]
        if group.wants:
            # Where the nodes are full as well, the label is wrong all the same.
            full = [
                node
                for node in context.snapshot.nodes
                if for_work(context, node.name) and group.only(node, AFFINITY, FIT) and not group.only(node, FIT)
            ]
            offering = {node.name for node in group.offering if group.fits_when_empty(node)}
            nodes = [node for node in nodes or full if node.name in offering]
        if not nodes:
            return
        wanted = wanted_values(group.pod.spec)
        wrong = {key: said for key, said in wanted.items() if all(key in unmet(group.pod.spec, node) for node in nodes)}
        key = next(iter(wrong), next(iter(wanted), ""))
        gpus = {node.name for node in gpu_nodes(context)}
        others = [node for node in context.snapshot.nodes if node.name in gpus and node not in nodes]
        if any(key not in unmet(group.pod.spec, node) for node in others):
            return  # a GPU node carries the value: what keeps the pod off that node is the cause
        text = wanted.get(key, "")
        has = sorted({node.labels[key] for node in nodes if key in node.labels})
        if key.startswith(GPU_LABELS) and not has:
            return  # a label of the GPU stack that no node has: it is not the pod that is wrong
        yield self.finding(
            f"{group.workload} selects nodes by {text}, which no suitable node carries",
            f"{len(nodes)} node(s) would take the pod but for that label"
            + (f"; there it is {', '.join(has)}." if has else "; they do not have it at all."),
            Fix(
                f"Select {key} with a value that the nodes have" + (f" ({', '.join(has)})" if has else "") + ", or drop it.",
                patch=_patch(group, key, has),
                disruption=f"restarts {group.workload}",
                check=f"kubectl get nodes -L {key}",
            ),
            (*group.objects, *map(ObjectRef.of, nodes[:5])),
            evidence=(
                *group.evidence,
                Evidence(text, ObjectRef.of(group.pod), "spec.nodeSelector / nodeAffinity"),
                *(
                    Evidence(node.labels.get(key, "(absent)"), ObjectRef.of(node), f"metadata.labels[{key}]")
                    for node in nodes[:2]
                ),
            ),
            held=group.held,
            since=group.since,
        )

    def _daemonset(self, context: Context, item: KubeObject) -> Iterator[Finding]:
        roles = context.stack.roles(item)
        if set(roles) & _OPTIONAL or not _serves_gpus(item, roles):
            return
        bare = [context.snapshot.get("Node", node.name) for node in gpu_nodes(context) if not _served(node.resources)]
        for key, values in wishes(template(item)):
            nodes = [node for node in bare if isinstance(node, Node) and key in node.labels and node.labels[key] not in values]
            nodes = [node for node in nodes if not _at_work(node, node.labels[key])]
            if nodes:
                yield self.finding(
                    f"{ObjectRef.of(item)} runs nowhere: it selects {key}={'|'.join(values)}, the GPU nodes say {nodes[0].labels[key]}",
                    f"The label exists on {len(nodes)} GPU node(s) with another value, so that the DaemonSet wants 0 pods and those nodes "
                    "offer no GPU.",
                    Fix(
                        "Select a label that is true on these nodes, such as nvidia.com/gpu.present=true, or set the label's value.",
                        disruption="none",
                        check=f"kubectl -n {item.namespace} get daemonset {item.name}   # DESIRED above 0",
                    ),
                    (ObjectRef.of(item), *map(ObjectRef.of, nodes[:5])),
                    evidence=(
                        Evidence(f"{key}={'|'.join(values)}", ObjectRef.of(item), "spec.template.spec.nodeSelector"),
                        *(Evidence(node.labels[key], ObjectRef.of(node), f"metadata.labels[{key}]") for node in nodes[:2]),
                    ),
                    held=[pod for group in unserved(context, [node.name for node in nodes]) for pod in group.held],
                )
                return

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """The same for pods that these manifests would make, against the cluster."""
        yield from in_cluster(context, self.diagnose)


def _patch(group: Waiting, key: str, has: list[str]) -> Patch | None:
    """Where the nodes agree on a value and a nodeSelector asks for another: that one."""
    return (
        template_patch(group.workload, {"nodeSelector": {key: has[0]}})
        if len(has) == 1 and key in group.pod.node_selector
        else None
    )


_UPGRADE = "nvidia.com/gpu-driver-upgrade-state"
_OPTIONAL = frozenset({"mps-daemon", "driver", "mig-manager", "dcgm-exporter", "dra-driver", "container-toolkit", "validator"})


def _at_work(node: Node, value: str) -> bool:
    """Whether the operator itself keeps the pods away while it works. A pause for a driver upgrade that is over (or that no
    upgrade state speaks of) was forgotten."""
    if value == "paused-for-driver-upgrade":
        return node.labels.get(_UPGRADE, "upgrade-done") not in ("upgrade-done", "upgrade-failed")
    return value.startswith("paused-for")


def _serves_gpus(item: KubeObject, roles: tuple[str, ...]) -> bool:
    """Whether a DaemonSet's work is to offer GPUs: a known plugin, or one that calls itself a GPU's device plugin."""
    if set(roles) & {"device-plugin", "hami-device-plugin"}:
        return True
    text = item.name + " " + " ".join(str(c.get("image", "")) for c in template(item).get("containers") or ())
    return "device-plugin" in text and "gpu" in text


def _served(resources: Mapping[str, Any]) -> bool:
    return any(use.capacity > 0 for use in resources.values())


def _desired(item: KubeObject) -> int | None:
    status = item.raw.get("status")
    value = status.get("desiredNumberScheduled") if isinstance(status, Mapping) else None
    return value if isinstance(value, int) else None
