"""Several outputs of one container as one reading: each knows something that the others do not.

The table has CUDA and the memory of MIG devices but cuts names; `-L` has UUIDs; the rows have full names and the memory of
whole cards; `-q` has nearly all of it and signs of broken memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace

from ragstow.verification.smi.model import Card, Reading, Slice


def merge(readings: Sequence[Reading]) -> Reading:
    """One reading; what is said first counts, later ones fill in. It has a failure only where no output has a card."""
    cards: list[Card] = []
    for reading in readings:
        for card in reading.cards:
            _add(cards, card)
    failures = [reading.failure for reading in readings if reading.failure is not None]
    listed = [reading.processes for reading in readings if reading.processes is not None]
    return Reading(
        driver=_first(reading.driver for reading in readings),
        program=_first(reading.program for reading in readings),
        cuda=_first(reading.cuda for reading in readings),
        cards=tuple(sorted(cards, key=lambda card: card.index)),
        processes=max(listed, key=len) if listed else None,
        faults=tuple(dict.fromkeys(text for reading in readings for text in reading.faults)),
        failure=failures[0] if failures and not cards else None,
    )


def _add(cards: list[Card], new: Card) -> None:
    for place, old in enumerate(cards):
        if _same(old, new):
            cards[place] = _filled(old, new)
            return
    cards.append(new)


def _same(one: Card, other: Card) -> bool:
    for key in ("uuid", "bus_id"):
        left, right = getattr(one, key), getattr(other, key)
        if left is not None and right is not None:
            return bool(left == right)
    return one.index == other.index


def _filled(old: Card, new: Card) -> Card:
    # A cut name gives way to a whole one.
    name, cut = (new.name, new.cut) if old.name is None or (old.cut and new.name is not None) else (old.name, old.cut)
    known = {
        field.name: getattr(new, field.name)
        for field in fields(Card)
        if getattr(old, field.name) is None and getattr(new, field.name) is not None
    }
    known.update(
        name=name,
        cut=cut,
        mig_pending=old.mig_pending or new.mig_pending,
        slices=_slices(old.slices, new.slices),
        faults=tuple(dict.fromkeys((*old.faults, *new.faults))),
    )
    return replace(old, **known)


def _slices(old: tuple[Slice, ...], new: tuple[Slice, ...]) -> tuple[Slice, ...]:
    """Slices of one card by their number on it."""
    found = {item.number: item for item in old}
    for item in new:
        before = found.get(item.number)
        if before is None:
            found[item.number] = item
            continue
        more = {
            field.name: getattr(item, field.name)
            for field in fields(Slice)
            if getattr(before, field.name) is None and getattr(item, field.name) is not None
        }
        found[item.number] = replace(before, **more)
    return tuple(sorted(found.values(), key=lambda item: -1 if item.number is None else item.number))


def _first(values: Iterable[str | None]) -> str | None:
    return next((value for value in values if value is not None), None)
