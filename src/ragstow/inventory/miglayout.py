"""How the cards of a node are cut: from the layout that the MIG manager applied, where the data tell.

The node label names a layout of the mig-parted configuration; that is believed only when it gives exactly the slices that the
node offers. Where no configuration is at hand, the vendor's default layouts are tried, and what can only be one way is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragstow import kubeyaml
from ragstow.cluster.objects import KubeObject, Node
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import InputError
from ragstow.facts.mig import Geometry
from ragstow.inventory.model import LayoutGroup

LAYOUT_LABEL = "nvidia.com/mig.config"
STATE_LABEL = "nvidia.com/mig.config.state"
_POLICY = ("ClusterPolicy", "nvidia.com")
_DEFAULT_CONFIG = "default-mig-parted-config"
_KEY = "config.yaml"

Cut = Mapping[str, int] | None
"""How one card is cut: profile -> instances, None for a whole card."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a layout: which cards (None: all), how they are cut, and the PCI device ids it is for (empty: any)."""

    devices: tuple[int, ...] | None
    cut: Cut
    device_filter: tuple[str, ...]


def entries(snapshot: Snapshot, node: Node, geometry: Geometry | None) -> list[Entry] | None:
    """The entries of the layout that the node's label names; None where it names none, or none that the data hold."""
    name = node.labels.get(LAYOUT_LABEL)
    if not name:
        return None
    for config_map in _config_maps(snapshot, node):
        text = _mapping(config_map.raw.get("data")).get(_KEY)
        found = _layout(str(text or ""), name)
        if found is not None:
            return found
    defaults = geometry.default_layouts if geometry is not None else {}
    if name not in defaults or _configured_name(snapshot) not in ("", _DEFAULT_CONFIG):
        return None
    return [Entry(None, defaults[name] or None, ())]


def cards(found: Sequence[Entry], count: int, geometry: Geometry | None) -> list[Cut]:
    """How each of `count` cards is cut by these entries; later entries win, a filter for other cards passes them by."""
    made: list[Cut] = [None] * count
    for entry in found:
        if entry.device_filter and not (geometry and any(_filter_fits(item, geometry) for item in entry.device_filter)):
            continue
        for index in range(count) if entry.devices is None else entry.devices:
            if 0 <= index < count:
                made[index] = entry.cut
    return made


def card_count(found: Sequence[Entry], slices: int, geometry: Geometry | None) -> int | None:
    """How many cards the entries cut to give `slices` slices in all; None where that does not come out even."""
    for count in range(1, slices + 1):
        given = sum(sum(cut.values()) for cut in cards(found, count, geometry) if cut)
        if given == slices:
            return count
    return None


def group(cuts: Sequence[Cut]) -> tuple[LayoutGroup, ...]:
    """Cards that are cut alike together, in the order of their first card."""
    groups: dict[tuple[tuple[str, int], ...] | None, list[int]] = {}
    for index, cut in enumerate(cuts):
        groups.setdefault(None if cut is None else tuple(cut.items()), []).append(index)
    return tuple(LayoutGroup(len(at), None if key is None else dict(key), tuple(at)) for key, at in groups.items())


def gives(groups: Iterable[LayoutGroup]) -> dict[str, int]:
    """The slices that a layout offers: profile (spelt as labels do) -> instances."""
    total: dict[str, int] = {}
    for item in groups:
        for profile, instances in (item.mig or {}).items():
            name = profile.replace("+", ".")
            total[name] = total.get(name, 0) + item.count * instances
    return {name: count for name, count in sorted(total.items()) if count}


def inferred(whole: int, cut: int, slices: Mapping[str, int], geometry: Geometry | None) -> tuple[LayoutGroup, ...] | None:
    """The layout where the counts leave only one: a single cut card, or each cut card full of one profile.

    Args:
        whole: cards that are not cut.
        cut: cards that are.
        slices: profile -> instances over the node.
        geometry: of the cards, for the most instances of a profile.
    """
    groups = (LayoutGroup(whole, None),) if whole else ()
    if cut == 1:
        return (*groups, LayoutGroup(1, dict(slices)))
    if len(slices) == 1 and geometry is not None and cut:
        (profile, count) = next(iter(slices.items()))
        known = geometry.profile(profile)
        if known is not None and count == known.max * cut:
            return (*groups, LayoutGroup(cut, {profile: known.max}))
    return None


def _config_maps(snapshot: Snapshot, node: Node) -> list[KubeObject]:
    """mig-parted's configuration of a node: named by the ClusterPolicy, else the operator's for the node, then the default."""
    named = _configured_name(snapshot)
    found = [item for item in snapshot.of("ConfigMap") if item.name == named] if named else []
    if found:
        return found
    names = (f"{node.name}-mig-config", _DEFAULT_CONFIG)
    return [item for name in names for item in snapshot.of("ConfigMap") if item.name == name]


def _configured_name(snapshot: Snapshot) -> str:
    for policy in snapshot.of(*_POLICY):
        manager = _mapping(_mapping(policy.raw.get("spec")).get("migManager"))
        return str(_mapping(manager.get("config")).get("name") or "")
    return ""


def _layout(text: str, name: str) -> list[Entry] | None:
    try:
        documents = kubeyaml.load_all(text)
    except InputError:
        return None
    layouts = _mapping(_mapping(documents[0].value).get("mig-configs")) if documents else {}
    listed = layouts.get(name)
    return [_entry(_mapping(item)) for item in listed] if isinstance(listed, list) else None


def _entry(raw: Mapping[str, Any]) -> Entry:
    devices, filters = raw.get("devices"), raw.get("device-filter")
    counts = {str(profile): count for profile, count in _mapping(raw.get("mig-devices")).items() if isinstance(count, int)}
    return Entry(
        tuple(index for index in devices if isinstance(index, int)) if isinstance(devices, list) else None,
        {profile: count for profile, count in counts.items() if count} if raw.get("mig-enabled") is True else None,
        tuple(str(item) for item in (filters if isinstance(filters, list) else [filters] if filters else [])),
    )


def _filter_fits(text: str, geometry: Geometry) -> bool:
    match = re.match(r"0x([0-9a-f]{4})", text, re.IGNORECASE)
    return match is not None and match[1].upper() in geometry.card.pci_device_ids


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
