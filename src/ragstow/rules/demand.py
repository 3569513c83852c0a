"""How many GPU slots the workloads of manifests want, and how many a cluster has for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ragstow.cluster.objects import Node
from ragstow.rules.engines import gpu_limits
from ragstow.rules.manifests import LintContext, Manifest, PodSpec
from ragstow.rules.rollouts import replicas
from ragstow.rules.selection import unmet


@dataclass(frozen=True, slots=True)
class Demand:
    """A workload whose pods each want `count` of one GPU resource; `replicas` pods at a time."""

    manifest: Manifest
    spec: PodSpec
    resource: str
    count: int
    replicas: int


@dataclass(frozen=True, slots=True)
class Supply:
    """Slots of a resource on the nodes that a pod may use by its labels: in all, and free on nodes that are not cordoned."""

    total: int
    free: int
    nodes: tuple[str, ...]


def demands(context: LintContext) -> Iterator[Demand]:
    """Every workload of the manifests that wants one kind of GPU resource; DaemonSets and bare pods count one pod."""
    for spec in context.pod_specs:
        wants: dict[str, int] = {}
        for _, container in spec.containers():
            for name, count in gpu_limits(container).items():
                wants[name] = wants.get(name, 0) + count
        wants = {name: count for name, count in wants.items() if count > 0}
        if len(wants) == 1:
            ((resource, count),) = wants.items()
            yield Demand(spec.manifest, spec, resource, count, _pods(spec.manifest))


def supply(context: LintContext, demand: Demand) -> Supply | None:
    """What the cluster has for it; None without a cluster, or where no node offers the resource at all."""
    if context.cluster is None:
        return None
    total = free = 0
    names: list[str] = []
    for found in context.cluster.inventory.nodes:
        node = context.cluster.snapshot.get("Node", found.name)
        use = found.resources.get(demand.resource)
        if not isinstance(node, Node) or use is None or not use.allocatable or unmet(demand.spec.spec, node):
            continue
        names.append(node.name)
        total += use.allocatable
        free += 0 if node.unschedulable else use.free
    return Supply(total, free, tuple(names)) if names else None


def shared_only(context: LintContext, pod: PodSpec) -> set[str]:
    """Resources that are shares on every node that the pod may use by its labels."""
    shared: set[str] = set()
    whole: set[str] = set()
    for found in context.cluster.inventory.nodes if context.cluster is not None else ():
        node = context.cluster.snapshot.get("Node", found.name) if context.cluster is not None else None
        if isinstance(node, Node) and not unmet(pod.spec, node):
            offered = {name for name, use in found.resources.items() if use.capacity}
            (shared if found.sharing in ("time-slicing", "mps") else whole).update(offered)
    return shared - whole


def _pods(manifest: Manifest) -> int:
    spec = manifest.object.raw.get("spec") or {}
    if manifest.object.kind in ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"):
        return replicas(manifest.object)
    if manifest.object.kind == "Job":
        at_once = spec.get("parallelism", 1)
        wanted = spec.get("completions", at_once)
        return min(at_once, wanted) if isinstance(at_once, int) and isinstance(wanted, int) else 1
    return 1
