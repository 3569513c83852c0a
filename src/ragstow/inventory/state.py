"""How the cards of a node are shared, and how many slots each gives: by labels first, then by the plugin's configuration.

The state is what the node offers now. What a configuration wants and the node does not show yet is not believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ragstow.cluster.objects import Node
from ragstow.facts.clouds import Cloud
from ragstow.inventory.identity import Identity
from ragstow.inventory.model import PluginConfigInForce, ResourceUse, Sharing
from ragstow.inventory.resources import FULL_GPU, SHARED_SUFFIX, mig_profile

_MOST_CARDS = 32
"""More resources than this on one node are shares, not cards: no server holds so many."""


@dataclass(frozen=True, slots=True)
class State:
    """The sharing state; `replicas` slots per card (or slice), None where each is one; `notes` what is assumed."""

    sharing: Sharing
    replicas: int | None = None
    notes: tuple[str, ...] = ()


def of_node(node: Node, uses: Mapping[str, ResourceUse], identity: Identity, config: PluginConfigInForce | None) -> State:
    """The state of a node whose GPUs a device plugin offers."""
    labels = node.labels
    cloud_state = _of_cloud(labels, identity.cloud)
    if cloud_state is not None and (not identity.labelled or cloud_state.sharing != "exclusive"):
        return cloud_state
    if any(mig_profile(name) and use.capacity for name, use in uses.items()):
        return State("mig-mixed", _label_replicas(labels))
    if identity.profile is not None:
        return State("mig-single", _label_replicas(labels))
    if not any(use.capacity for use in uses.values()):
        return State("unknown", notes=("the node offers no GPU now",))
    replicas = _label_replicas(labels)
    strategy = labels.get("nvidia.com/gpu.sharing-strategy")
    if strategy == "mps" or (replicas and strategy is None and labels.get("nvidia.com/mps.capable") == "true"):
        return State("mps", replicas)
    if strategy == "time-slicing" or (replicas and strategy is None):
        return State("time-slicing", replicas)
    if identity.labelled and strategy is not None:
        return _labels_behind(uses, identity, config) or State("exclusive")
    return _without_labels(uses, identity, config)


def _labels_behind(uses: Mapping[str, ResourceUse], identity: Identity, config: PluginConfigInForce | None) -> State | None:
    """Sharing that the node offers and the configuration says, while GFD's labels do not show it (yet)."""
    slots = offered(uses).capacity
    shared = shared_as(config.config, FULL_GPU) if config is not None and config.config is not None else None
    if shared is None or identity.cards is None or slots != identity.cards * shared[1]:
        return None
    return State(*shared, notes=("the node's labels do not show the sharing that its plugin is configured for and offers",))


def _without_labels(uses: Mapping[str, ResourceUse], identity: Identity, config: PluginConfigInForce | None) -> State:
    """No GFD: the plugin's configuration says it, else the plainest reading of the numbers, marked as such."""
    slots = offered(uses)
    renamed, capacity = slots is uses.get(f"{FULL_GPU}{SHARED_SUFFIX}"), slots.capacity
    shared = shared_as(config.config, FULL_GPU) if config is not None and config.config is not None else None
    if shared is not None and capacity and capacity % shared[1] == 0:
        return State(*shared)
    if identity.cards and capacity > identity.cards and capacity % identity.cards == 0:
        return State(
            "unknown",
            capacity // identity.cards,
            (f"{capacity} slots but {identity.cards} card(s): shared, by time-slicing or MPS is not in the data",),
        )
    if renamed:
        return State(
            "unknown", notes=("the resource is shared; by time-slicing or MPS, and in how many parts, is not in the data",)
        )
    if capacity > _MOST_CARDS:
        return State("unknown", notes=(f"{capacity} slots are shares of fewer cards; of how many is not in the data",))
    if identity.cards is not None and identity.cards >= capacity:
        return State("exclusive")
    if config is None:
        return State("exclusive", notes=("no device plugin in the data: counted as one card for each slot",))
    if config.config is None:
        return State("exclusive", notes=("the plugin's configuration is not in the data: counted as one card for each slot",))
    return State("exclusive")


def offered(uses: Mapping[str, ResourceUse]) -> ResourceUse:
    """The resource that the node's cards or shares are offered under now: the renamed one where it exists."""
    renamed, plain = uses.get(f"{FULL_GPU}{SHARED_SUFFIX}"), uses.get(FULL_GPU)
    if renamed is not None and renamed.capacity:
        return renamed
    return plain or renamed or ResourceUse(0, 0, 0, 0, {})


def _of_cloud(labels: Mapping[str, str], cloud: Cloud | None) -> State | None:
    """A cloud that shares by node pool says it in labels of its own; the resource name stays the same there."""
    marks = cloud.sharing if cloud is not None else None
    if marks is None:
        return None
    clients = labels.get(marks.clients or "", "")
    replicas = int(clients) if clients.isdigit() and int(clients) > 1 else None
    if marks.partition and labels.get(marks.partition):
        return State("mig-single", replicas)
    strategy = labels.get(marks.strategy or "")
    if strategy is not None and replicas is not None:
        by_value: dict[str | None, Literal["time-slicing", "mps"]] = {marks.time_slicing: "time-slicing", marks.mps: "mps"}
        return State(by_value.get(strategy, "unknown"), replicas)
    return State("exclusive")


def _label_replicas(labels: Mapping[str, str]) -> int | None:
    text = labels.get("nvidia.com/gpu.replicas", "")
    return int(text) if text.isdigit() and int(text) > 1 else None


def shared_as(config: Mapping[str, Any], resource: str) -> tuple[Literal["time-slicing", "mps"], int] | None:
    """(strategy, replicas) that a plugin configuration gives a resource, MPS before time-slicing; None where it stays whole."""
    sharing = config.get("sharing")
    for key, strategy in _STRATEGIES:
        section = sharing.get(key) if isinstance(sharing, Mapping) else None
        listed = section.get("resources") if isinstance(section, Mapping) else None
        factors = [
            item["replicas"] for item in listed or () if item.get("name") == resource and isinstance(item.get("replicas"), int)
        ]
        # Of a resource that is listed twice, the plugin advertises the larger number.
        if factors and max(factors) > 1:
            return strategy, max(factors)
    return None


_STRATEGIES: tuple[tuple[str, Literal["time-slicing", "mps"]], ...] = (("mps", "mps"), ("timeSlicing", "time-slicing"))
