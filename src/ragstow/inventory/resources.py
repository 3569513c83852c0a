"""Which extended resources are GPUs, and who holds how many of them on a node.

Only amounts are counted here, never cards: a slot may be a card, a slice or a share of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ragstow.cluster.demand import pod_demand, resource_names
from ragstow.cluster.objects import Node, Pod
from ragstow.inventory.model import ResourceUse

FULL_GPU = "nvidia.com/gpu"
SHARED_SUFFIX = ".shared"
_GPU_RESOURCE = re.compile(r"nvidia\.com/(?:gpu(?:\..+)?|mig-.+)")
_MIG_RESOURCE = re.compile(r"nvidia\.com/mig-(.+?)(\.shared)?")


def is_gpu_resource(name: str) -> bool:
    """Whether the device plugin counts cards, shares or MIG slices under this name (HAMi's gpumem and gpucores are neither)."""
    return _GPU_RESOURCE.fullmatch(name) is not None


def mig_profile(name: str) -> str | None:
    """The profile behind a resource such as nvidia.com/mig-1g.10gb.me, spelt as labels do; None for any other resource."""
    match = _MIG_RESOURCE.fullmatch(name)
    return match[1] if match else None


def is_shared(name: str) -> bool:
    """Whether the plugin renamed the resource because it is shared (renameByDefault)."""
    return name.endswith(SHARED_SUFFIX)


def by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """The pods that take room on each node: bound, and neither Succeeded nor Failed."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.node is not None and not pod.finished:
            found.setdefault(pod.node, []).append(pod)
    return found


def use(node: Node, pods: Iterable[Pod]) -> dict[str, ResourceUse]:
    """The GPU resources of a node by name: those it has or had, and those that its pods still hold.

    A pod that was given its device by DRA for an extended resource (KEP-5004) holds nothing of the device plugin's.
    """
    held: dict[str, dict[str, int]] = {}
    for pod in pods:
        by_claim = _given_by_claim(pod)
        for resource in resource_names(pod):
            if is_gpu_resource(resource) and resource not in by_claim and (amount := pod_demand(pod, resource)) > 0:
                held.setdefault(resource, {})[pod.key] = amount
    names = {name for name in (*node.capacity, *node.allocatable) if is_gpu_resource(name)} | held.keys()
    return {name: _use(node, name, held.get(name, {})) for name in sorted(names)}


def _use(node: Node, name: str, holders: Mapping[str, int]) -> ResourceUse:
    allocatable = node.allocatable.get(name, 0)
    requested = sum(holders.values())
    return ResourceUse(
        capacity=node.capacity.get(name, allocatable),
        allocatable=allocatable,
        requested=requested,
        free=max(0, allocatable - requested),
        holders=dict(sorted(holders.items())),
    )


def _given_by_claim(pod: Pod) -> set[str]:
    status = pod.status.get("extendedResourceClaimStatus")
    mappings = status.get("requestMappings") if isinstance(status, Mapping) else None
    if not isinstance(mappings, list):
        return set()
    return {str(item.get("resourceName")) for item in mappings if isinstance(item, Mapping)}
