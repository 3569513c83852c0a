"""A lower bound on cards that a person can check by hand, whatever the layout.

A pod that can only have cards of its own takes them; every other pod takes at least the share of a card that its smallest
slot is, and those shares add up to whole cards beside the former.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fractions import Fraction
from math import ceil

from ragstow.plan.problem import Cut, Option, Problem

_MOST_TO_A_CARD = 48
"""Pods that may share one card at most, whatever the mode (MPS: 48 clients)."""


def simple_bound(problem: Problem, needy: Collection[str] = ()) -> tuple[int, str]:
    """Cards that any plan needs, and what makes it.

    Args:
        problem: the problem.
        needy: components that must have a GPU, also those that no node has a slot for.
    """
    most = _most_slots(problem)
    whole = 0
    shares = Fraction(0)
    alone: list[str] = []
    shared: list[str] = []
    for component in problem.components:
        if not component.options:
            if component.name in needy:
                shares += Fraction(component.replicas, _MOST_TO_A_CARD)
                shared.append(component.name)
            continue
        share = min(_share(problem, option, most) for option in component.options)
        only_alone = all(problem.slots[option.slot].alone for option in component.options)
        if only_alone:
            number = component.replicas * min(option.count for option in component.options)
            whole += number
            alone.append(f"{component.name} {number}")
        else:
            shares += component.replicas * share
            shared.append(component.name)
    parts = []
    if alone:
        parts.append(f"{', '.join(alone)} of their own" if len(alone) > 1 else f"{alone[0]} of its own")
    if shared:
        parts.append(f"at least {ceil(shares)} for {', '.join(shared)}")
    return whole + ceil(shares), "; ".join(parts) or "no component takes a GPU"


def _most_slots(problem: Problem) -> dict[str, int]:
    """The most slots of each key that one card can offer."""
    most: dict[str, int] = {}
    for cut in _cuts(problem):
        for key, number in cut.slots:
            most[key] = max(most.get(key, 1), number)
    return most


def _cuts(problem: Problem) -> Iterable[Cut]:
    for node in problem.nodes:
        yield from node.present
        for config in node.configs:
            yield from config.cuts


def _share(problem: Problem, option: Option, most: dict[str, int]) -> Fraction:
    if option.bundle:
        return Fraction(1, len(option.bundle))
    if problem.slots[option.slot].alone:
        return Fraction(option.count)
    return Fraction(1, most.get(option.slot, 1))
