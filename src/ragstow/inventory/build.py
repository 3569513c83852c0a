"""The inventory of a cluster: every node described, then added up by product."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragstow.cluster.snapshot import Snapshot
from ragstow.facts import Facts
from ragstow.inventory import free, resources
from ragstow.inventory.dranode import Dra
from ragstow.inventory.identity import Assumption
from ragstow.inventory.model import UNKNOWN_PRODUCT, Inventory, NodeGpus, ProductTotals, SlotTotals
from ragstow.inventory.node import World, describe
from ragstow.inventory.plugin import Plugins

DRA_DRIVER = "gpu.nvidia.com"


def inventory(snapshot: Snapshot, facts: Facts, *, assumed: Sequence[Assumption] = ()) -> Inventory:
    """Which GPUs the cluster has, how they are shared, who holds them and what is free.

    Args:
        snapshot: the whole cluster; holders outside what is shown count too.
        facts: cards, clouds, MIG geometry.
        assumed: cards that the user names because no label does.
    """
    pods = resources.by_node(snapshot.pods)
    world = World(
        snapshot=snapshot,
        facts=facts,
        pods=pods,
        plugins=Plugins(snapshot, facts.stack, pods),
        dra=Dra(snapshot, DRA_DRIVER, facts.gpus),
        assumed={item.node: item for item in assumed},
        kai=_has_kai(snapshot),
    )
    nodes = tuple(describe(node, world) for node in sorted(snapshot.nodes, key=lambda node: node.name))
    return Inventory(nodes, totals(nodes))


def totals(nodes: Iterable[NodeGpus]) -> dict[str, ProductTotals]:
    """Cards and slots by product, cards that no label names under "unknown"."""
    found: dict[str, ProductTotals] = {}
    for node in nodes:
        if not node.cards and not node.resources and not node.claims:
            continue
        if not node.cards and not any(use.capacity for use in node.resources.values()):
            continue
        key = node.product or UNKNOWN_PRODUCT
        before = found.get(key, ProductTotals(0, 0, {}))
        slots = dict(before.slots)
        for name, total, left in _slots(node):
            old = slots.get(name, SlotTotals(0, 0, 0))
            schedulable = left if node.schedulable else 0
            slots[name] = SlotTotals(old.total + total, old.free + left, old.free_schedulable + schedulable)
        found[key] = ProductTotals(
            before.cards + node.cards, free.add(before.cards_free, node.cards_free), dict(sorted(slots.items()))
        )
    return dict(sorted(found.items()))


def _slots(node: NodeGpus) -> list[tuple[str, int, int]]:
    """(resource, total, free); under DRA a slot is a device of the driver."""
    slots = [(name, use.capacity, use.free) for name, use in node.resources.items()]
    if node.claims:
        devices: dict[str, bool] = {}
        for item in node.claims:
            devices[item.device] = devices.get(item.device, True) and item.claim is None
        slots.append((DRA_DRIVER, len(devices), sum(devices.values())))
    return slots


def _has_kai(snapshot: Snapshot) -> bool:
    """Whether KAI schedules here: its own objects, or pods that ask for it."""
    return any(group in _KAI_GROUPS and table for (group, _), table in snapshot.objects.items()) or any(
        pod.scheduler.startswith("kai-scheduler") for pod in snapshot.pods
    )


_KAI_GROUPS = ("kai.scheduler", "scheduling.run.ai")
