"""Whether pods can block each other: is there an order and a choice of nodes after which some pod finds no slot?

The scheduler places pods one by one and never moves them. The answer here is a proof: "free" means that no sequence of
choices leaves a pod without a slot. Where it cannot be proved the answer is "may block", which may be too careful when pods
of one slot ask for different numbers that do not divide each other.

Capacity is counted in lumps of the pod's own size: a node has as many as its free slots, its CPU, its memory and its number of
pods all allow. Others take of each of these apart (`lumps`), and what one of them has to spare is taken before it hurts.
Anti-affinity takes whole nodes away, the largest first. What components without a GPU take of CPU and memory is an
assumption of a plan, not part of the proof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragstow.plan.after import After, Group, NodeAfter
from ragstow.plan.lumps import Rival, lumps_of, most_hurt
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
        without: a node that is lost: at least one pod of each group must find a slot elsewhere, in any order.
        lost: only ask about the group of this component.
    """
    found = []
    for group in after.groups:
        if lost is not None and all(member.name != lost for member in group.members):
            continue
        nodes = [node for node in after.reach[group.name] if node.name != without]
        worst = _worst(after, group, nodes, steering, gone=without is not None)
        if worst is not None:
            found.append(Blocked(group, *worst))
    return found


@dataclass(frozen=True, slots=True)
class _Rivals:
    """One group against all others on nodes that it can reach."""

    after: After
    group: Group
    steering: Mapping[str, Steering]
    gone: bool
    lumps: Mapping[str, int]

    def others(self) -> list[Group]:
        """The groups that may be there first."""
        mine = _stage(self.group, self.steering)
        return [
            other
            for other in self.after.groups
            if other is not self.group
            and (self.gone or _stage(other, self.steering) <= mine or other.option.slot != self.group.option.slot)
        ]

    def pods(self, other: Group, nodes: Sequence[str]) -> int:
        """How many pods of another group may be on these nodes."""
        return _most_pods(other, self.steering, {node.name for node in self.after.reach[other.name]} & set(nodes))

    def left(self, nodes: Sequence[str]) -> list[str]:
        """The nodes that remain when others shut by anti-affinity those that hurt most, each pod one that it can reach.

        Which nodes can be shut together is a matching, so taking the roomiest first is the worst case.
        """
        rivals = [other for other in self.others() if _apart(self.group, other, self.steering)]
        reach = [{node.name for node in self.after.reach[other.name]} & set(nodes) for other in rivals]
        most = [self.pods(other, nodes) for other in rivals]
        shut: list[list[str]] = [[] for _ in rivals]
        return [name for name in nodes if not _take(name, reach, most, shut, set())]

    def _rivals(self, nodes: Sequence[str]) -> list[Rival]:
        found = []
        for other in self.others():
            pods = 0 if _apart(self.group, other, self.steering) else self.pods(other, nodes)
            if pods:
                same = other.option.slot == self.group.option.slot
                able = {node.name for node in self.after.reach[other.name]}
                on = {name: _most_pods(other, self.steering, {name}) for name in nodes if name in able}
                found.append(Rival(other.members, other.option.count if same else 0, pods, on))
        return found

    def room(self, nodes: Sequence[str]) -> int:
        """Lumps that surely remain on these nodes, after others took what they may take of the nodes that they can reach."""
        every = [node for node in self.after.reach[self.group.name] if node.name in self.lumps]
        kept = [node for node in every if node.name in set(nodes)]
        hurt = most_hurt(self.group, every, self._rivals(list(self.lumps)), kept, self._rivals(nodes))
        return sum(self.lumps[name] for name in nodes) - hurt


def _worst(
    after: After, group: Group, nodes: Sequence[NodeAfter], steering: Mapping[str, Steering], *, gone: bool
) -> tuple[int, int] | None:
    own = steering.get(group.members[0].name, Steering())
    if own.beside:
        return None  # lands where its leader does; `promises` proves the room there
    lumps = {node.name: lumps_of(group, node) for node in nodes}
    rivals = _Rivals(after, group, steering, gone, lumps)
    largest = sorted(lumps, key=lambda name: (-lumps[name], name))
    kept = rivals.left(largest)
    needed = group.pods
    if gone:
        needed = 1  # those of its own replicas that run already are no worse
    elif group.members[0].name in own.not_beside:
        kept, needed = kept[group.pods - 1 :], 1
    room = rivals.room(kept)
    if room < needed:
        return needed, max(room, 0)
    if own.spread and group.pods > 1 and not gone:
        for full in kept:
            room = rivals.room([name for name in kept if name != full])
            if lumps[full] >= group.pods - 1 and room < 1:
                return 1, max(room, 0)
    return None


def _take(name: str, reach: list[set[str]], most: list[int], taken: list[list[str]], asked: set[int]) -> bool:
    """Give a node to one of the rivals, moving others' nodes if that helps (an augmenting path)."""
    for index, able in enumerate(reach):
        if name not in able or index in asked:
            continue
        asked.add(index)
        if len(taken[index]) < most[index]:
            taken[index].append(name)
            return True
        for other in list(taken[index]):
            if _take(other, reach, most, taken, asked):
                taken[index].remove(other)
                taken[index].append(name)
                return True
    return False


def _most_pods(other: Group, steering: Mapping[str, Steering], nodes: set[str]) -> int:
    """How many pods of another group can be on these nodes at most."""
    name = other.members[0].name
    own = steering.get(name, Steering())
    if name in own.not_beside:
        return min(other.pods, len(nodes))
    if own.spread and len(nodes) == 1:
        return other.pods - 1
    return other.pods if nodes else 0


def _stage(group: Group, steering: Mapping[str, Steering]) -> int:
    return steering.get(group.members[0].name, Steering()).stage


def _apart(one: Group, other: Group, steering: Mapping[str, Steering]) -> bool:
    names = {member.name for member in one.members}
    others = {member.name for member in other.members}
    return any(set(steering.get(name, Steering()).not_beside) & others for name in names) or any(
        set(steering.get(name, Steering()).not_beside) & names for name in others
    )
