"""How many lumps, places for one pod, a node has, and how many of them others can destroy at most.

A lump is what one pod takes: slots, CPU, memory and one of the node's pods. A node has as many as the scarcest of the four
allows; what the others have to spare must be taken before a lump is lost by them. Every bound here is from above, so a proof
may rest on it. It knows nothing of orders and constraints of pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ragstow.plan.after import Group, NodeAfter
from ragstow.plan.problem import Component


@dataclass(frozen=True, slots=True)
class Rival:
    """Pods that may be there first: `pods` of them, each with `count` slots of the kind in question (0: of another kind).

    `on` says how many of them may be on each node.
    """

    members: tuple[Component, ...]
    count: int
    pods: int
    on: Mapping[str, int]


def lumps_of(group: Group, node: NodeAfter) -> int:
    """Pods of a group that have room on a node while nobody else is there."""
    return min(has // need for has, need in _amounts(group, node) if need)


def most_hurt(
    group: Group, every: Sequence[NodeAfter], rivals: Sequence[Rival], kept: Sequence[NodeAfter], on_kept: Sequence[Rival]
) -> int:
    """The most lumps that rivals can destroy.

    Args:
        group: whose lumps.
        every: all nodes that count; some may be shut or full already, and which ones is the worst choice of many, so what is to
            spare counts on all of them.
        rivals: who may be there first.
        kept: the nodes whose lumps are still counted.
        on_kept: who may be on those.
    """
    if not rivals:
        return 0
    most = min(_all_there(group, every, rivals), sum(rival.pods * _damage(group, rival) for rival in on_kept))
    if not most:
        return 0
    host = _others(group, every, rivals)
    return min(most, _slots(group, kept, on_kept, spare=False) + host, _slots(group, every, rivals, spare=True) + host)


def _all_there(group: Group, nodes: Sequence[NodeAfter], rivals: Sequence[Rival]) -> int:
    """Lumps lost if every rival were on every node at once."""
    lost = 0
    for node in nodes:
        taken = [0, 0, 0, 0]
        for rival in rivals:
            for index, amount in enumerate((rival.count, *_wanted(rival.members))):
                taken[index] += rival.on.get(node.name, 0) * amount
        left = min(max(has - gone, 0) // need for (has, need), gone in zip(_amounts(group, node), taken, strict=True) if need)
        lost += lumps_of(group, node) - left
    return lost


def _damage(group: Group, rival: Rival) -> int:
    """Lumps that one pod of a rival can destroy, wherever it is."""
    own = (group.option.count, *_wanted(group.members))
    return max(-(-amount // need) for amount, need in zip((rival.count, *_wanted(rival.members)), own, strict=True) if need)


def _amounts(group: Group, node: NodeAfter) -> tuple[tuple[int, int], ...]:
    """What the node has and what one pod needs: slots, CPU, memory, pods."""
    return (
        (node.free.get(group.option.slot, 0), group.option.count),
        *zip(_host(node), _wanted(group.members), strict=True),
    )


def _host(node: NodeAfter) -> tuple[int, int, int]:
    return node.supply.cpu_milli, node.supply.memory_bytes, node.supply.pods


def _wanted(members: Iterable[Component]) -> tuple[int, int, int]:
    listed = list(members)
    return sum(item.cpu_milli for item in listed), sum(item.memory_bytes for item in listed), len(listed)


def _slots(group: Group, nodes: Sequence[NodeAfter], rivals: Sequence[Rival], *, spare: bool) -> int:
    """Lumps lost by slots.

    Who asks for a multiple of the group's number takes exactly that many; others destroy the first lump of a node with
    (free mod size) + 1 slots and each further one with `size`.

    Args:
        spare: whether slots beyond what the node's CPU, memory and pods allow are taken first.
    """
    size = group.option.count
    exact = sum(rival.pods * rival.count // size for rival in rivals if rival.count % size == 0)
    units = sum(rival.pods * rival.count for rival in rivals if rival.count % size)
    free = [node.free.get(group.option.slot, 0) for node in nodes]
    lost = exact + _destroyed(units, free, size)
    if not spare:
        return lost
    room = [(slots // size, lumps_of(group, node)) for slots, node in zip(free, nodes, strict=True)]
    return _knapsack(lost, 1, [(have - most + 1, most) for have, most in room])


def _others(group: Group, nodes: Sequence[NodeAfter], rivals: Sequence[Rival]) -> int:
    """Lumps lost by CPU, memory and number of pods, added up: a lump that two of them take counts twice."""
    taken = [_wanted(rival.members) for rival in rivals]
    lost = 0
    for index, need in enumerate(_wanted(group.members)):
        budget = sum(rival.pods * amounts[index] for rival, amounts in zip(rivals, taken, strict=True))
        if not need or not budget:
            continue
        room = [(_host(node)[index], lumps_of(group, node)) for node in nodes]
        lost += _knapsack(budget, need, [(has - most * need + 1, most) for has, most in room])
    return lost


def _knapsack(budget: int, size: int, nodes: Iterable[tuple[int, int]]) -> int:
    """The most lumps that can be destroyed with a budget, from above (the best fractional choice, rounded down).

    Args:
        budget: what may be taken.
        size: what each further lump of a node costs.
        nodes: what its first lump costs, and how many it has.
    """
    items: list[tuple[Fraction, int, int]] = []
    for first, most in nodes:
        number = min(most, (budget - first) // size + 1) if first <= budget else 0
        if number <= 0:
            continue
        if first < size:  # a first lump that is cheaper than the others is taken alone
            items.append((Fraction(1, first), first, 1))
            items.append((Fraction(1, size), size * (number - 1), number - 1))
        else:
            cost = first + (number - 1) * size
            items.append((Fraction(number, cost), cost, number))
    lost = Fraction(0)
    for density, cost, number in sorted(items, reverse=True):
        if cost >= budget:
            return int(lost + min(density * budget, Fraction(number)))
        lost += number
        budget -= cost
    return int(lost)


def _destroyed(units: int, free: Sequence[int], size: int) -> int:
    """Most lumps of `size` that `units` single slots can destroy on nodes with these free slots."""
    costs = sorted(cost for slots in free for number in range(slots // size) for cost in [size if number else slots % size + 1])
    destroyed = 0
    for cost in costs:
        if cost > units:
            break
        units -= cost
        destroyed += 1
    return destroyed
