"""Volumes that a claim may get on a node, found without looking at all volumes of a class: free ones that the node may reach
(by the labels that their node affinity names), and those that are reserved for the very claim.

This narrows down and decides nothing: whoever asks still checks each volume.
"""

from __future__ import annotations

from collections.abc import Iterable

from ragstow.cluster.objects import Node
from ragstow.scheduling.volumes.model import Volume, VolumeClaim

Names = dict[str, None]


class FreeVolumes:
    """The index of one class; `put` a volume again whenever it changes."""

    def __init__(self) -> None:
        self._reserved: dict[tuple[str, str], Names] = {}
        self._anywhere: Names = {}
        self._by_label: dict[str, dict[str, Names]] = {}

    def put(self, volume: Volume, before: Volume | None = None) -> None:
        """Adds a volume, or moves one that was known as `before`."""
        if before is not None:
            for names in self._places(before):
                names.pop(before.name, None)
        for names in self._places(volume):
            names[volume.name] = None

    def candidates(self, claim: VolumeClaim, node: Node) -> list[str]:
        """Names, sorted."""
        found = [*self._reserved.get((claim.namespace, claim.name), ()), *self._anywhere]
        for key, values in self._by_label.items():
            value = node.labels.get(key)
            if value is not None:
                found += values.get(value, ())
        return sorted(found)

    def _places(self, volume: Volume) -> Iterable[Names]:
        if volume.claim is not None:
            return [self._reserved.setdefault(volume.claim[:2], {})]
        key = _key(volume)
        if key is None:
            return [self._anywhere]
        values = self._by_label.setdefault(key, {})
        return [values.setdefault(value, {}) for value in _values(volume, key)]


def _key(volume: Volume) -> str | None:
    """A label that every term of the volume's node affinity lists values of, the one with the fewest values; None without."""
    if volume.nodes is None:
        return None
    terms = [{item.key for item in term.expressions if item.operator == "In"} for term in volume.nodes.terms]
    common = set.intersection(*terms) if terms else set()
    return min(common, key=lambda key: (len(_values(volume, key)), key), default=None)


def _values(volume: Volume, key: str) -> list[str]:
    found = [
        value
        for term in (volume.nodes.terms if volume.nodes is not None else ())
        for item in term.expressions
        if item.key == key and item.operator == "In"
        for value in item.values
    ]
    return list(dict.fromkeys(found))
