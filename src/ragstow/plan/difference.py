"""What differs between two plans of one service: slots, placements, layouts, whom they disturb. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from ragstow.plan.model import NodeLayout, Placement, Plan, SlotKind

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing: `subject` had `before` and has `after`, in words; "" where it was not or is not any more."""

    kind: Literal["slot", "placement", "layout", "disturbs", "cards"]
    subject: str
    before: str
    after: str


def differences(old: Plan, new: Plan) -> tuple[Difference, ...]:
    """Everything that a person who agreed to the old plan should see before the new one is carried out."""
    return tuple(item for item in _all(old, new) if item.before != item.after)


def _all(old: Plan, new: Plan) -> Iterator[Difference]:
    slots = [{item.name: _slot(item.slot, item.replicas) for item in plan.components} for plan in (old, new)]
    for name in _both(*slots):
        yield Difference("slot", name, slots[0].get(name, ""), slots[1].get(name, ""))
    places = [{(item.component, item.replica): _place(item) for item in plan.placements} for plan in (old, new)]
    for component, replica in _both(*places):
        key = component, replica
        yield Difference("placement", f"{component} {replica}", places[0].get(key, ""), places[1].get(key, ""))
    layouts = [{item.node: item for item in plan.layouts if item.changes} for plan in (old, new)]
    for node in _both(*layouts):
        yield Difference("layout", node, _layout(layouts[0].get(node)), _layout(layouts[1].get(node)))
    for node in _both(*layouts):
        yield Difference("disturbs", node, _disturbs(layouts[0].get(node)), _disturbs(layouts[1].get(node)))
    yield Difference("cards", "cards in use", str(old.cards), str(new.cards))


def _both(old: Mapping[Key, object], new: Mapping[Key, object]) -> list[Key]:
    return [*old, *(key for key in new if key not in old)]


def _slot(slot: SlotKind, replicas: int) -> str:
    if slot.mode == "none":
        return f"{replicas} x no GPU"
    mode = f"{slot.mode} {slot.profile}" if slot.profile else slot.mode
    share = f", {slot.sharers} on a card" if slot.sharers > 1 else ""
    return f"{replicas} x {mode} ({slot.count} x {slot.resource or 'claim'}{share})"


def _place(item: Placement) -> str:
    return item.node if item.card is None else f"{item.node} card {item.card}"


def _layout(layout: NodeLayout | None) -> str:
    return "; ".join(layout.changes) if layout is not None else "nothing to change"


def _disturbs(layout: NodeLayout | None) -> str:
    return ", ".join(layout.disturbs) if layout is not None else ""
