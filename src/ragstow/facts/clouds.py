"""Habits of clouds and distributions: how GPU nodes are recognised, tainted and labelled there, and who runs the plugin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ragstow.facts.table import Date, Mib, Table, Text


@dataclass(frozen=True, slots=True)
class CloudTaint:
    """A taint that GPU nodes carry there; `automatic` when the cloud adds it by itself, `when` under which condition."""

    key: Text
    value: str
    effect: Text
    automatic: bool = False
    when: str = ""


@dataclass(frozen=True, slots=True)
class SharingLabels:
    """Labels by which a cloud says how its cards are shared: strategy label and values, clients per card, MIG profile."""

    strategy: str | None = None
    time_slicing: str | None = None
    mps: str | None = None
    clients: str | None = None
    partition: str | None = None


@dataclass(frozen=True, slots=True)
class Cloud:
    """A cloud or distribution.

    A node belongs to it when it carries one of `node_labels`, its providerID starts with one of `provider_ids`, or its kubelet
    version contains one of `kubelet_versions`. `accelerator_label` names the label whose value says the card (see cloud_gpus),
    `count_label` the one with the number of cards, `instance_label` the one with the machine type.
    `plugin_managed` means that the cloud runs the device plugin itself and its configuration cannot be changed;
    `max_shared_clients` is the cloud's own limit of sharers. `runtime_class` is the class that GPU pods need, where one is.
    """

    cloud: Text
    name: Text
    source: Text
    checked: Date
    node_labels: tuple[str, ...] = ()
    provider_ids: tuple[str, ...] = ()
    kubelet_versions: tuple[str, ...] = ()
    taints: tuple[CloudTaint, ...] = ()
    accelerator_label: str | None = None
    count_label: str | None = None
    memory_label: str | None = None
    instance_label: str | None = None
    sharing: SharingLabels | None = None
    plugin_managed: bool = False
    plugin_visible: bool = True
    gfd_labels: bool = True
    extended_resource_toleration: bool = False
    runtime_class: str | None = None
    max_shared_clients: int | None = None
    how_to_share: str = ""
    how_to_mig: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CloudGpu:
    """A value of a cloud's accelerator label and the product it means; `memory_mib` tells products of one name apart by what
    the cloud's memory label says."""

    cloud: Text
    label: Text
    value: Text
    product: Text
    source: Text
    checked: Date
    memory_mib: Mib | None = None


CLOUDS = Table("clouds.yaml", Cloud, ("cloud",))
CLOUD_GPUS = Table("cloud_gpus.csv", CloudGpu, ("label", "value", "memory_mib"))


class Clouds:
    """Lookups over clouds and their accelerator labels."""

    def __init__(self, clouds: tuple[Cloud, ...], gpus: tuple[CloudGpu, ...]) -> None:
        self.rows = clouds
        self.gpus = gpus
        self._by_name = {row.cloud: row for row in clouds}
        self._products: dict[tuple[str, str], dict[int | None, str]] = {}
        for row in gpus:
            self._products.setdefault((row.label, row.value), {})[row.memory_mib] = row.product
        self._memory_labels = {row.accelerator_label: row.memory_label for row in clouds}
        self._labels = tuple(dict.fromkeys(row.label for row in gpus))
        sharing = (row.sharing for row in clouds if row.sharing is not None)
        named = [label for row in clouds for label in (row.accelerator_label, row.count_label, row.memory_label)]
        named += [label for item in sharing for label in (item.strategy, item.clients, item.partition)]
        self.gpu_labels = frozenset(label for label in named if label)
        """Every label by which a cloud names its cards, their number, memory and sharing."""

    def get(self, cloud: str) -> Cloud | None:
        """The cloud of this name."""
        return self._by_name.get(cloud)

    def of_node(self, labels: Mapping[str, str], provider_id: str = "", kubelet_version: str = "") -> Cloud | None:
        """The first cloud (in the order of the table) whose marks a node carries; None where none is seen."""
        for row in self.rows:
            if (
                any(label in labels for label in row.node_labels)
                or (provider_id and any(provider_id.startswith(prefix) for prefix in row.provider_ids))
                or (kubelet_version and any(mark in kubelet_version for mark in row.kubelet_versions))
            ):
                return row
        return None

    def product(self, labels: Mapping[str, str]) -> str | None:
        """The product that a cloud's accelerator label on a node means; None where there is none or it is unknown."""
        for label in self._labels:
            value = labels.get(label)
            known = self._products.get((label, value)) if value is not None else None
            if not known:
                continue
            said = labels.get(self._memory_labels.get(label) or "", "")
            memory = int(said) if said.isdigit() else None
            return known.get(memory) or (next(iter(known.values())) if len(known) == 1 else None)
        return None
