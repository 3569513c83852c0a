"""An independent judge of designs for tiny planning problems: it plays every choice of the scheduler and of the kubelet.

CPU counts as far as pods with GPUs take it (what others take is an assumption of a plan, not a proof). It shares no code with
the proofs of ragstow.plan: pods are placed one by one on any node that admits them (in every order that
the start stages allow), then each pod takes any card of its node that still has a slot of its kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product

from ragstow.plan.problem import Component, Cut, Design, NodeState, Option, Problem, Steering

Pod = tuple[str, int]
"""(component, replica); the pods that share a claim count as one, named after the first member."""


class World:
    """One design of one problem with the constraints its pods carry."""

    def __init__(self, problem: Problem, design: Design, steering: dict[str, Steering]) -> None:
        self.problem, self.design, self.steering = problem, design, steering
        self.cuts: dict[str, tuple[Cut, ...]] = {}
        self.free: dict[tuple[str, str], int] = {}
        self.pooled: dict[str, bool] = {}
        for node in problem.nodes:
            state = design.changed.get(node.name)
            self.cuts[node.name] = node.present if state is None else state.cuts
            self.pooled[node.name] = node.pooled or state is not None
            for key in problem.slots:
                if state is None:
                    self.free[node.name, key] = node.free.get(key, 0)
                else:
                    self.free[node.name, key] = sum(dict(cut.slots).get(key, 0) for cut in state.cuts)
        self.pods: list[Pod] = []
        for name, option in design.options.items():
            if option.bundle and option.bundle[0] != name:
                continue
            self.pods += [(name, replica) for replica in range(problem.component(name).replicas)]

    def members(self, pod: Pod) -> list[Component]:
        option = self.design.options[pod[0]]
        return [self.problem.component(name) for name in (option.bundle or (pod[0],))]

    def admits(self, pod: Pod, node: str, placed: dict[Pod, str], lost: str | None = None) -> bool:
        option = self.design.options[pod[0]]
        supply = self.problem.node(node)
        if node == lost or (option.pooled and not self.pooled[node]):
            return False
        if any(member.name in supply.closed for member in self.members(pod)):
            return False
        there = [pod, *(other for other, where in placed.items() if where == node)]
        if sum(member.cpu_milli for other in there for member in self.members(other)) > supply.cpu_milli:
            return False
        used = sum(
            self.design.options[other[0]].count
            for other, where in placed.items()
            if where == node and self.design.options[other[0]].slot == option.slot
        )
        if used + option.count > self.free[node, option.slot]:
            return False
        here = {other[0] for other, where in placed.items() if where == node}
        mine = self.steering.get(pod[0], Steering())
        if any(name in here for name in mine.not_beside):
            return False
        if any(pod[0] in self.steering.get(other, Steering()).not_beside for other in here):
            return False
        if any(name not in here for name in mine.beside):
            return False
        if mine.spread:
            replicas = self.problem.component(pod[0]).replicas
            beside = sum(1 for other, where in placed.items() if other[0] == pod[0] and where == node)
            return beside < replicas - 1
        return True

    def endings(self, lost: str | None = None, placed: dict[Pod, str] | None = None) -> Iterator[dict[Pod, str]]:
        """Every state in which no further pod can be placed (each once)."""
        seen: set[frozenset[tuple[Pod, str]]] = set()
        stack = [dict(placed or {})]
        while stack:
            state = stack.pop()
            key = frozenset(state.items())
            if key in seen:
                continue
            seen.add(key)
            waiting = [pod for pod in self.pods if pod not in state]
            if lost is None:
                first = min((self.steering.get(pod[0], Steering()).stage for pod in waiting), default=0)
                waiting = [pod for pod in waiting if self.steering.get(pod[0], Steering()).stage == first]
            moves = [
                {**state, pod: node.name}
                for pod in waiting
                for node in self.problem.nodes
                if self.admits(pod, node.name, state, lost)
            ]
            if moves:
                stack += moves
            else:
                yield state

    def seatings(self, placed: dict[Pod, str]) -> Iterator[dict[Pod, tuple[str, int]]]:
        """Every way in which the kubelets may seat these pods on cards (pods that take several cards: their first one)."""
        shared = [
            pod
            for pod in placed
            if not self.problem.slots[self.design.options[pod[0]].slot].alone and not self.design.options[pod[0]].bundle
        ]
        choices = [
            [
                (placed[pod], index)
                for index, cut in enumerate(self.cuts[placed[pod]])
                if dict(cut.slots).get(self.design.options[pod[0]].slot)
            ]
            for pod in shared
        ]
        for seats in product(*choices):
            used: dict[tuple[str, int, str], int] = {}
            for pod, (node, index) in zip(shared, seats, strict=True):
                key = (node, index, self.design.options[pod[0]].slot)
                used[key] = used.get(key, 0) + 1
            if all(number <= dict(self.cuts[node][index].slots)[key] for (node, index, key), number in used.items()):
                yield dict(zip(shared, seats, strict=True))

    # -- the promises ------------------------------------------------------------------------------------------------

    def faults(self) -> list[str]:
        """What can go wrong, one line each; empty means that the design keeps every promise."""
        found: list[str] = []
        for ending in self.endings():
            missing = [pod for pod in self.pods if pod not in ending]
            if missing:
                found.append(f"{missing} never land: {ending}")
                continue
            for seats in self.seatings(ending):
                found += self._seat_faults(ending, seats)
            if self.problem.survive:
                found += self._loss_faults(ending)
            if found:
                return found
        return found

    def _card_of(self, pod: Pod, ending: dict[Pod, str], seats: dict[Pod, tuple[str, int]]) -> object:
        return seats.get(pod, (ending[pod], pod))

    def _everybody(self, ending: dict[Pod, str], seats: dict[Pod, tuple[str, int]]) -> list[tuple[str, int, object]]:
        people: list[tuple[str, int, object]] = []
        for pod in ending:
            card = self._card_of(pod, ending, seats)
            people += [(member.name, pod[1], card) for member in self.members(pod)]
        return people

    def _seat_faults(self, ending: dict[Pod, str], seats: dict[Pod, tuple[str, int]]) -> list[str]:
        people = self._everybody(ending, seats)
        found = []
        for group in self.problem.apart:
            if len(group) == 1:
                cards = [card for name, _, card in people if name == group[0]]
                if len(set(cards)) < len(cards):
                    found.append(f"replicas of {group[0]} on one card: {seats}")
            for one, _, mine in people:
                for other, _, theirs in people:
                    if one < other and one in group and other in group and mine == theirs:
                        found.append(f"{one} and {other} on one card: {seats}")
        for group in self.problem.together:
            pairs = min(self.problem.component(name).replicas for name in group)
            shared = 0
            for card in {card for _, _, card in people}:
                shared += min(sum(1 for name, _, where in people if name == member and where == card) for member in group)
            if shared < pairs:
                found.append(f"{group} only {shared} times on one card: {seats}")
        taken: dict[object, int] = {}
        room: dict[object, int] = {}
        for name, _, card in people:
            option = self.design.options[name]
            slot = self.problem.slots[option.slot]
            if option.bundle or not (slot.alone or slot.capped):
                taken[card] = taken.get(card, 0) + option.need_bytes
                room[card] = slot.memory_bytes
        found += [f"{card} holds {taken[card]} of {room[card]}" for card in taken if taken[card] > room[card]]
        return found

    def _loss_faults(self, ending: dict[Pod, str]) -> list[str]:
        found = []
        for lost in set(ending.values()):
            kept = {pod: node for pod, node in ending.items() if node != lost}
            for later in self.endings(lost, kept):
                alive = {member.name for pod in later for member in self.members(pod)}
                gone = set(self.design.options) - alive
                if gone:
                    found.append(f"{gone} gone when {lost} is lost: {ending} -> {later}")
        return found

    def cards(self) -> int:
        """The most cards that may be touched."""
        most = 0
        for ending in self.endings():
            alone = sum(
                self.design.options[pod[0]].count
                for pod in ending
                if self.problem.slots[self.design.options[pod[0]].slot].alone or self.design.options[pod[0]].bundle
            )
            for seats in self.seatings(ending):
                most = max(most, alone + len(set(seats.values())))
        return most


def designs(problem: Problem) -> Iterator[Design]:
    """Every design of a tiny problem."""
    gpu = [component for component in problem.components if component.options]
    states: list[list[NodeState | None]] = []
    for node in problem.nodes:
        possible: list[NodeState | None] = [None]
        for config in node.configs:
            possible += [NodeState(config.name, cuts) for cuts in combinations_with_replacement(config.cuts, node.cards)]
        states.append(possible)
    for options in product(*(component.options for component in gpu)):
        chosen: dict[str, Option] = {component.name: option for component, option in zip(gpu, options, strict=True)}
        if any(option.bundle and any(chosen[name].bundle != option.bundle for name in option.bundle) for option in options):
            continue
        for combination in product(*states):
            changed = {node.name: state for node, state in zip(problem.nodes, combination, strict=True) if state is not None}
            yield Design(chosen, changed)
