"""The inventory as data for JSON: the names of INTERFACE 4, in a fixed order, nothing but plain values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ragstow.inventory.model import (
    Device,
    DeviceClaim,
    Inventory,
    LayoutGroup,
    NodeGpus,
    PluginConfigInForce,
    ProductTotals,
    Range,
    ResourceUse,
)


def body(inventory: Inventory) -> dict[str, Any]:
    """totals, nodes and findings of an `Inventory` document; apiVersion, kind and source are the caller's."""
    return {
        "totals": {product: _totals(totals) for product, totals in inventory.totals.items()},
        "nodes": [node(item) for item in inventory.nodes],
        "findings": list(inventory.remarks),
    }


def node(item: NodeGpus) -> dict[str, Any]:
    """One entry of nodes[]."""
    return {
        "name": item.name,
        "schedulable": item.schedulable,
        "ready": item.ready,
        "taints": list(item.taints),
        "product": item.product,
        "cards": item.cards,
        "cardsFree": number(item.cards_free),
        "memoryMiBPerCard": item.memory_mib_per_card,
        "sharing": item.sharing,
        "replicas": item.replicas,
        "layout": [_group(group) for group in item.layout],
        "resources": {name: _use(use) for name, use in item.resources.items()},
        "claims": [_claim(claim) for claim in item.claims],
        "driver": item.driver,
        "cuda": item.cuda,
        "allocators": list(item.allocators),
        "config": None if item.config is None else _config(item.config),
        "devices": [_device(device) for device in item.devices],
        "assumed": list(item.assumed),
    }


def of_namespace(inventory: Inventory, namespace: str) -> Inventory:
    """The same numbers, with the holders of one namespace only; a device that others hold keeps its claim's name."""

    def mine(pod: str) -> bool:
        return pod.startswith(f"{namespace}/")

    return replace(
        inventory,
        nodes=tuple(
            replace(
                item,
                resources={
                    name: replace(use, holders={pod: amount for pod, amount in use.holders.items() if mine(pod)})
                    for name, use in item.resources.items()
                },
                claims=tuple(replace(claim, pods=tuple(filter(mine, claim.pods))) for claim in item.claims),
                devices=tuple(replace(device, holders=tuple(filter(mine, device.holders))) for device in item.devices),
            )
            for item in inventory.nodes
        ),
    )


def number(value: int | Range) -> int | dict[str, int]:
    """A number, or {min, max}."""
    return {"min": value.min, "max": value.max} if isinstance(value, Range) else value


def _totals(totals: ProductTotals) -> dict[str, Any]:
    return {
        "cards": totals.cards,
        "cardsFree": number(totals.cards_free),
        "slots": {
            name: {"total": slots.total, "free": slots.free, "freeSchedulable": slots.free_schedulable}
            for name, slots in totals.slots.items()
        },
    }


def _group(group: LayoutGroup) -> dict[str, Any]:
    """Indexes where they are known; else how many cards there are of the kind."""
    mig = None if group.mig is None else dict(group.mig)
    return (
        {"cards": None, "count": group.count, "mig": mig} if group.cards is None else {"cards": list(group.cards), "mig": mig}
    )


def _use(use: ResourceUse) -> dict[str, Any]:
    return {
        "capacity": use.capacity,
        "allocatable": use.allocatable,
        "requested": use.requested,
        "free": use.free,
        "holders": dict(use.holders),
    }


def _claim(claim: DeviceClaim) -> dict[str, Any]:
    held = {"device": claim.device, "card": claim.card, "claim": claim.claim}
    return held if claim.claim is None else {**held, "pods": list(claim.pods)}


def _config(config: PluginConfigInForce) -> dict[str, Any]:
    return {
        "origin": config.origin,
        "configMap": None if config.config_map is None else {"namespace": config.config_map[0], "name": config.config_map[1]},
        "key": config.key,
        "config": config.config,
        "overrides": dict(config.overrides),
    }


def _device(device: Device) -> dict[str, Any]:
    return {
        "card": device.card,
        "kind": device.kind,
        "product": device.product,
        "memoryMiB": device.memory_mib,
        "memoryFrom": None if device.memory_mib is None else "facts" if device.memory_of_facts else "cluster",
        "profile": device.profile,
        "uuid": device.uuid,
        "name": device.name,
        "holders": list(device.holders) if device.known else None,
    }
