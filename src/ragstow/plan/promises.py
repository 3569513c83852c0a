"""Promises that hold for every choice: `together`, `apart`, `survive`, and that every pod finds its slot.

`prove` decides which constraints the pods must carry (`Steering`) so that a design keeps its promises whatever kube-scheduler
and kubelet choose, or says why it cannot. Which slot of a node a pod gets is the kubelet's choice, so a promise about cards
is kept only by a card of one's own, by cards whose slots nobody else can reach, by nodes with one such card, or by a claim.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ragstow.errors import Reason
from ragstow.plan.after import After, Group, NodeAfter, after, fits
from ragstow.plan.colocation import unsafe, worst_crowds
from ragstow.plan.deadend import Blocked, blocked, stages
from ragstow.plan.problem import Design, Problem, Steering
from ragstow.plan.spent import over
from ragstow.plan.touched import most_cards

Steerings = dict[str, Steering]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a design keeps everything it must: the constraints it needs, the cards it may touch, or why not."""

    design: Design
    steering: Steerings
    cards: int
    refused: tuple[Reason, ...]

    @property
    def holds(self) -> bool:
        """True when nothing was refused."""
        return not self.refused

    def crowds(self, problem: Problem) -> list[tuple[str, tuple[str, ...]]]:
        """Where the only fault is that cards may overflow: (slot, components) that may not be there together.

        Empty where pods of others or constraints of the pods are part of it: then more than that matters.
        """
        if problem.apart or problem.together or any(reason.code != "card-may-overflow" for reason in self.refused):
            return []
        found = [
            crowd for crowd in worst_crowds(after(problem, self.design), self.steering) if crowd.taken_bytes > crowd.card_bytes
        ]
        if any("another pod" in crowd.pods for crowd in found) or any(option.bundle for option in self.design.options.values()):
            return []
        return list(dict.fromkeys((crowd.slot, tuple(dict.fromkeys(crowd.pods))) for crowd in found))


def prove(problem: Problem, design: Design) -> Verdict:
    """Prove a design, with the fewest constraints on its pods that make the proof possible."""
    state = after(problem, design)
    steering: Steerings = {component.name: Steering() for component in problem.components}
    refused: list[Reason] = over(problem, design.options)
    for group in problem.apart:
        refused += _apart(state, group, steering)
    for group in problem.together:
        refused += _together(state, group, steering)
    refused += _isolated(state)
    refused += unsafe(state, steering)
    if not refused:
        refused += _lands(state, steering)
    if not refused and problem.survive:
        refused += _survive(state, steering)
    cards = most_cards(state, steering)
    if not refused and problem.max_cards is not None and cards > problem.max_cards:
        refused.append(
            Reason("max-cards", f"up to {cards} cards may be touched, placement.maxCards allows {problem.max_cards}")
        )
    return Verdict(design, steering, cards, tuple(refused))


def _lands(state: After, steering: Steerings) -> list[Reason]:
    found = blocked(state, steering)
    if not found:
        return []
    for name, stage in stages(state.groups).items():
        steering[name] = replace(steering[name], stage=stage)
    found = blocked(state, steering)
    return [_why_blocked(item) for item in found]


def _why_blocked(item: Blocked) -> Reason:
    name = " and ".join(member.name for member in item.group.members)
    return Reason(
        "may-block",
        f"{name}: the scheduler may place others so that only {item.capacity} of {item.needed} pods find a place",
        "another start order cannot help; more free slots or a slot of its own would",
    )


def _cards_of(state: After, group: Group) -> set[tuple[str, int]]:
    """Kinds of cards (node, index of the cut) on which a pod of the group may sit."""
    return {
        (node.name, number)
        for node in state.reach[group.name]
        for number, (cut, _) in enumerate(node.cuts)
        if cut.number(group.option.slot)
    }


def _groups(state: After, names: tuple[str, ...]) -> dict[str, Group]:
    return {name: state.group_of(name) for name in names if name in state.design.options}


def _apart(state: After, names: tuple[str, ...], steering: Steerings) -> list[Reason]:
    groups = _groups(state, names)
    if len(names) == 1:
        for name, group in groups.items():
            if not _replicas_apart(state, group):
                _keep_off(steering, name, name)
        return []
    refused = []
    listed = [name for name in names if name in groups]
    for number, one in enumerate(listed):
        for other in listed[number + 1 :]:
            mine, theirs = groups[one], groups[other]
            if mine is theirs:
                refused.append(Reason("apart-claim", f"{one} and {other} use one claim, so they are on one card"))
            elif not (mine.slot.alone or theirs.slot.alone or mine.option.bundle or theirs.option.bundle) and (
                _cards_of(state, mine) & _cards_of(state, theirs)
            ):
                _keep_off(steering, one, other)
                _keep_off(steering, other, one)
    return refused


def _replicas_apart(state: After, group: Group) -> bool:
    if group.slot.alone or group.option.bundle or group.pods == 1:
        return True
    return all(cut.number(group.option.slot) <= 1 for node in state.reach[group.name] for cut, _ in node.cuts)


def _keep_off(steering: Steerings, name: str, other: str) -> None:
    if other not in steering[name].not_beside:
        steering[name] = replace(steering[name], not_beside=tuple(sorted({*steering[name].not_beside, other})))


def _together(state: After, names: tuple[str, ...], steering: Steerings) -> list[Reason]:
    groups = _groups(state, names)
    listed = [name for name in names if name in groups]
    if len(listed) < len(names):
        missing = next(name for name in names if name not in groups)
        return [Reason("together-no-gpu", f"{missing} takes no GPU, so it is on no card with others")]
    if len(listed) < 2 or len({group.name for group in groups.values()}) == 1:
        return []
    for name in listed:
        if groups[name].slot.alone or groups[name].option.bundle:
            return [Reason("together-alone", f"{name} has its card to itself, so {_others(listed, name)} cannot be with it")]
    cards = set().union(*(_cards_of(state, groups[name]) for name in listed))
    if sum(_number(state, card) for card in cards) == 1:
        return []
    several = sorted({node for node, _ in cards if sum(_number(state, card) for card in cards if card[0] == node) > 1})
    if several:
        return [
            Reason(
                "together-kubelet",
                f"{_others(listed)} cannot be promised one card: {several[0]} has several cards that offer their slots, and "
                "which one a pod gets is the kubelet's choice",
                "a claim that they share (DRA), a node whose only such card they get, or a profile that one card offers",
            )
        ]
    # Each node has one such card: who is on one node is on one card.
    leader = max(listed, key=lambda name: (groups[name].pods, -listed.index(name)))
    reach = {name: {node.name: node for node in state.reach[groups[name].name]} for name in listed}
    for name in listed:
        if groups[name].pods > 1:
            _keep_off(steering, name, name)
        if name != leader:
            steering[name] = replace(steering[name], beside=(leader,))
    refused = []
    for node in reach[leader]:
        for name in listed:
            if node not in reach[name] or not _never_full(state, groups[name], reach[name][node], steering):
                refused.append(
                    Reason(
                        "together-room",
                        f"{leader} may land on {node}, where {name} may then find no slot",
                        "more slots on that node's card, or fewer other pods that may take them",
                    )
                )
                break
    return refused


def _never_full(state: After, group: Group, node: NodeAfter, steering: Steerings) -> bool:
    """Whether a node has room for a pod of the group though all others are there that may be."""
    slots = cpu = memory = pods = 0
    for other in state.groups:
        if any(reached.name == node.name for reached in state.reach[other.name]):
            name = other.members[0].name
            number = 1 if name in steering[name].not_beside else other.pods
            slots += number * other.option.count if other.option.slot == group.option.slot else 0
            cpu += number * sum(member.cpu_milli for member in other.members)
            memory += number * sum(member.memory_bytes for member in other.members)
            pods += number * len(other.members)
    supply = node.supply
    enough = cpu <= supply.cpu_milli and memory <= supply.memory_bytes and pods <= supply.pods
    return enough and slots <= node.free.get(group.option.slot, 0)


def _number(state: After, card: tuple[str, int]) -> int:
    return next(node.cuts[card[1]][1] for node in state.nodes if node.name == card[0])


def _others(names: list[str], without: str | None = None) -> str:
    return " and ".join(name for name in names if name != without)


def _isolated(state: After) -> list[Reason]:
    """Slots with one resource name and labels but of different kinds cannot be told apart by steering."""
    used: dict[str, str] = {}
    for group in state.groups:
        before = used.setdefault(group.slot.identity, group.slot.key)
        if before != group.slot.key:
            return [
                Reason(
                    "same-name", f"{group.name}: slots {before} and {group.slot.key} have the same name, a pod may get either"
                )
            ]
    return [
        Reason("same-name", f"{group.name} may land on {node.name}, whose slots have the same name but are of another kind")
        for group in state.groups
        for node in state.nodes
        if (node.pooled or not group.option.pooled)
        and any(key in _namesakes(state, group) for cut, _ in node.cuts for key, _ in cut.slots)
        and all(fits(member, node.supply) for member in group.members)
    ]


def _namesakes(state: After, group: Group) -> set[str]:
    return {key for key, slot in state.problem.slots.items() if slot.identity == group.slot.identity and key != group.slot.key}


def _survive(state: After, steering: Steerings) -> list[Reason]:
    _spread(state, steering)
    refused = []
    for component in state.problem.components:
        able = [node.name for node in state.nodes if fits(component, node.supply)]
        if not component.options and len(able) < 2:
            where = able[0] if able else "no node"
            refused.append(Reason("node-lost", f"{component.name} fits on {where} only", "a second node with room for it"))
    for group in state.groups:
        name = group.members[0].name
        if steering[name].beside:
            continue  # runs wherever its leader does, and the room there is proved
        if steering[name].spread or (group.pods > 1 and name in steering[name].not_beside):
            continue
        for node in state.reach[group.name]:
            if blocked(state, steering, without=node.name, lost=name):
                refused.append(
                    Reason(
                        "node-lost",
                        f"{_others([member.name for member in group.members])}: when {node.name} is lost, a replica may "
                        "find no slot elsewhere",
                        "two replicas on two nodes, or a free slot of the same kind on another node",
                    )
                )
                break
    return refused


def _spread(state: After, steering: Steerings) -> None:
    """Keep the replicas of a component from all being on one node, where that cannot leave a pod without a place.

    First all of them at once: spread neighbours leave more room for each other.
    """
    able = [
        group.members[0].name
        for group in state.groups
        if group.pods > 1
        and not group.option.bundle
        and not steering[group.members[0].name].beside
        and group.members[0].name not in steering[group.members[0].name].not_beside
    ]
    for names in (able, *([name] for name in able)):
        trial = {**steering, **{name: replace(steering[name], spread=True) for name in names}}
        if not blocked(state, trial):
            steering.update(trial)
