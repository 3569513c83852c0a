"""A machine as the device plugin and GPU feature discovery see it: cards, their MIG profiles and instances.

Values only; where they come from (a node's labels and facts, a recording) is the caller's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ragstow.sharing import migname
from ragstow.sharing.migname import ProfileName

Platform = Literal["nvml", "wsl", "tegra"]


@dataclass(frozen=True, slots=True)
class Engines:
    """Engines of a MIG instance."""

    copy: int = 0
    decoder: int = 0
    encoder: int = 0
    jpeg: int = 0
    ofa: int = 0


@dataclass(frozen=True, slots=True)
class InstanceProfile:
    """A GPU instance profile that the driver offers for a card: role, memory MiB, SMs and engines of an instance."""

    role: str
    memory_mib: int
    multiprocessors: int = 0
    engines: Engines = Engines()

    @property
    def slices(self) -> int:
        """Compute slices of the instance."""
        return int(self.role[0])


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG device: its GPU instance's profile, and the compute slices and SMs of its compute instance."""

    profile: InstanceProfile
    compute: int
    multiprocessors: int
    uuid: str

    @property
    def attributes(self) -> tuple[int, ...]:
        """What makes two MIG devices alike to the driver (nvmlDeviceAttributes)."""
        engines = self.profile.engines
        return (
            self.multiprocessors,
            engines.copy,
            engines.decoder,
            engines.encoder,
            engines.jpeg,
            engines.ofa,
            self.profile.slices,
            self.compute,
            self.profile.memory_mib,
        )


@dataclass(frozen=True, slots=True)
class Card:
    """A physical card as the driver lists it.

    `memory_mib` is None where the driver cannot say. `profiles` are in the driver's order; none means that the card cannot be
    cut. `instances` is None while MIG is off. `skipped` marks adapters that the plugin does not serve. `fabric` is the cluster
    and clique of its NVLink fabric.
    """

    name: str
    uuid: str
    memory_mib: int | None
    compute_capability: tuple[int, int]
    profiles: tuple[InstanceProfile, ...] = ()
    instances: tuple[Instance, ...] | None = None
    pci_class: Literal["3d", "vga"] | None = "3d"
    fabric: tuple[str, int] | None = None
    skipped: bool = False

    @property
    def mig_capable(self) -> bool:
        """Whether the driver knows a MIG mode for the card."""
        return bool(self.profiles)

    @property
    def mig_enabled(self) -> bool:
        """Whether MIG is on."""
        return self.instances is not None

    def name_of(self, profile: InstanceProfile, compute: int | None = None) -> ProfileName | str:
        """The name of a profile on this card, or the driver library's error text."""
        found = migname.name_of(profile.role, self.memory_mib or 0, profile.memory_mib, compute)
        return found if isinstance(found, ProfileName) else found.text

    def instance_name(self, instance: Instance) -> ProfileName:
        """The name of a MIG device of this card."""
        found = self.name_of(instance.profile, instance.compute)
        if isinstance(found, str):
            raise ValueError(found)
        return found


@dataclass(frozen=True, slots=True)
class Machine:
    """A node's cards in the driver's order, its driver and CUDA version (13000 = 13.0), DMI product name and platform.

    `nvml` says whether NVIDIA's management library is there; `imex_channels` which IMEX channel devices exist.
    """

    cards: tuple[Card, ...]
    driver: str
    cuda: int
    product: str | None = None
    platform: Platform = "nvml"
    nvml: bool = True
    imex_channels: tuple[int, ...] = ()

    @property
    def served(self) -> tuple[tuple[int, Card], ...]:
        """Index and card of those that the plugin looks at."""
        return tuple((index, card) for index, card in enumerate(self.cards) if not card.skipped)
