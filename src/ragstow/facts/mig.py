"""MIG geometry: where instances may lie on a card, what their profiles are called, and how much memory they really have.

A *shape* says which roles (1g, 2g, 1g+me ...) start at which memory slice and how long they are; a *geometry* is a shape with
the names and measured sizes of one kind of card. Which multisets are legal is worked out in `sharing`, never listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import msgspec

from ragstow.facts.gpus import Gpu, Memory
from ragstow.facts.table import Count, Date, Mib, Table, Text, Version

Role = Annotated[str, msgspec.Meta(pattern=r"^[1-9]g(\.double)?([+-][a-z.]+)?$")]
Profile = Annotated[str, msgspec.Meta(pattern=r"^[1-9]g\.[0-9]+gb([+-][a-z.]+)?$")]
Start = Annotated[int, msgspec.Meta(ge=0)]

# The least share of its fraction of the label's memory that a measured slice was seen to have is 0.912.
_LEAST_SHARE = 0.90


@dataclass(frozen=True, slots=True)
class ShapeRole:
    """A role on a shape: compute `slices`, possible `starts` and `size` in memory slices, at most `max` instances.

    `base` marks the roles that are counted when layouts are spoken of without further words (1g, 2g, 3g, 4g, 7g).
    """

    shape: Text
    role: Role
    slices: Count
    starts: tuple[Start, ...]
    size: Count
    max: Count
    source: Text
    checked: Date
    nvml_profile_id: int | None = None
    base: bool = False


@dataclass(frozen=True, slots=True)
class CardGeometry:
    """A kind of card: its shape, `label_mib` of the whole card, PCI ids, the driver MIG needs, whether turning MIG on or off
    resets the card, the roles of mig-parted's all-balanced ("role:count"), whether its default layouts cover the card, whether
    the placements were observed on this card or assumed from its shape, and drivers with which MIG does not work."""

    geometry: Text
    shape: Text
    memory_slices: Count
    label_mib: Mib
    min_driver: Version
    placements: Literal["observed", "assumed"]
    source: Text
    checked: Date
    pci_device_ids: tuple[Annotated[str, msgspec.Meta(pattern="^[0-9A-F]{4}$")], ...] = ()
    toggle_resets_gpu: bool = False
    balanced: tuple[Annotated[str, msgspec.Meta(pattern=r"^[^:]+:[0-9]+$")], ...] = ()
    default_layouts: bool = False
    broken_drivers: tuple[Version, ...] = ()
    notes: str = ""


@dataclass(frozen=True, slots=True)
class CardProfile:
    """A role on a kind of card: the profile's name (and second names seen on some drivers), measured memory and SMs.

    `memory_mib` is absent where no listing was ever seen; `memory_unverified` marks one seen only by analogy.
    """

    geometry: Text
    role: Role
    profile: Profile
    source: Text
    checked: Date
    aliases: tuple[Profile, ...] = ()
    memory_mib: Mib | None = None
    memory_unverified: bool = False
    multiprocessors: Count | None = None
    min_driver: Version | None = None
    default_layout: bool = True


SHAPES = Table("mig_shapes.csv", ShapeRole, ("shape", "role"))
CARDS = Table("mig_cards.csv", CardGeometry, ("geometry",))
PROFILES = Table("mig_profiles.csv", CardProfile, ("geometry", "role"))


@dataclass(frozen=True, slots=True)
class MigProfile:
    """Everything about one profile of one kind of card; `memory` is what its slice really has (CUDA sees the same)."""

    role: str
    name: str
    aliases: tuple[str, ...]
    slices: int
    starts: tuple[int, ...]
    size: int
    max: int
    memory: Memory
    base: bool
    multiprocessors: int | None = None
    min_driver: str | None = None
    default_layout: bool = True

    @property
    def resource(self) -> str:
        """The extended resource under strategy mixed: every `+` becomes `.` (plugin internal/rm/rm.go)."""
        return f"nvidia.com/mig-{self.label}"

    @property
    def label(self) -> str:
        """The profile as labels, resources and layout names spell it."""
        return self.name.replace("+", ".")


@dataclass(frozen=True)
class Geometry:
    """A kind of card and all its profiles, in the order of the table (small to large)."""

    card: CardGeometry
    profiles: tuple[MigProfile, ...]

    def profile(self, name: str) -> MigProfile | None:
        """The profile of this name, in any spelling (`1g.5gb+me`, `1g.5gb.me`, an older driver's name); None where unknown."""
        wanted = name.replace("+", ".").casefold()
        for profile in self.profiles:
            if wanted in (other.replace("+", ".") for other in (profile.name, *profile.aliases)):
                return profile
        return None

    def by_role(self, role: str) -> MigProfile | None:
        """The profile of this role; None where the card has no such role."""
        return next((profile for profile in self.profiles if profile.role == role), None)

    @cached_property
    def default_layouts(self) -> dict[str, dict[str, int]]:
        """mig-parted's default layouts for this card: layout name -> profile -> count ({}: MIG on and empty or off)."""
        if not self.card.default_layouts:
            return {"all-disabled": {}, "all-enabled": {}}
        layouts: dict[str, dict[str, int]] = {"all-disabled": {}, "all-enabled": {}}
        for profile in self.profiles:
            if profile.default_layout:
                layouts[f"all-{profile.label}"] = {profile.name: profile.max}
        balanced: dict[str, int] = {}
        for item in self.card.balanced:
            role, _, count = item.partition(":")
            if (found := self.by_role(role)) is not None:
                balanced[found.name] = int(count)
        if balanced:
            layouts["all-balanced"] = balanced
        return layouts


class Mig:
    """The geometries, found by card."""

    def __init__(
        self, shapes: tuple[ShapeRole, ...], cards: tuple[CardGeometry, ...], profiles: tuple[CardProfile, ...]
    ) -> None:
        self._shapes = {(row.shape, row.role): row for row in shapes}
        self._cards = {row.geometry: row for row in cards}
        self._profiles: dict[str, list[CardProfile]] = {}
        for row in profiles:
            self._profiles.setdefault(row.geometry, []).append(row)
        self._made: dict[str, Geometry] = {}

    @property
    def geometries(self) -> tuple[str, ...]:
        """The names of all geometries, in the order of the table."""
        return tuple(self._cards)

    def shape(self, name: str) -> tuple[ShapeRole, ...]:
        """The roles of a shape, small to large."""
        return tuple(row for (shape, _), row in self._shapes.items() if shape == name)

    def of(self, gpu: Gpu) -> Geometry | None:
        """The geometry of a card; None where it cannot be cut."""
        return self.geometry(gpu.mig) if gpu.kind == "card" and gpu.mig is not None else None

    def by_pci(self, device_id: str) -> Geometry | None:
        """The geometry of the card with this PCI device id ("0x20B010DE", "20B0"); None where unknown."""
        text = device_id.upper().removeprefix("0X")[:4]
        for card in self._cards.values():
            if text in card.pci_device_ids:
                return self.geometry(card.geometry)
        return None

    def geometry(self, name: str) -> Geometry | None:
        """A geometry by its name; None where the table has none of that name."""
        if name not in self._cards:
            return None
        if name not in self._made:
            self._made[name] = self._make(self._cards[name])
        return self._made[name]

    def _make(self, card: CardGeometry) -> Geometry:
        rows = self._profiles.get(card.geometry, [])
        made = []
        for row in rows:
            shape = self._shapes.get((card.shape, row.role))
            if shape is None:
                continue
            made.append(
                MigProfile(
                    role=row.role,
                    name=row.profile,
                    aliases=row.aliases,
                    slices=shape.slices,
                    starts=shape.starts,
                    size=shape.size,
                    max=shape.max,
                    memory=self._memory(card, row, shape, rows),
                    base=shape.base,
                    multiprocessors=row.multiprocessors,
                    min_driver=row.min_driver,
                    default_layout=row.default_layout,
                )
            )
        return Geometry(card, tuple(made))

    def _memory(self, card: CardGeometry, row: CardProfile, shape: ShapeRole, rows: Iterable[CardProfile]) -> Memory:
        upper = card.label_mib * shape.size // card.memory_slices
        if row.memory_mib is not None and not row.memory_unverified:
            # Listings print two decimals of a GiB: within 6 MiB.
            return Memory(row.memory_mib, (row.memory_mib - 6, row.memory_mib + 6), True, row.source)
        if row.memory_mib is not None:
            return Memory(row.memory_mib, (row.memory_mib * 98 // 100, upper), False, f"{row.source} (unverified)")
        for other in rows:
            like = self._shapes.get((card.shape, other.role))
            if like is not None and like.size == shape.size and other.memory_mib is not None:
                # On every card where both were listed, profiles of one length have the same memory.
                low, high = other.memory_mib * 98 // 100, min(upper, other.memory_mib * 102 // 100)
                return Memory(
                    other.memory_mib, (low, high), False, f"as {other.profile}, which has the same memory slices (estimated)"
                )
        return Memory(upper, (int(upper * _LEAST_SHARE), upper), False, "upper bound by the profile's name (not measured)")


_NAME = re.compile(r"^(?:(?P<ci>[1-9])c\.)?(?P<gi>[1-9])g\.(?P<gb>[0-9]+)gb(?P<rest>[+.\-][a-z.]+)?$", re.IGNORECASE)


def profile_gb(name: str) -> int | None:
    """The number of GB in a profile's name: an upper bound of what the slice has; None where it is no profile name."""
    match = _NAME.match(name)
    return int(match["gb"]) if match else None
