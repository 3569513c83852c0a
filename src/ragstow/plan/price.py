"""What a simpler mode would have cost a component: the whole plan again with that mode for it, counting cards only."""

from __future__ import annotations

from dataclasses import replace

from ragstow.plan import exact
from ragstow.plan.model import Mode
from ragstow.plan.problem import MODE_ORDER, Problem
from ragstow.plan.promises import Verdict

_MOST_QUESTIONS = 12
_MOST_NODES = 6
"""On more nodes that could be changed the question is not asked: it would cost more than the plan."""


def prices(problem: Problem, verdict: Verdict) -> dict[tuple[str, Mode], int | None]:
    """(component, mode) -> cards of the best plan in which the component has that mode; None where no such plan exists.

    Only modes simpler than the one it got are asked about: the others cannot take fewer cards, or they would have been chosen.
    """
    found: dict[tuple[str, Mode], int | None] = {}
    if sum(bool(node.configs) for node in problem.nodes) > _MOST_NODES:
        return found
    for component in problem.components:
        option = verdict.design.options.get(component.name)
        if option is None:
            continue
        rank = MODE_ORDER.index(problem.slots[option.slot].mode)
        for mode in MODE_ORDER[:rank]:
            kept = tuple(other for other in component.options if problem.slots[other.slot].mode == mode and not other.bundle)
            if kept and len(found) < _MOST_QUESTIONS:
                found[component.name, mode] = _cards(problem, component.name, mode)
    return found


def _cards(problem: Problem, name: str, mode: Mode) -> int | None:
    forced = replace(
        problem,
        components=tuple(
            replace(
                item,
                options=tuple(
                    option for option in item.options if problem.slots[option.slot].mode == mode and not option.bundle
                ),
            )
            if item.name == name
            else replace(item, options=tuple(option for option in item.options if name not in option.bundle))
            for item in problem.components
        ),
    )
    answer = exact.fewest(forced)
    return answer.verdict.cards if answer.verdict is not None else None
