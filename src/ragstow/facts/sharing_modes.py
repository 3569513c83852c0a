"""The modes of sharing in words: what `ragstow explain` says about them. What a node can do is the sharing room's work."""

from __future__ import annotations

from dataclasses import dataclass

from ragstow.facts.table import Date, Table, Text


@dataclass(frozen=True, slots=True)
class SharingMode:
    """A mode: what it gives and denies, what it needs, when to choose it, what people trip over, and an example."""

    mode: Text
    title: Text
    isolation: Text
    gives: Text
    resource: Text
    needs: tuple[str, ...]
    choose_when: Text
    not_when: Text
    traps: tuple[str, ...]
    example: Text
    source: Text
    checked: Date


SHARING_MODES = Table("sharing_modes.yaml", SharingMode, ("mode",))
