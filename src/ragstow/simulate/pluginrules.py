"""What the configuration of a node's device plugin means for the node's answer: one share only (failRequestsGreaterThanOne),
and which card's shares go first.

The scheduler does not know the first rule: the pod is bound and then rejected by its node (k8s-device-plugin, rm.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstow.inventory.model import Inventory


def nodes(inventory: Inventory | None) -> dict[str, frozenset[str]]:
    """Node -> resources of which its plugin gives a container one at most; nodes of unknown configuration are left out."""
    found: dict[str, frozenset[str]] = {}
    for node in inventory.nodes if inventory is not None else ():
        config = node.config.config if node.config is not None else None
        resources = refused(config) if config is not None else frozenset()
        if resources:
            found[node.name] = resources
    return found


def packed(inventory: Inventory | None) -> frozenset[str]:
    """Nodes whose plugin fills a card's shares before it takes another (sharedDevicesAllocationPolicy: packed)."""
    found: set[str] = set()
    for node in inventory.nodes if inventory is not None else ():
        config = (node.config.config if node.config is not None else None) or {}
        plugin = (config.get("flags") or {}).get("plugin") or {}
        if plugin.get("sharedDevicesAllocationPolicy") == "packed":
            found.add(node.name)
    return frozenset(found)


def refused(config: Mapping[str, Any]) -> frozenset[str]:
    """The resources of a plugin configuration of which more than one is refused; MPS wins over time-slicing."""
    sharing = config.get("sharing") or {}
    for key, unset in (("mps", True), ("timeSlicing", False)):
        section = sharing.get(key)
        if not isinstance(section, Mapping) or not section.get("resources"):
            continue
        fails = section.get("failRequestsGreaterThanOne")
        if not (unset if fails is None else fails is True):
            return frozenset()
        suffix = ".shared" if section.get("renameByDefault") is True else ""
        return frozenset(f"{item.get('name')}{suffix}" for item in section["resources"] if isinstance(item, Mapping))
    return frozenset()


def refusal(resource: str, count: int) -> str:
    """The event's message (device plugin v0.20, as the kubelet passes it on)."""
    return (
        f'Allocate failed due to rpc error: code = Unknown desc = invalid allocation request for "{resource}": '
        f"invalid request: maximum request size for shared resources is 1; found {count}, which is unexpected"
    )
