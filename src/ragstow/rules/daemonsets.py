"""Which nodes a DaemonSet's pods may run on, asked of the scheduler library."""

from __future__ import annotations

from collections.abc import Mapping

from ragstow.cluster.build import build
from ragstow.cluster.objects import KubeObject, Node, Pod
from ragstow.inventory.identity import identify
from ragstow.rules.context import Context, NodeRefusal
from ragstow.rules.engines import GPU_DOMAIN
from ragstow.rules.index.stack import template

_OWN_TOLERATIONS = (
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/disk-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/pid-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
)
"""What the DaemonSet controller adds to every pod (pkg/controller/daemon/util)."""

_WORKLOADS = "nvidia.com/gpu.workload.config"

_ELIGIBILITY = frozenset({"NodeName", "NodeAffinity", "TaintToleration"})
"""What the controller itself asks before it makes a pod for a node; room is asked later, by the scheduler."""


def daemon_pod(daemonset: KubeObject) -> Pod | None:
    """The pod that the DaemonSet would make, without a node; None where its template is no pod."""
    spec = dict(template(daemonset))
    if not spec:
        return None
    listed = spec.get("tolerations")
    spec["tolerations"] = [*(listed if isinstance(listed, list) else ()), *_OWN_TOLERATIONS]
    meta = {"name": f"{daemonset.name}-x", "namespace": daemonset.namespace}
    return next(iter(build([{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}]).pods), None)


def ineligible(context: Context, daemonset: KubeObject) -> Mapping[str, tuple[NodeRefusal, ...]]:
    """Node -> why the controller makes no pod for it; nodes that may have one are absent."""
    pod = daemon_pod(daemonset)
    if pod is None or context.pending is None:
        return {}
    refused = context.pending(pod).refused
    found = {node: tuple(item for item in items if item.plugin in _ELIGIBILITY) for node, items in refused.items()}
    return {node: items for node, items in found.items() if items}


def looks_like_gpu_node(context: Context, node: Node) -> bool:
    """Whether a node has GPUs for containers by the inventory, by a cloud's label or by its machine type."""
    if _for_machines(node):
        return False
    found = context.inventory.find(node.name)
    if found is not None and (found.sharing != "none" or found.cards > 0):
        return True
    known = identify(node, context.facts, (), None)
    return known.product is not None or bool(known.cards)


def _for_machines(node: Node) -> bool:
    """Whether a node's cards go to virtual machines: by the operator's label, or by what the KubeVirt plugin offers, whose
    resources are called after cards (nvidia.com/GA102GL_A10)."""
    offered = (name for name, amount in node.capacity.items() if amount)
    return node.labels.get(_WORKLOADS, "").startswith("vm-") or any(
        name.startswith(GPU_DOMAIN) and not name.islower() for name in offered
    )
