"""The planning problem of a service on a supply: components, options, quotas, and only the nodes and cuts that can matter.

Slots that no component may get are taken out of cuts, cuts that others dominate too, and of nodes that are alike only as many
are kept as there are pods (and one to lose): more of them cannot change any answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ragstow.plan.crop import crop
from ragstow.plan.model import Mode
from ragstow.plan.options import Choices
from ragstow.plan.problem import Component, Config, Cut, NodeSupply, Problem
from ragstow.plan.supply import Supply
from ragstow.spec.model import Service

MOST_NODES = 60
"""Nodes that a problem keeps where nobody says otherwise; beyond that an answer is proved best only by the simple bound."""


@dataclass(frozen=True, slots=True)
class Posed:
    """The problem, and whether nodes that could matter were left out of it."""

    problem: Problem
    cropped: bool


def pose(
    service: Service,
    offered: Supply,
    choices: Mapping[str, Choices],
    quota: Mapping[str, int],
    closed: Mapping[str, frozenset[str]],
    most: int | None = MOST_NODES,
) -> Posed:
    """The problem to solve.

    Args:
        service: the service.
        offered: nodes and slots.
        choices: options by component; a component that is absent takes no GPU.
        quota: what the namespace may still ask for, by resource.
        closed: components by node that may not be scheduled there.
        most: nodes that the problem keeps at most; None for all that could change an answer.
    """
    components = tuple(
        Component(
            name=item.name,
            replicas=item.replicas,
            cpu_milli=item.cpu.milli,
            memory_bytes=item.memory.value,
            options=choices[item.name].options if item.name in choices else (),
        )
        for item in sorted(service.components, key=lambda item: item.name)
    )
    used = {option.slot for component in components for option in component.options}
    # Slots that are only taken as they are need no new cuts.
    made = {key for key in used if offered.slots[key].alone} | {
        option.slot for component in components for option in component.options if option.pooled
    }
    fine = bool(service.placement.apart or service.placement.together)
    nodes = [
        replace(
            node,
            configs=tuple(trimmed for config in node.configs if (trimmed := _trim(config, made, fine)) is not None),
            closed=closed.get(node.name, frozenset()),
        )
        for node in offered.nodes
    ]
    pods = sum(component.replicas for component in components)
    kept, cropped = _few(nodes, components, used, pods, most)
    problem = Problem(
        components=components,
        nodes=kept,
        slots=offered.slots,
        together=tuple(service.placement.together),
        apart=tuple(service.placement.apart),
        survive=service.placement.survive == "node",
        max_cards=service.placement.max_cards,
        quota=quota,
    )
    return Posed(problem, cropped)


def _trim(config: Config, used: set[str], fine: bool) -> Config | None:
    """A config with only the slots that somebody may use; None where it offers nothing new."""
    cuts: dict[tuple[tuple[str, int], ...], Cut] = {}
    for cut in config.cuts:
        slots = tuple((key, count) for key, count in cut.slots if key in used)
        if slots or cut.name == "whole":
            cuts.setdefault(slots, Cut(cut.name, slots))
    if not any(cut.slots for cut in cuts.values()):
        return None
    kept = tuple(
        cut
        for slots, cut in cuts.items()
        if cut.name == "whole" or not any(_dominates(other, slots, fine) for other in cuts if other != slots)
    )
    useful: Mode = config.mode
    if useful == "mig" and all(cut.name == "whole" for cut in kept):
        return None
    return replace(config, cuts=kept)


def _dominates(other: tuple[tuple[str, int], ...], slots: tuple[tuple[str, int], ...], fine: bool) -> bool:
    """Whether a cut offers at least as much; `fine`: of the same kinds of slots, so that kinds can be kept on cards apart."""
    have = dict(other)
    if fine and set(have) != {key for key, _ in slots}:
        return False
    return all(have.get(key, 0) >= count for key, count in slots)


def _few(
    nodes: list[NodeSupply], components: tuple[Component, ...], used: set[str], pods: int, most: int | None
) -> tuple[tuple[NodeSupply, ...], bool]:
    cpu = sum(component.cpu_milli * component.replicas for component in components)
    memory = sum(component.memory_bytes * component.replicas for component in components)
    seen: dict[object, int] = {}
    kept: list[NodeSupply] = []
    for node in nodes:
        ample = node.cpu_milli >= cpu and node.memory_bytes >= memory and node.pods >= pods
        useful = bool(node.configs) or any(free and key in used for key, free in node.free.items())
        alike = (
            node.cards if useful else 0,
            node.present if useful else (),
            tuple(sorted(node.free.items())) if useful else (),
            tuple(config.name for config in node.configs),
            node.disturbs,
            node.pooled,
            node.closed,
            True if ample else (node.cpu_milli, node.memory_bytes, node.pods),
        )
        seen[alike] = seen.get(alike, 0) + 1
        if seen[alike] <= pods + 1:
            kept.append(node)
    return crop(kept, components, used, most) if most is not None else (tuple(kept), False)
