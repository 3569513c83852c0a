"""What each pod of a service should see of a GPU: from its plan, or from labels where there is no plan.

A target joins a pod that exists with what is expected inside it. Components without pods have no target; `workloads` tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ragstow.cluster.objects import Container, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.facts import Facts
from ragstow.facts.gpus import split_product
from ragstow.inventory.model import Inventory, NodeGpus
from ragstow.plan.model import ComponentPlan, Plan
from ragstow.render.names import COMPONENT, SERVICE
from ragstow.rules.engines import gpu_limits, has_claims

MIB = 2**20
_MIG_RESOURCE = "nvidia.com/mig-"
_VIRTUAL = ("hami", "kai")
"""Allocators under which nvidia-smi may show the pod's limit instead of the card's memory."""
_TOLERANCE = 0.03
"""Drivers keep different amounts of a card or slice for themselves; a wrong card differs by far more."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a container should see.

    `mode` is one of the plan's modes ("unknown" without a plan where nothing tells), `count` the cards or slices, `product` the
    product label without suffixes, `profile` the MIG profile, `total_mib` [low, high] of each card or slice and `total_source`
    where that comes from, `sharers` how many pods may share a card, `peak_bytes` and `band` the memory as sized per card.
    """

    mode: str
    count: int
    product: str | None = None
    profile: str | None = None
    total_mib: tuple[int, int] | None = None
    total_source: str = ""
    sharers: int = 1
    peak_bytes: int | None = None
    band: tuple[int, int] | None = None
    weights_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Target:
    """A pod with a GPU, the container that has it, and what it should see; `resource` is None for a DRA claim."""

    pod: Pod
    component: str
    container: Container
    resource: str | None
    expected: Expected


def pods_of(snapshot: Snapshot, service: str, namespace: str) -> tuple[Pod, ...]:
    """The service's pods that are not on their way out, in order of their names."""
    found = [
        pod
        for pod in snapshot.pods
        if pod.namespace == namespace and pod.labels.get(SERVICE) == service and not pod.deleted and not pod.finished
    ]
    return tuple(sorted(found, key=lambda pod: pod.name))


def targets(pods: Iterable[Pod], plan: Plan | None, inventory: Inventory, facts: Facts) -> tuple[Target, ...]:
    """The pods that use a GPU.

    Args:
        pods: the service's pods.
        plan: what was planned; None: what can be expected is read off resources and node labels.
        inventory: the cluster as it is now.
        facts: cards and slices.
    """
    planned = {row.name: row for row in plan.components} if plan is not None else {}
    found = []
    for pod in pods:
        container = next((item for item in pod.containers if gpu_limits(item.raw) or has_claims(item.raw)), None)
        if container is None or pod.node is None:
            continue
        component = pod.labels.get(COMPONENT, "")
        row = planned.get(component)
        node = inventory.find(pod.node)
        resource, count = next(iter(gpu_limits(container.raw).items()), (None, 0))
        if row is not None and row.slot.mode != "none":
            expected = _planned(row, node, facts)
        else:
            expected = _labelled(resource, count, node, facts)
        found.append(Target(pod, component, container, resource, expected))
    return tuple(found)


def _planned(row: ComponentPlan, node: NodeGpus | None, facts: Facts) -> Expected:
    slot, sizing = row.slot, row.sizing
    total, source = _card_total(node, slot.product, facts)
    if slot.profile is not None:
        total, source = _slice_total(slot.product, slot.profile, facts)
        if total is None and slot.memory_bytes:
            total, source = _around(slot.memory_bytes // MIB), f"the plan's slice {slot.profile}"
    return Expected(
        mode=slot.mode,
        count=row.claim.count if row.claim is not None else max(slot.count, 1),
        product=slot.product or (node.product if node is not None else None),
        profile=slot.profile,
        total_mib=total,
        total_source=source,
        sharers=slot.sharers,
        peak_bytes=sizing.total_bytes if sizing is not None else None,
        band=sizing.band if sizing is not None else None,
        weights_bytes=sizing.weights_bytes if sizing is not None else 0,
    )


def _labelled(resource: str | None, count: int, node: NodeGpus | None, facts: Facts) -> Expected:
    """Without a plan: the resource that the pod asks for, and what its node's labels say of it."""
    product = node.product if node is not None else None
    profile = None
    if resource is not None and resource.startswith(_MIG_RESOURCE):
        profile = resource.removeprefix(_MIG_RESOURCE).removesuffix(".shared")
    elif node is not None and node.sharing == "mig-single":
        profile = next((name for group in node.layout for name in group.mig or {}), None)
    total, source = _card_total(node, product, facts)
    if profile is not None:
        total, source = _slice_total(product, profile, facts)
    if node is not None and node.sharing in _VIRTUAL:
        total, source = None, ""
    modes: Mapping[str, str] = {"time-slicing": "time-slicing", "mps": "mps", "exclusive": "exclusive", "dra": "dra"}
    mode = "mig" if profile is not None else modes.get(node.sharing, "unknown") if node is not None else "unknown"
    if resource is None:
        mode = "dra"
    replicas = node.replicas if node is not None and node.replicas is not None and mode in ("time-slicing", "mps") else 1
    return Expected(mode, max(count, 1), product, profile, total, source, replicas)


def _card_total(node: NodeGpus | None, product: str | None, facts: Facts) -> tuple[tuple[int, int] | None, str]:
    if node is not None and node.memory_mib_per_card is not None:
        return _around(node.memory_mib_per_card), f"node {node.name}"
    gpu = facts.gpus.find(product) if product else None
    if gpu is None:
        return None, ""
    low, high = facts.gpus.memory(gpu).band_mib
    return (int(low * (1 - _TOLERANCE)), int(high * (1 + _TOLERANCE))), f"facts of {gpu.product}"


def _slice_total(product: str | None, profile: str, facts: Facts) -> tuple[tuple[int, int] | None, str]:
    gpu = facts.gpus.find(product) if product else None
    geometry = facts.mig.of(gpu) if gpu is not None else None
    row = geometry.profile(profile) if geometry is not None else None
    if row is None:
        return None, ""
    low, high = row.memory.band_mib
    return (int(low * (1 - _TOLERANCE)), int(high * (1 + _TOLERANCE))), f"facts of {profile}"


def _around(mib: int) -> tuple[int, int]:
    return int(mib * (1 - _TOLERANCE)), int(mib * (1 + _TOLERANCE))


def same_product(label: str, name: str, cut: bool, facts: Facts) -> bool:
    """Whether NVML's name of a card (its beginning, if `cut`) is the card that a product label means."""
    wanted, found = facts.gpus.find(label), facts.gpus.find(name)
    if not cut and wanted is not None and found is not None:
        return wanted.product == found.product
    spelled = "-".join(name.split()).casefold().removeprefix("nvidia-")
    expected = split_product(label).base.casefold().removeprefix("nvidia-")
    aliases = (expected, *(alias.casefold().removeprefix("nvidia-") for alias in (wanted.aliases if wanted else ())))
    return any(alias.startswith(spelled) if cut else alias == spelled for alias in aliases)
