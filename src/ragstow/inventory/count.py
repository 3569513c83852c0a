"""How many cards a node has and how many of them are free, by the state they are shared in.

Counts come from labels where they are, else from the slots offered. A layout is believed only when it gives exactly what the
node offers; what cannot be told is a range or a note, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ragstow.cluster.objects import Node
from ragstow.cluster.snapshot import Snapshot
from ragstow.facts import Facts
from ragstow.facts.mig import Geometry
from ragstow.inventory import free, miglayout, resources
from ragstow.inventory.identity import INVALID, Identity
from ragstow.inventory.model import LayoutGroup, Range, ResourceUse, between
from ragstow.inventory.resources import FULL_GPU
from ragstow.inventory.state import State, offered

_MOST_INSTANCES = 7
"""No card has more MIG instances (MIG user guide: supported profiles)."""


@dataclass(frozen=True, slots=True)
class Cards:
    """Cards of a node as counted: how many, cut how, how many free, and what is not in the data."""

    count: int
    free: int | Range
    layout: tuple[LayoutGroup, ...] = ()
    notes: tuple[str, ...] = ()


def count_cards(
    node: Node, snapshot: Snapshot, facts: Facts, uses: Mapping[str, ResourceUse], identity: Identity, found: State
) -> Cards:
    """The cards of a node that a device plugin serves."""
    geometry = facts.mig.of(identity.gpu) if identity.gpu is not None else None
    if found.sharing == "mig-mixed":
        return _count_mixed(node, snapshot, uses, identity, geometry)
    if found.sharing == "mig-single":
        return _count_single(node, snapshot, uses, identity, found, geometry)
    slots = offered(uses)
    replicas = found.replicas or 1
    counted = -(-slots.capacity // replicas)
    if found.sharing == "unknown" and found.replicas is None:
        # At least one card must be there for what is offered; a label may say how many.
        count = identity.cards or min(slots.capacity, 1)
        return Cards(count, between(0, min(count, slots.free)) if slots.capacity else 0)
    count = max(identity.cards or 0, counted) if found.sharing == "exclusive" else identity.cards or counted
    notes: tuple[str, ...] = ()
    if identity.labelled and identity.cards is not None and identity.cards < counted:
        notes = (f"the product label describes {identity.cards} of {counted} cards; which the others are is not in the data",)
        count = counted
    healthy = min(count, -(-slots.allocatable // replicas))
    whole = sum(use.requested for name, use in uses.items() if name == FULL_GPU and use is not slots)
    left = free.shares(healthy, replicas, slots.requested)
    return Cards(count, free.less(left, whole), notes=notes)


def _count_mixed(
    node: Node, snapshot: Snapshot, uses: Mapping[str, ResourceUse], identity: Identity, geometry: Geometry | None
) -> Cards:
    whole_use = offered(uses)
    slices: dict[str, int] = {}
    held: dict[str, tuple[int, int]] = {}
    for name, use in uses.items():
        profile = resources.mig_profile(name)
        if profile is not None and (use.capacity or use.requested):
            replicas = _replicas(node, f"nvidia.com/mig-{profile}")
            instances = -(-use.capacity // replicas)
            slices[profile] = slices.get(profile, 0) + instances
            low, high = held.get(profile, (0, 0))
            held[profile] = (low + -(-use.requested // replicas), min(instances, high + use.requested))
    whole_replicas = _replicas(node, FULL_GPU)
    whole = -(-whole_use.capacity // whole_replicas)
    count: int | None = identity.cards if identity.cards is not None and identity.cards > whole else None
    listed = miglayout.entries(snapshot, node, geometry)
    groups = _believed(listed, count, slices, whole, geometry)
    cut = (count - whole) if count is not None else sum(group.count for group in groups or () if group.mig)
    notes: tuple[str, ...] = ()
    if count is None and not cut:
        cut = max((-(-number // _most(geometry, profile)) for profile, number in slices.items()), default=0)
        notes = ("the number of cut cards is not in the data; the fewest that can give these slices are counted",)
    if groups is None:
        groups = miglayout.inferred(whole, cut, slices, geometry)
    whole_free = free.shares(min(whole, -(-whole_use.allocatable // whole_replicas)), whole_replicas, whole_use.requested)
    if groups is not None:
        return Cards(whole + cut, free.add(whole_free, free.slices(groups, _spelt(held, groups))), groups, notes)
    taken = {profile: low for profile, (low, _) in held.items() if low}
    cut_free = free.unknown_cut(cut, taken, {profile: _size(geometry, profile) for profile in taken})
    return Cards(whole + cut, free.add(whole_free, cut_free), (), (*notes, "which card is cut how is not in the data"))


def _believed(
    listed: list[miglayout.Entry] | None, count: int | None, slices: Mapping[str, int], whole: int, geometry: Geometry | None
) -> tuple[LayoutGroup, ...] | None:
    """The labelled layout, if it gives exactly the whole cards and the slices that the node offers."""
    if listed is None:
        return None
    number = count or whole + (miglayout.card_count(listed, sum(slices.values()), geometry) or 0)
    groups = miglayout.group(miglayout.cards(listed, number, geometry))
    uncut = sum(group.count for group in groups if group.mig is None)
    return groups if miglayout.gives(groups) == dict(sorted(slices.items())) and uncut == whole else None


def _count_single(
    node: Node, snapshot: Snapshot, uses: Mapping[str, ResourceUse], identity: Identity, found: State, geometry: Geometry | None
) -> Cards:
    """Strategy single: nvidia.com/gpu counts slices of one profile."""
    slots = offered(uses)
    replicas = found.replicas or 1
    amount = -(-slots.capacity // replicas)
    profile = identity.profile or _partition(node, identity)
    if profile is None or profile.upper() == INVALID:
        return Cards(identity.cards or min(1, amount), 0, (), ("the cards of this node are not cut alike, so none is offered",))
    listed = miglayout.entries(snapshot, node, geometry)
    count: int | None = identity.cards or (miglayout.card_count(listed, amount, geometry) if listed is not None else None)
    notes: tuple[str, ...] = ()
    groups: tuple[LayoutGroup, ...] | None = None
    if listed is not None and count is not None:
        groups = miglayout.group(miglayout.cards(listed, count, geometry))
        if miglayout.gives(groups) != {profile: amount}:
            groups = None
    if groups is None:
        most = _most(geometry, profile)
        if count is None:
            count = -(-amount // most)
            notes = (f"{amount} slices are on at least {count} cards; how many there are is not in the data",)
        if count and (amount == most * count or (identity.cards and amount % count == 0)):
            known = geometry.profile(profile) if geometry is not None else None
            groups = (LayoutGroup(count, {known.name if known else profile: amount // count}, tuple(range(count))),)
    low, high = -(-slots.requested // replicas), min(amount, slots.requested)
    if groups is not None:
        return Cards(count or 0, free.slices(groups, _spelt({profile: (low, high)}, groups)), groups, notes)
    return Cards(count or 0, free.unknown_cut(count or 0, {profile: low}, {profile: _size(geometry, profile)}), (), notes)


def _spelt(held: Mapping[str, tuple[int, int]], groups: Sequence[LayoutGroup]) -> dict[str, tuple[int, int]]:
    """The same with profiles spelt as the layout spells them (`1g.5gb+me`, not `1g.5gb.me`)."""
    names = {profile.replace("+", "."): profile for group in groups for profile in group.mig or ()}
    return {names.get(profile, profile): amounts for profile, amounts in held.items()}


def _most(geometry: Geometry | None, profile: str) -> int:
    known = geometry.profile(profile) if geometry is not None else None
    return known.max if known is not None else _MOST_INSTANCES


def _size(geometry: Geometry | None, profile: str) -> free.SliceSize:
    known = geometry.profile(profile) if geometry is not None else None
    if known is None or geometry is None:
        return free.SliceSize(Fraction(), _MOST_INSTANCES)
    return free.SliceSize(Fraction(known.size, geometry.card.memory_slices), known.max)


def _replicas(node: Node, resource: str) -> int:
    text = node.labels.get(f"{resource}.replicas", "")
    return int(text) if text.isdigit() and int(text) > 1 else 1


def _partition(node: Node, identity: Identity) -> str | None:
    marks = identity.cloud.sharing if identity.cloud is not None else None
    return node.labels.get(marks.partition) if marks is not None and marks.partition else None
