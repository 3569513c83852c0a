"""What mig-parted makes of a map of profiles on an empty card: what it creates where, or that no ordering works.

mig-parted pkg/mig/config/config.go: profiles are tried in every order, large ones first, and the driver puts each instance at
the lowest free start. A profile that the card does not have makes the whole map a success that creates nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ragstow.sharing import migname
from ragstow.sharing.miglayout import Placement
from ragstow.sharing.migname import Malformed, ProfileName

FAILED = "error attempting multiple config orderings: all orderings failed"


@dataclass(frozen=True, slots=True)
class CardProfile:
    """A GPU instance profile of a card: role, name, and where its instances may lie."""

    role: str
    name: ProfileName
    placement: Placement


@dataclass(frozen=True, slots=True)
class Applied:
    """What is on the card afterwards: (start, role) of each instance from left to right, and profile -> count as mig-parted
    counts compute instances. `asserted`: whether the later comparison finds the layout that was asked for."""

    placed: tuple[tuple[int, str], ...]
    result: Mapping[str, int]
    asserted: bool


def resolve(profiles: tuple[CardProfile, ...], text: str) -> tuple[CardProfile, ProfileName] | None:
    """The card's profile that a text means, with the name mig-parted gives it; None where the card has none of that name.

    Besides whole instances the driver library guesses at compute instances: those of at most half the slices, rounded up.
    """
    try:
        wanted = migname.parse(text)
    except Malformed:
        return None
    for profile in profiles:
        slices = profile.name.slices
        name = ProfileName(wanted.compute, slices, profile.name.gb, profile.name.attributes, profile.name.negated)
        exists = wanted.compute == slices or (0 < wanted.compute < slices and wanted.compute * 2 <= slices + 1)
        if exists and name.same(wanted):
            return profile, name
    return None


def apply(profiles: tuple[CardProfile, ...], wanted: Mapping[str, int]) -> Applied | str:
    """Apply profile -> count to an empty card; the text of the error where nothing works.

    Args:
        profiles: the card's profiles in the driver's order.
        wanted: as in a layout's `mig-devices`.
    """
    if _too_many(profiles, wanted):
        return FAILED
    items = _flatten(profiles, wanted)
    if not items:
        return Applied((), {}, not wanted)
    made = _orderings(items, 0, ())
    if made is None:
        return FAILED
    result: dict[str, int] = {}
    for _, name in items:
        result[str(name)] = result.get(str(name), 0) + 1
    placed = tuple(sorted((start, profile.role) for start, profile, _ in made))
    return Applied(placed, dict(sorted(result.items())), result == dict(wanted))


_Item = tuple[CardProfile, ProfileName]
_Instance = tuple[int, CardProfile, int]
"""Start, profile, compute slices in use."""


def _too_many(profiles: tuple[CardProfile, ...], wanted: Mapping[str, int]) -> bool:
    """Whether a count is beyond what any ordering could give, so that none need be tried."""
    found = [(resolve(profiles, text), count) for text, count in wanted.items()]
    if any(item is None or count < 0 for item, count in found):
        return False
    return any(
        item is not None and count > item[0].placement.max * (item[0].name.slices // item[1].compute) for item, count in found
    )


def _flatten(profiles: tuple[CardProfile, ...], wanted: Mapping[str, int]) -> list[_Item]:
    items: list[_Item] = []
    for text in sorted(wanted):
        found = resolve(profiles, text)
        if found is None or wanted[text] < 0:
            return []
        items += [found] * wanted[text]
    items.sort(key=lambda item: ",".join(item[1].attributes), reverse=True)
    items.sort(key=lambda item: (-item[1].slices, -item[1].compute))
    return items


def _orderings(items: list[_Item], index: int, made: tuple[_Instance, ...]) -> tuple[_Instance, ...] | None:
    """The first ordering that works: what cannot be created after a beginning rules out all orderings with that beginning."""
    if index == len(items):
        return made
    for other in range(index, len(items)):
        if any(items[before] is items[other] for before in range(index, other)):
            continue
        items[index], items[other] = items[other], items[index]
        step = _create(items, index, made)
        found = None if step is None else _orderings(items, index + 1, step)
        if found is not None:
            return found
        items[index], items[other] = items[other], items[index]
    return None


def _create(items: list[_Item], index: int, made: tuple[_Instance, ...]) -> tuple[_Instance, ...] | None:
    profile, name = items[index]
    # A compute instance goes into the instance made last, where that is of the same profile and has room.
    if index and items[index - 1][0] is profile:
        start, last, used = made[-1]
        if used + name.compute <= profile.name.slices:
            return (*made[:-1], (start, last, used + name.compute))
    if sum(other is profile for _, other, _ in made) >= profile.placement.max:
        return None
    taken = 0
    for start, other, _ in made:
        taken |= ((1 << other.placement.size) - 1) << start
    for start in profile.placement.starts:
        if not taken & (((1 << profile.placement.size) - 1) << start):
            return (*made, (start, profile, name.compute))
    return None
