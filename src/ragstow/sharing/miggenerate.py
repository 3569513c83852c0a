"""The layouts that mig-parted generates for the cards of a node, which the GPU Operator offers by name from 26.3 on.

mig-parted pkg/mig/builder: one layout for each profile with its maximum, the balanced one, all on, all off; entries carry a
filter of PCI ids only where a node has several kinds of cards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ragstow.facts.mig import Geometry
from ragstow.sharing import migname
from ragstow.sharing.migname import ProfileName
from ragstow.sharing.migparted import Entry, Spec

_BALANCED: Mapping[int, Mapping[int, int]] = {7: {1: 2, 2: 1, 3: 1}, 4: {1: 2, 2: 1}}
"""Compute slices of a card -> slices of an instance -> how many."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of card on the node: its PCI id ("0x20B010DE") and its whole-instance profiles with their maximum."""

    device_id: str
    profiles: tuple[tuple[ProfileName, int], ...]


def kind_of(geometry: Geometry, device_id: str) -> Kind:
    """A kind of card from facts."""
    return Kind(device_id, tuple((migname.parse(profile.name), profile.max) for profile in geometry.profiles))


def generate(kinds: Iterable[Kind]) -> Spec:
    """The file that mig-parted makes for a node with these kinds of cards."""
    by_id = {kind.device_id: kind for kind in kinds}
    several = len(by_id) > 1
    layouts: dict[str, tuple[Entry, ...]] = {
        "all-disabled": (Entry(None, False, None),),
        "all-enabled": (Entry(None, True, {}),),
    }
    balanced = [
        Entry(None, True, counts, (device_id,) if several else None)
        for device_id in sorted(by_id)
        if (counts := _balanced(by_id[device_id])) is not None
    ]
    if balanced:
        layouts["all-balanced"] = tuple(balanced)
    names: dict[str, dict[int, list[str]]] = {}
    for kind in by_id.values():
        # Where two profiles of one card come out with one name, the later one stands for both.
        for text, most in {str(name): most for name, most in kind.profiles}.items():
            names.setdefault(text, {}).setdefault(most, []).append(kind.device_id)
    for profile in sorted(names):
        layouts[f"all-{profile.replace('+', '.')}"] = tuple(
            Entry(None, True, {profile: most}, tuple(sorted(names[profile][most])) if several else None)
            for most in sorted(names[profile])
        )
    return Spec("v1", layouts)


def _balanced(kind: Kind) -> dict[str, int] | None:
    base = [(name, most) for name, most in kind.profiles if not name.attributes and not name.negated]
    formula = _BALANCED.get(max((name.slices for name, _ in base), default=0))
    if formula is None:
        return None
    made: dict[str, int] = {}
    for slices, count in formula.items():
        # Of two with the same slices the one that fits more often: the one with less memory.
        chosen = max((item for item in base if item[0].slices == slices), key=lambda item: item[1], default=None)
        if chosen is None:
            return None
        made[str(chosen[0])] = count
    return made
