"""The greedy solver: components one after the other, each where it costs the fewest further cards. Fast and not exact.

It asks no integer programme. What it finds is proved like any other design; what it cannot find may still exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Literal

from ragstow.errors import Reason
from ragstow.plan.after import fits
from ragstow.plan.bound import simple_bound
from ragstow.plan.exact import Answer
from ragstow.plan.problem import MODE_ORDER, Component, Config, Cut, Design, NodeState, NodeSupply, Option, Problem
from ragstow.plan.promises import Verdict, prove

_Style = Literal["few", "simple", "shared"]
"""What decides where several slots would do: fewest cards and then the simplest mode; the simplest mode first; fewest cards and
then what others can share."""

_CONFIGS = 12
"""Configurations that are tried as a start."""


@dataclass(slots=True)
class _Node:
    """What is left of a node while components are placed; `blank` counts cards of a turned node that have no cut yet."""

    supply: NodeSupply
    free: dict[str, int]
    config: Config | None = None
    cuts: list[Cut] = field(default_factory=list)
    blank: int = 0
    used: bool = False

    def copy(self) -> _Node:
        return _Node(self.supply, dict(self.free), self.config, list(self.cuts), self.blank, self.used)


@dataclass(slots=True)
class _State:
    options: dict[str, Option]
    nodes: list[_Node]
    cards: int = 0
    turned: int = 0

    def copy(self) -> _State:
        return _State(dict(self.options), [node.copy() for node in self.nodes], self.cards, self.turned)


def solve(problem: Problem) -> Answer:
    """A proved design with few cards, or none found; never complete unless it meets the simple bound."""
    bound, _ = simple_bound(problem)
    refused: dict[Reason, None] = {}
    best: Verdict | None = None
    for state, style in _starts(problem):
        placed = _all(problem, state, refused, style)
        if placed is None:
            continue
        verdict = prove(problem, _design(problem, placed))
        refused.update(dict.fromkeys(verdict.refused))
        if verdict.holds and (best is None or verdict.cards < best.cards):
            best = verdict
            if best.cards == bound:
                break
    return Answer(best, bound, best is not None and best.cards == bound, tuple(refused) if best is None else ())


def _starts(problem: Problem) -> Iterator[tuple[_State, _Style]]:
    """Nothing changed; then, for each configuration, one node turned to it from the start, and all that can be."""
    yield _blank(problem), "few"
    yield _blank(problem), "simple"
    styles: tuple[_Style, _Style] = ("few", "shared")
    for name in sorted({config.name for node in problem.nodes for config in node.configs})[:_CONFIGS]:
        for number, style in product((1, len(problem.nodes)), styles):
            state = _blank(problem)
            able = [(node, config) for node in state.nodes for config in node.supply.configs if config.name == name]
            for node, config in [pair for pair in able if not pair[0].supply.disturbs][:number]:
                _turn(problem, state, node, config)
            yield state, style


def _blank(problem: Problem) -> _State:
    return _State({}, [_Node(node, dict(node.free)) for node in problem.nodes])


def _all(problem: Problem, state: _State, refused: dict[Reason, None], style: _Style) -> _State | None:
    """Every component placed from a start, or None."""
    for component in sorted(problem.components, key=lambda item: _order(problem, item)):
        if component.options and component.name not in state.options:
            placed = _place(problem, state, component, style)
            if placed is None:
                refused[Reason("greedy-no-room", f"greedy found no room for {component.name}", "try --solver exact")] = None
                return None
            state = placed
    return state


def _order(problem: Problem, component: Component) -> tuple[bool, int, str]:
    picky = not all(problem.slots[option.slot].alone for option in component.options)
    return picky, -min((option.need_bytes for option in component.options), default=0), component.name


def _place(problem: Problem, state: _State, component: Component, style: _Style) -> _State | None:
    best: tuple[tuple[int, ...], _State] | None = None
    cost: tuple[int, ...]
    for number, option in enumerate(component.options):
        if any(
            problem.slots[other.slot].identity == problem.slots[option.slot].identity
            and (other.slot, other.pooled) != (option.slot, option.pooled)
            and problem.slots[option.slot].sharers > 1
            for other in state.options.values()
        ):
            continue
        trial = state.copy()
        if not _put(problem, trial, component, option):
            continue
        rank = MODE_ORDER.index(problem.slots[option.slot].mode)
        if style == "simple":
            cost = (rank, trial.turned, trial.cards)
        else:
            cost = (trial.cards, trial.turned, rank if style == "few" else -rank)
        cost += (-len(option.bundle), number)
        if best is None or cost < best[0]:
            best = (cost, trial)
    return None if best is None else best[1]


def _put(problem: Problem, state: _State, component: Component, option: Option) -> bool:
    members = [problem.component(name) for name in option.bundle] or [component]
    if any(member.name in state.options for member in members):
        return False
    alone = problem.slots[option.slot].alone or bool(option.bundle)
    for _ in range(component.replicas):
        node = next((node for node in state.nodes if _room(node, option, members)), None)
        node = node or next((node for node in state.nodes if _make_room(problem, state, node, option, members)), None)
        if node is None:
            return False
        if alone:
            state.cards += option.count
        node.free[option.slot] -= option.count
        node.used = True
    for member in members:
        state.options[member.name] = next(
            other
            for other in member.options
            if (other.slot, other.pooled, other.bundle) == (option.slot, option.pooled, option.bundle)
        )
    return True


def _room(node: _Node, option: Option, members: list[Component]) -> bool:
    if node.free.get(option.slot, 0) < option.count or not all(fits(member, node.supply) for member in members):
        return False
    return not option.pooled or node.supply.pooled or node.config is not None


def _make_room(problem: Problem, state: _State, node: _Node, option: Option, members: list[Component]) -> bool:
    """Turn a node, or cut another card of a turned one, so that it offers the slot."""
    if not all(fits(member, node.supply) for member in members):
        return False
    config = node.config
    if config is None:
        if node.used or node.supply.disturbs:
            return False
        config = next((item for item in node.supply.configs if any(cut.number(option.slot) for cut in item.cuts)), None)
        if config is None:
            return False
        _turn(problem, state, node, config)
        if _room(node, option, members):
            return True
    whole = next((cut for cut in config.cuts if all(problem.slots[key].alone for key, _ in cut.slots)), None)
    spare = node.blank if whole is None else min(node.free.get(key, 0) for key, _ in whole.slots)
    best = max(config.cuts, key=lambda cut: cut.number(option.slot))
    if not node.blank or not spare or not best.number(option.slot):
        return False
    _uncut(problem, node, -1)
    node.blank -= 1
    node.cuts.append(best)
    for key, number in best.slots:
        node.free[key] = node.free.get(key, 0) + number
    state.cards += 1
    return _room(node, option, members)


def _turn(problem: Problem, state: _State, node: _Node, config: Config) -> None:
    """Give a node another configuration: all its cards the same cut where there is but one, else whole until cut."""
    node.config, node.blank, node.free = config, node.supply.cards, {}
    state.turned += 1
    if len(config.cuts) == 1:
        node.cuts, node.blank = [config.cuts[0]] * node.supply.cards, 0
        node.free = {key: number * node.supply.cards for key, number in config.cuts[0].slots}
        state.cards += node.supply.cards
    else:
        _uncut(problem, node, +node.blank)


def _uncut(problem: Problem, node: _Node, change: int) -> None:
    """Count whole cards of a turned node into, or out of, its free slots."""
    assert node.config is not None
    for cut in node.config.cuts:
        if all(problem.slots[key].alone for key, _ in cut.slots):
            for key, number in cut.slots:
                node.free[key] = node.free.get(key, 0) + change * number
            return


def _design(problem: Problem, state: _State) -> Design:
    changed = {}
    for node in state.nodes:
        if node.config is None:
            continue
        whole = next((cut for cut in node.config.cuts if all(problem.slots[key].alone for key, _ in cut.slots)), None)
        rest = [whole or node.config.cuts[0]] * node.blank
        changed[node.supply.name] = NodeState(node.config.name, tuple(node.cuts + rest))
    return Design(dict(state.options), changed)
