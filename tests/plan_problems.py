"""Tiny random planning problems, small enough for every choice to be played."""

from __future__ import annotations

import random
from dataclasses import replace

from ragstow.plan.problem import Component, Config, Cut, NodeSupply, Option, Problem, Slot

CARD = 40


def slots() -> dict[str, Slot]:
    """Kinds of slots of one product: a whole card, slices of two sizes, shares by time-slicing and by MPS."""
    rows = [
        Slot("whole", "exclusive", "gpu", "gpu", "p", None, 1, CARD, True, True, "fault"),
        Slot("small", "mig", "mig-small", "mig-small", "p", "small", 1, CARD // 4, False, True, "fault"),
        Slot("large", "mig", "mig-large", "mig-large", "p", "large", 1, CARD // 2, False, True, "fault"),
        Slot("ts2", "time-slicing", "shared", "shared", "p", None, 2, CARD, False, False, "none"),
        Slot("ts3", "time-slicing", "shared", "shared", "p", None, 3, CARD, False, False, "none"),
        Slot("mps2", "mps", "shared", "shared", "p", None, 2, CARD // 2, False, True, "memory"),
    ]
    return {slot.key: slot for slot in rows}


WHOLE = Cut("whole", (("whole", 1),))
MIG_CUTS = (
    Cut("4 small", (("small", 4),)),
    Cut("2 small, 1 large", (("small", 2), ("large", 1))),
    Cut("2 large", (("large", 2),)),
)
CONFIGS = {
    "mig": Config("mig", "mig", (WHOLE, *MIG_CUTS)),
    "time-slicing x2": Config("time-slicing x2", "time-slicing", (Cut("x2", (("ts2", 2),)),)),
    "time-slicing x3": Config("time-slicing x3", "time-slicing", (Cut("x3", (("ts3", 3),)),)),
    "mps x2": Config("mps x2", "mps", (Cut("mps x2", (("mps2", 2),)),)),
}


def _node(rng: random.Random, number: int) -> NodeSupply:
    cards = rng.choice([1, 1, 2])
    kind = rng.choice(["idle", "idle", "idle", "whole", "mig", "ts2"])
    cpu = rng.choice([100, 100, 100, 2])
    pooled = rng.random() < 0.2
    if kind == "idle":
        return NodeSupply(
            f"n{number}", cards, (WHOLE,) * cards, {"whole": cards}, tuple(CONFIGS.values()), cpu_milli=100, pooled=pooled
        )
    if kind == "whole":
        free = rng.randint(0, cards) if rng.random() < 0.4 else cards
        configs = tuple(config for config in CONFIGS.values() if rng.random() < 0.6) if free == cards else ()
        return NodeSupply(f"n{number}", cards, (WHOLE,) * cards, {"whole": free}, configs, cpu_milli=cpu)
    if kind == "mig":
        cuts = tuple(rng.choice([WHOLE, *MIG_CUTS]) for _ in range(cards))
        total: dict[str, int] = {}
        for cut in cuts:
            for key, count in cut.slots:
                total[key] = total.get(key, 0) + count
        free_slots = {key: rng.randint(0, count) if rng.random() < 0.5 else count for key, count in total.items()}
        return NodeSupply(f"n{number}", cards, cuts, free_slots, (), cpu_milli=cpu)
    return NodeSupply(
        f"n{number}", cards, (Cut("x2", (("ts2", 2),)),) * cards, {"ts2": 2 * cards}, (), pooled=pooled, cpu_milli=cpu
    )


def _with_claims(rng: random.Random, components: list[Component]) -> list[Component]:
    """Sometimes two components of equal replica counts may share a claim (the whole card stands for a DRA device)."""
    pair = tuple(component.name for component in components[:2])
    if len(pair) < 2 or components[0].replicas != components[1].replicas or rng.random() < 0.5:
        return components
    if sum(component.options[0].need_bytes for component in components[:2]) > CARD:
        return components
    claim = [
        replace(item, options=(*item.options, Option("whole", 1, item.options[0].need_bytes, bundle=pair)))
        for item in components[:2]
    ]
    return claim + components[2:]


def random_problem(rng: random.Random, *, neighbours: bool = False) -> Problem:
    """A problem with one to three components on one to three nodes; `neighbours`: small ones that may be wished together."""
    nodes = tuple(_node(rng, number) for number in range(rng.randint(1, 3)))
    if neighbours:
        nodes = tuple(
            NodeSupply(f"n{number}", rng.choice([1, 1, 1, 2]), (), {}, tuple(CONFIGS.values())) for number in range(len(nodes))
        )
        nodes = tuple(replace(node, present=(WHOLE,) * node.cards, free={"whole": node.cards}) for node in nodes)
    components = []
    for name in ["a", "b", "c"][: rng.randint(1, 3)]:
        need = rng.choice([6, 8, 9] if neighbours else [8, 9, 9, 13, 15, 18, 25, 30])
        options = []
        for slot in slots().values():
            if need <= slot.memory_bytes and rng.random() < 0.8:
                if slot.alone:
                    options.append(Option(slot.key, rng.choice([1, 1, 1, 2]), need))
                else:
                    options += [Option(slot.key, 1, need, pooled=pooled) for pooled in (True, False)]
        if not options:
            options = [Option("whole", 1, need)]
        components.append(
            Component(name, rng.choice([1, 2] if neighbours else [1, 1, 2, 2, 3]), rng.choice([1, 1, 2]), 0, tuple(options))
        )
    components = _with_claims(rng, components)
    names = [component.name for component in components]
    together: tuple[tuple[str, ...], ...] = ()
    apart: tuple[tuple[str, ...], ...] = ()
    if len(names) > 1 and rng.random() < (1 if neighbours else 0.35):
        together = (tuple(sorted(rng.sample(names, 2))),)
    if rng.random() < 0.45:
        group = tuple(sorted(rng.sample(names, rng.randint(1, min(2, len(names))))))
        if group not in together:
            apart = (group,)
    return Problem(tuple(components), nodes, slots(), together, apart, survive=rng.random() < 0.3)
