"""Whether pods can block each other: is there an order and a choice of nodes after which some pod finds no slot?

The scheduler places pods one by one and never moves them. The answer here is a proof: "free" means that no sequence of
choices leaves a pod without a slot. Where it cannot be proved the answer is "may block", which may be too careful when pods
of one slot ask for different numbers that do not divide each other.

Capacity is counted in lumps of the pod's own size: a node with f free slots has f // t lumps for a pod that asks for t.
Others destroy lumps: a pod that asks for a multiple of t destroys exactly that many; smaller ones destroy the first lump of a
node with (f mod t) + 1 units and each further one with t. Anti-affinity takes whole nodes away, the largest first. CPU and
memory of the node limit the lumps of the pod itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragstow.plan.after import After, Group, NodeAfter
from ragstow.plan.problem import Steering


@dataclass(frozen=True, slots=True)
class Blocked:
    """A pod of `group` may find no slot: `capacity` lumps remain in the worst case where `needed` are needed."""

    group: Group
    needed: int
    capacity: int


def stages(groups: Sequence[Group]) -> dict[str, int]:
    """A start order by which large requests come before small ones of the same slot (0 first; equal where nothing differs)."""
    counts: dict[str, list[int]] = {}
    for group in groups:
        counts.setdefault(group.option.slot, []).append(group.option.count)
    return {
        member.name: sorted(set(counts[group.option.slot]), reverse=True).index(group.option.count)
        for group in groups
        for member in group.members
    }


def blocked(
    after: After, steering: Mapping[str, Steering], *, without: str | None = None, lost: str | None = None
) -> list[Blocked]:
    """Groups of which a pod may be left without a slot; empty is a proof that everything lands.

    Args:
        after: the cluster after the design.
        steering: constraints of the pods; stages order the first start.
        without: a node that is lost: every pod must find a slot elsewhere, in any order.
        lost: only ask about the group of this component.
    """
    found = []
    for group in after.groups:
        if lost is not None and all(member.name != lost for member in group.members):
            continue
        nodes = [node for node in after.reach[group.name] if node.name != without]
        worst = _worst(after, group, nodes, steering, ordered=without is None)
        if worst is not None:
            found.append(Blocked(group, *worst))
    return found


def _worst(
    after: After, group: Group, nodes: Sequence[NodeAfter], steering: Mapping[str, Steering], *, ordered: bool
) -> tuple[int, int] | None:
    own = steering.get(group.members[0].name, Steering())
    if own.beside:
        return None  # lands where its leader does; `promises` proves the room there
    size = group.option.count
    lumps = {node.name: _lumps(group, node) for node in nodes}
    free = {node.name: node.free.get(group.option.slot, 0) for node in nodes}
    exact, units, removed = 0, 0, 0
    for other in after.groups:
        if other is group:
            continue
        if ordered and _stage(other, steering) > own.stage and other.option.slot == group.option.slot:
            continue
        if _apart(group, other, steering):
            if {node.name for node in after.reach[other.name]} & set(lumps):
                removed += other.pods
            continue
        if other.option.slot != group.option.slot or not ({node.name for node in after.reach[other.name]} & set(lumps)):
            continue
        if other.option.count % size == 0:
            exact += other.pods * (other.option.count // size)
        else:
            units += other.pods * other.option.count
    alone_on_node = group.members[0].name in own.not_beside
    if alone_on_node:
        removed += group.pods - 1
    largest = sorted(lumps, key=lambda name: (-lumps[name], name))
    kept = largest[removed:]
    needed = 1 if alone_on_node else group.pods
    if alone_on_node:
        lumps = {name: min(1, lumps[name]) if free[name] else 0 for name in lumps}
        # Others must fill a node wholly to keep one pod off it.
        room = sum(free[name] // size for name in kept) - exact - _destroyed(units, [free[name] for name in kept], size)
        return None if room >= needed else (needed, max(room, 0))
    room = sum(lumps[name] for name in kept) - exact - _destroyed(units, [free[name] for name in kept], size)
    if room < needed:
        return needed, max(room, 0)
    if own.spread and group.pods > 1:
        for full in kept:
            if lumps[full] >= group.pods - 1:
                rest = [name for name in kept if name != full]
                room = sum(lumps[name] for name in rest) - exact - _destroyed(units, [free[name] for name in rest], size)
                if room < 1:
                    return 1, max(room, 0)
    return None


def _lumps(group: Group, node: NodeAfter) -> int:
    number = node.free.get(group.option.slot, 0) // group.option.count
    for member in group.members:
        if member.cpu_milli:
            number = min(number, node.supply.cpu_milli // member.cpu_milli)
        if member.memory_bytes:
            number = min(number, node.supply.memory_bytes // member.memory_bytes)
    return min(number, node.supply.pods)


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


def _stage(group: Group, steering: Mapping[str, Steering]) -> int:
    return steering.get(group.members[0].name, Steering()).stage


def _apart(one: Group, other: Group, steering: Mapping[str, Steering]) -> bool:
    names = {member.name for member in one.members}
    others = {member.name for member in other.members}
    return any(set(steering.get(name, Steering()).not_beside) & others for name in names) or any(
        set(steering.get(name, Steering()).not_beside) & names for name in others
    )
