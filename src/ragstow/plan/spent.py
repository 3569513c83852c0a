"""What a design takes of quotas: slots and claims under the names that quotas count."""

from __future__ import annotations

from collections.abc import Mapping

from ragstow.errors import Reason
from ragstow.plan.claimquota import CLAIMS
from ragstow.plan.problem import Option, Problem, Slot


def each(slot: Slot, option: Option, name: str) -> dict[str, int]:
    """Name -> what one replica of a component takes; nothing where it uses the claims of another component of its bundle."""
    if option.bundle and option.bundle[0] != name:
        return {}
    names = slot.counted or ((slot.resource,) if slot.resource else ())
    found = dict.fromkeys(names, option.count)
    return {**found, CLAIMS: 1} if slot.mode == "dra" else found


def spent(problem: Problem, options: Mapping[str, Option]) -> dict[str, int]:
    """Name -> what these options take in all."""
    found: dict[str, int] = {}
    for component in problem.components:
        option = options.get(component.name)
        for key, number in each(problem.slots[option.slot], option, component.name).items() if option is not None else ():
            found[key] = found.get(key, 0) + number * component.replicas
    return found


def over(problem: Problem, options: Mapping[str, Option]) -> list[Reason]:
    """Quotas that these options do not keep."""
    taken = spent(problem, options)
    return [
        Reason("quota", f"{taken[key]} x {key} asked for, the ResourceQuotas leave {left}", "a larger quota, or fewer replicas")
        for key, left in sorted(problem.quota.items())
        if taken.get(key, 0) > left
    ]
