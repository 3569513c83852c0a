"""The proof that cards shared without caps never run out of memory, and the order in which neighbours start.

Time-slicing caps nothing, and which share a pod gets is the kubelet's choice. A node is safe when the pods with the largest
footprints that may land there, as many as a card has shares, fit the card together (worst-case co-location). Pods of others
that hold shares there count with what they take; their future is an assumption that the plan states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ragstow.errors import Reason
from ragstow.plan.after import After, NodeAfter
from ragstow.plan.problem import Slot, Steering
from ragstow.plan.refusing import gib, listed

_FOREIGN = "another pod"


@dataclass(frozen=True, slots=True)
class Crowd:
    """The worst neighbours on a card of a node: who, what they take together, and what the card has (bytes)."""

    node: str
    slot: str
    pods: tuple[str, ...]
    taken_bytes: int
    card_bytes: int

    @property
    def names(self) -> str:
        """The neighbours in words; several of one kind are counted."""
        counted = {name: self.pods.count(name) for name in dict.fromkeys(self.pods)}
        words = [
            _FOREIGN
            if name == _FOREIGN and number == 1
            else f"{number} pods of others"
            if name == _FOREIGN
            else name
            if number == 1
            else f"{number} x {name}"
            for name, number in counted.items()
        ]
        return listed(words)


def worst_crowds(after: After, steering: Mapping[str, Steering]) -> list[Crowd]:
    """For each node and uncapped slot that the service uses: the neighbours that take most, whether they fit or not."""
    slots: dict[str, Slot] = {}
    crowds: list[Crowd] = []
    for group in after.groups:
        if group.option.bundle:
            taken = [(member.name, _need(after, member.name)) for member in group.members]
            crowds.extend(_crowd(node, group.slot, taken, len(taken)) for node in after.reach[group.name][:1])
        elif not (group.slot.alone or group.slot.capped):
            slots[group.slot.key] = group.slot
    for slot in slots.values():
        for node in after.nodes:
            taken = []
            for group in after.groups:
                if (
                    group.slot.key == slot.key
                    and not group.option.bundle
                    and any(node.name == reached.name for reached in after.reach[group.name])
                ):
                    member = group.members[0]
                    pods = 1 if member.name in steering.get(member.name, Steering()).not_beside else member.replicas
                    taken += [(member.name, group.option.need_bytes)] * pods
            if taken:
                taken += [(_FOREIGN, need) for need in node.supply.foreign_bytes.get(slot.key, ())]
                crowds.append(_crowd(node, slot, taken, slot.sharers))
    return crowds


def unsafe(after: After, steering: Mapping[str, Steering]) -> list[Reason]:
    """Why some placement that scheduler and kubelet may choose does not fit a card; empty is the proof that none exists."""
    return [_overflow(crowd) for crowd in worst_crowds(after, steering) if crowd.taken_bytes > crowd.card_bytes]


def _overflow(crowd: Crowd) -> Reason:
    if _FOREIGN in crowd.pods:
        text = f"{crowd.node}: what {crowd.names} on one card take there is not in the API: each may take all of it"
        return Reason("card-may-overflow", text, "shares that nobody else holds, or a mode that caps memory")
    text = f"{crowd.node}: {crowd.names} may meet on one card and take {gib(crowd.taken_bytes)} of {gib(crowd.card_bytes)}"
    return Reason("card-may-overflow", text, "fewer shares of a card, smaller budgets, or a mode that caps memory")


def start_order(after: After) -> dict[str, tuple[str, ...]]:
    """For components that may share a card without caps: which must be Ready before this one starts.

    An engine that measures free memory while it starts must not meet a neighbour that is starting too; so they start one
    after the other, the largest first.
    """
    shares: dict[str, list[tuple[int, str]]] = {}
    for group in after.groups:
        if not group.option.bundle and (group.slot.alone or group.slot.capped):
            continue
        for member in group.members:
            key = f"{group.slot.identity}|{group.name if group.option.bundle else ''}"
            shares.setdefault(key, []).append((-_need(after, member.name), member.name))
    order: dict[str, tuple[str, ...]] = {}
    for neighbours in shares.values():
        names = [name for _, name in sorted(neighbours)]
        for number, name in enumerate(names):
            if number:
                order[name] = (names[number - 1],)
    return order


def _need(after: After, component: str) -> int:
    return after.design.options[component].need_bytes


def _crowd(node: NodeAfter, slot: Slot, taken: list[tuple[str, int]], sharers: int) -> Crowd:
    worst = sorted(taken, key=lambda item: (-item[1], item[0]))[:sharers]
    return Crowd(node.name, slot.key, tuple(name for name, _ in worst), sum(need for _, need in worst), slot.memory_bytes)
