"""The cuts of a proved design made plain: of all layouts that do as well, the one with the fewest kinds of slices.

The solver only counts the slots that somebody may use; what else a card is cut into is free. Each choice is proved again.
"""

from __future__ import annotations

from dataclasses import replace

from ragstow.plan.problem import Config, Cut, Design, NodeState, NodeSupply, Problem
from ragstow.plan.promises import Verdict, prove


def tidy(problem: Problem, offered: tuple[NodeSupply, ...], verdict: Verdict) -> Verdict:
    """The same plan with plainer cuts.

    Args:
        problem: the problem that was solved.
        offered: its nodes with every cut they could have.
        verdict: the proved design.
    """
    nodes = {node.name: node for node in offered}
    used = {option.slot for option in verdict.design.options.values()}
    for name, state in verdict.design.changed.items():
        config = next(item for item in nodes[name].configs if item.name == state.config)
        for index, cut in enumerate(state.cuts):
            if _whole(problem, cut):
                continue
            for better in _plainer(config, cut, used):
                cuts = (*verdict.design.changed[name].cuts[:index], better, *verdict.design.changed[name].cuts[index + 1 :])
                trial = _with(verdict.design, name, NodeState(state.config, cuts))
                proved = prove(problem, trial)
                if proved.holds and proved.cards <= verdict.cards:
                    verdict = proved
                    break
    return verdict


def _with(design: Design, name: str, state: NodeState) -> Design:
    return replace(design, changed={**design.changed, name: state})


def _whole(problem: Problem, cut: Cut) -> bool:
    return all(problem.slots[key].alone for key, _ in cut.slots)


def _plainer(config: Config, cut: Cut, used: set[str]) -> list[Cut]:
    """Full cuts that offer the kinds of used slots that this one does, plainest first."""
    wanted = [key for key, _ in cut.slots if key in used]
    able = [other for other in config.cuts if other.slots and all(other.number(key) for key in wanted)]
    full = [other for other in able if not any(_inside(other, more) for more in config.cuts)]
    return sorted(full, key=lambda other: (len(other.slots), sum(count for _, count in other.slots), other.name))


def _inside(cut: Cut, other: Cut) -> bool:
    return cut.slots != other.slots and all(other.number(key) >= count for key, count in cut.slots)
