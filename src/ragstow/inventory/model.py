"""What the inventory answers; names in JSON are the camelCase of these (INTERFACE: Inventory). Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

Sharing = Literal["exclusive", "time-slicing", "mps", "mig-single", "mig-mixed", "dra", "hami", "kai", "none", "unknown"]

UNKNOWN_PRODUCT = "unknown"
"""The key in `Inventory.totals` of cards that no label names."""


@dataclass(frozen=True, slots=True)
class Range:
    """A number that the API does not decide: which card a share or a slice sits on is the kubelet's choice."""

    min: int
    max: int


def between(low: int, high: int) -> int | Range:
    """A number where both ends agree, else the range."""
    return low if low == high else Range(low, high)


def bounds(value: int | Range) -> tuple[int, int]:
    """(min, max) of a number or a range."""
    return (value.min, value.max) if isinstance(value, Range) else (value, value)


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """One GPU resource of a node: amounts, and who holds how many ("namespace/pod" -> count)."""

    capacity: int
    allocatable: int
    requested: int
    free: int
    holders: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LayoutGroup:
    """Cards of a node that are cut alike: MIG profile -> instances, or None for whole cards.

    `cards` are the indexes where the data name them, else None and `count` says how many.
    """

    count: int
    mig: Mapping[str, int] | None
    cards: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class DeviceClaim:
    """A DRA device and who holds it; `claim` is "namespace/name" or None for a free device."""

    device: str
    card: int | None
    claim: str | None = None
    pods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """A card or slice as far as it is known; `holders` is empty both for free and for unknown: `known` tells them apart.

    `memory_of_facts`: nothing in the cluster says the memory; it is what facts say of such a slice.
    """

    card: int | None
    kind: Literal["card", "slice"]
    product: str | None
    memory_mib: int | None
    profile: str | None = None
    uuid: str | None = None
    name: str | None = None
    holders: tuple[str, ...] = ()
    known: bool = False
    memory_of_facts: bool = False


@dataclass(frozen=True, slots=True)
class PluginConfigInForce:
    """The device-plugin configuration that a node runs with and where that is written.

    `origin` is for people ("ConfigMap ns/name key shared-4, by node label nvidia.com/device-plugin.config"). `config` is what
    is in force after file, environment and flags, as the plugin prints it; None where the data do not hold it or the plugin
    refuses it. `overrides` are settings that beat the file: environment and flags of the plugin's container.
    """

    origin: str
    config: Mapping[str, Any] | None
    config_map: tuple[str, str] | None = None
    key: str | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """A node and its GPUs. `memory_mib_per_card` is the label's or driver's value; None means unknown."""

    name: str
    schedulable: bool
    ready: bool | None
    product: str | None
    cards: int
    memory_mib_per_card: int | None
    sharing: Sharing
    replicas: int | None
    layout: tuple[LayoutGroup, ...]
    resources: Mapping[str, ResourceUse]
    claims: tuple[DeviceClaim, ...]
    cards_free: int | Range
    taints: tuple[str, ...] = ()
    driver: str | None = None
    cuda: str | None = None
    allocators: tuple[str, ...] = ()
    config: PluginConfigInForce | None = None
    devices: tuple[Device, ...] = ()
    assumed: tuple[str, ...] = ()
    """What was assumed rather than read, one sentence each (`--assume`, limits of the data)."""


@dataclass(frozen=True, slots=True)
class SlotTotals:
    """Slots of one resource over the cluster; `free_schedulable` leaves out cordoned nodes."""

    total: int
    free: int
    free_schedulable: int


@dataclass(frozen=True, slots=True)
class ProductTotals:
    """One product over the cluster."""

    cards: int
    cards_free: int | Range
    slots: Mapping[str, SlotTotals]


@dataclass(frozen=True)
class Inventory:
    """All nodes (those without GPUs too), the totals by product, and remarks about traps."""

    nodes: tuple[NodeGpus, ...]
    totals: Mapping[str, ProductTotals]
    remarks: tuple[str, ...] = field(default=())

    @cached_property
    def _by_name(self) -> Mapping[str, NodeGpus]:
        return {node.name: node for node in self.nodes}

    def node(self, name: str) -> NodeGpus:
        """The node of that name; KeyError where there is none."""
        return self._by_name[name]

    def find(self, name: str | None) -> NodeGpus | None:
        """The node of that name, or None."""
        return self._by_name.get(name) if name is not None else None
