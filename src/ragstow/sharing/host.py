"""A node as the sharing modes see it: its cards, driver and plugin as far as they are known, and how they are shared now.

The caller (the planner) fills it from the inventory and facts; nothing here reads a cluster. `machine_of` turns it into the
machine that the plugin's model runs on, so that what follows from a change is worked out by one model only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ragstow.facts.clouds import Cloud
from ragstow.facts.drivers import version
from ragstow.facts.gpus import Gpu, Gpus, split_product
from ragstow.facts.mig import Geometry, Mig
from ragstow.sharing import migname
from ragstow.sharing.machine import Card, Engines, Instance, InstanceProfile, Machine

Server = Literal["device-plugin", "cloud", "dra", "hami", "kai", "none"]
Install = Literal["chart", "operator", "static", "cloud", "dra", "none"]

Cut = Mapping[str, int] | None
"""How a card is cut: MIG profile -> instances ({}: MIG on and empty), None: MIG off."""


@dataclass(frozen=True, slots=True)
class Host:
    """A node and its cards.

    `gpus` has one entry a card; `cuts` is how each is cut now (empty: all whole). `label_mib` is what a label or the driver
    says of a whole card. `driver` and `cuda` ("13.0") are None where unknown. `server` hands out the cards, `install` is how
    that was installed. `config` is the text of the plugin's configuration file in force (None: no file), `env` and `args` what
    its container has beside it; `named_configs` says that a node label chooses the file. `gfd`: GPU feature discovery runs;
    `mig_manager`: a MIG manager applies layouts. `labels` and `resources` are the node's present ones.
    """

    name: str
    gpus: tuple[Gpu, ...]
    cuts: tuple[Cut, ...] = ()
    label_mib: int | None = None
    driver: str | None = None
    cuda: str | None = None
    server: Server = "device-plugin"
    install: Install = "chart"
    cloud: Cloud | None = None
    config: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    named_configs: bool = False
    gfd: bool = False
    mig_manager: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.cuts and len(self.cuts) != len(self.gpus):
            raise ValueError("cuts: one for each card, or none at all")

    @property
    def layout(self) -> tuple[Cut, ...]:
        """How each card is cut now."""
        return self.cuts or (None,) * len(self.gpus)

    @property
    def mig_on(self) -> bool:
        """Whether MIG is on for any card."""
        return any(cut is not None for cut in self.layout)

    @property
    def products(self) -> tuple[str, ...]:
        """The different products, in the order of the cards."""
        return tuple(dict.fromkeys(gpu.product for gpu in self.gpus))

    def older_than(self, driver: str) -> bool | None:
        """Whether the node's driver is older than this one; None where it is unknown."""
        return None if self.driver is None else version(self.driver) < version(driver)


def machine_of(host: Host, cuts: tuple[Cut, ...], gpus: Gpus, mig: Mig) -> Machine:
    """The machine with its cards cut so; ids are placeholders, and what is unknown stays unknown.

    Args:
        host: the node.
        cuts: how each card is cut.
        gpus: facts about cards.
        mig: facts about MIG.
    """
    cards = tuple(_card(host, index, gpu, cuts[index], gpus, mig) for index, gpu in enumerate(host.gpus))
    major, _, minor = (host.cuda or "0.0").partition(".")
    cuda = int(major) * 1000 + int(minor or 0) * 10 if major.isdigit() and (minor or "0").isdigit() else 0
    return Machine(cards, host.driver or "0.0", cuda, host.labels.get("nvidia.com/gpu.machine"))


def _card(host: Host, index: int, gpu: Gpu, cut: Cut, gpus: Gpus, mig: Mig) -> Card:
    geometry = mig.of(gpu)
    expected = geometry.card.label_mib if geometry is not None else gpus.memory(gpu).mib
    memory = None if gpu.unified_memory else host.label_mib or expected
    profiles = _profiles(geometry) if geometry is not None else {}
    made: list[Instance] = []
    for name, count in (cut or {}).items():
        known = geometry.profile(name) if geometry is not None else None
        if known is None:
            continue
        profile = profiles[known.role]
        for _ in range(count):
            uuid = f"MIG-{index}-{len(made)}"
            made.append(Instance(profile, profile.slices, profile.multiprocessors, uuid))
    # The label keeps the driver's own spelling where the table knows several.
    label = split_product(host.labels.get("nvidia.com/gpu.product", "")).base
    return Card(
        name=label if gpus.find(label) is gpu else gpu.product,
        uuid=f"GPU-{index}",
        memory_mib=memory,
        compute_capability=gpu.cc,
        profiles=tuple(profiles.values()),
        instances=None if cut is None else tuple(made),
        skipped=gpu.kind == "display",
    )


def _profiles(geometry: Geometry) -> dict[str, InstanceProfile]:
    """The profiles by role. Where the true size is unknown, one is taken that comes out with the profile's name."""
    made = {}
    for profile in geometry.profiles:
        size = profile.memory.mib
        wanted = migname.parse(profile.name).gb
        if migname.gigabytes(geometry.card.label_mib, size) != wanted:
            size = profile.memory.band_mib[0]
        made[profile.role] = InstanceProfile(profile.role, size, profile.multiprocessors or 0, Engines(copy=profile.slices))
    return made
