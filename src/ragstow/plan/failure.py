"""Why a service does not fit: which component, on which nodes, for which reason each, and what is in the way.

Components are asked one by one first: what does not fit alone is the cause; if each fits alone, it is the sum.
"""

from __future__ import annotations

from dataclasses import replace

from ragstow.errors import Reason
from ragstow.plan import exact
from ragstow.plan.attempt import Attempt
from ragstow.plan.change import holders, unhealthy
from ragstow.plan.model import Refusal
from ragstow.plan.obstacles import obstacles
from ragstow.plan.problem import MODE_ORDER, Option, Problem
from ragstow.plan.refusing import gib, listed, plural


def reasons(tried: Attempt) -> tuple[Reason, ...]:
    """The reasons, root causes first."""
    if tried.feasible:
        return ()
    found: list[Reason] = list(tried.blocked)
    if not tried.offered.cards:
        found += _no_nodes(tried)
        return tuple(dict.fromkeys(found))
    without = [name for name, made in tried.choices.items() if not made.options]
    found += _no_slot(tried, without)
    if not without and not tried.blocked:
        alone = [name for name in tried.choices if not _fits_alone(tried, name)]
        if tried.answer.complete:
            found += _in_the_way(tried, alone)
        found += _no_room(tried, alone)
        if not alone:
            found.append(_sum(tried))
        found += _wished_together(tried)
    found += tried.answer.refused
    found += tried.offered.excluded.values()
    found += [sick for name in sorted(tried.offered.cards) if (sick := unhealthy(tried.situation.gpus[name])) is not None]
    if not tried.answer.complete:
        hint = "--solver exact" if tried.solver == "greedy" else "fewer nodes by placement.nodeSelector"
        found.append(Reason("not-complete", "not every layout was looked at", hint))
    return tuple(dict.fromkeys(found))


def _no_nodes(tried: Attempt) -> list[Reason]:
    names = list(tried.choices)
    excluded = list(tried.offered.excluded.values())
    if excluded:
        return [Reason("no-usable-gpu", f"{listed(names)}: no GPU node can be used"), *excluded]
    return [
        Reason(
            "no-gpu",
            f"{listed(names)}: the cluster has no GPU node: {len(tried.situation.nodes)} nodes, none with a GPU resource",
            "GPU nodes whose device plugin or DRA driver runs",
        )
    ]


def _no_slot(tried: Attempt, names: list[str]) -> list[Reason]:
    """Why no node has a slot, components of the same refusals in one reason."""
    alike: dict[tuple[str, str], list[str]] = {}
    for name in names:
        refused = tried.choices[name].refused
        known = [refused[mode] for mode in MODE_ORDER if mode in refused]
        modes = "; ".join(f"{mode}: {refused[mode].text}" for mode in MODE_ORDER if mode in refused)
        hint = next((reason.hint for reason in known if reason.hint), "")
        alike.setdefault((modes, hint), []).append(name)
    return [
        Reason(
            "no-slot",
            f"{listed(same)}: no node has or could have a slot for {'it' if len(same) == 1 else 'them'} ({modes})",
            hint,
        )
        for (modes, hint), same in alike.items()
    ]


def _in_the_way(tried: Attempt, alone: list[str]) -> tuple[Reason, ...]:
    """Conditions of the whole service, else of the components that fit nowhere even alone."""
    namespace = tried.service.namespace
    whole = obstacles(tried.posed.problem, namespace)
    return whole or tuple(reason for name in alone for reason in obstacles(_alone(tried, name), namespace))


def _wished_together(tried: Attempt) -> list[Reason]:
    """Why a shared card beside whole ones is not to be had, where neighbours are wished together."""
    groups = [group for group in tried.service.placement.together if len(group) > 1]
    several = [
        name
        for name in tried.offered.cards
        if tried.situation.gpus[name].cards > 1 and tried.situation.gpus[name].sharing in ("exclusive", "time-slicing", "mps")
    ]
    if not groups or not several:
        return []
    first = groups[0]
    made = tried.choices.get(first[0])
    refused = {} if made is None else made.refused
    modes = "; ".join(f"{mode}: {refused[mode].text}" for mode in MODE_ORDER if mode in refused)
    return [
        Reason(
            "together-device-plugin",
            f"{listed(list(first))} together need a card that they share{f' ({modes})' if modes else ''}; the device plugin "
            f"shares all cards of a node or none, so {several[0]} cannot have one shared card beside whole ones",
            "mixed MIG, another node for them, or a claim that they share (DRA)",
        )
    ]


def _fits_alone(tried: Attempt, name: str) -> bool:
    alone = _alone(tried, name)
    if not alone.components[0].options:
        return False
    quick = exact.fewest(alone)
    return quick.verdict is not None or (not quick.complete and exact.solve(alone).verdict is not None)


def _alone(tried: Attempt, name: str) -> Problem:
    problem = tried.posed.problem
    return replace(
        problem,
        components=tuple(
            replace(item, options=tuple(option for option in item.options if not option.bundle))
            for item in problem.components
            if item.name == name
        ),
        together=(),
        apart=tuple(group for group in problem.apart if group == (name,)),
        max_cards=None,
    )


def _no_room(tried: Attempt, names: list[str]) -> list[Reason]:
    """What the nodes offer to components that do not fit even alone, those that are offered the same in one reason."""
    alike: dict[str, list[str]] = {}
    for name in names:
        component = tried.posed.problem.component(name)
        made = tried.choices[name]
        smallest = min(component.options, key=lambda option: made.sizing[option].minimum_bytes)
        places = [text for node in sorted(tried.offered.cards) if (text := _node(tried, node, component.options))]
        wanted = f"{plural(component.replicas, 'replica')} of {gib(made.sizing[smallest].minimum_bytes)}"
        what = f"{name}: no room for {wanted} on {plural(smallest.count, 'card')} each"
        alike.setdefault("; ".join(places) or "no node offers its slots", []).append(what)
    return [Reason("no-room", f"{'; '.join(same)}: {places}") for places, same in alike.items()]


def _node(tried: Attempt, node: str, options: tuple[Option, ...]) -> str:
    """What a node offers of the wanted slots, and who is in the way."""
    supply = next((item for item in tried.posed.problem.nodes if item.name == node), None)
    if supply is None:
        return ""
    wanted = dict.fromkeys(option.slot for option in options)
    parts = []
    for key in wanted:
        total = sum(cut.number(key) for cut in supply.present)
        if total:
            slot = tried.offered.slots[key]
            parts.append(f"{supply.free.get(key, 0)} of {total} x {slot.resource or 'DRA device'} free")
    held = holders(tried.situation.gpus[node])
    who = f" ({listed(list(held))} {'holds' if len(held) == 1 else 'hold'} the rest)" if held else ""
    return f"{node} has {', '.join(parts)}{who}" if parts else ""


def _sum(tried: Attempt) -> Reason:
    names = listed(list(tried.choices))
    free = _cards_free(tried)
    limit = tried.service.placement.max_cards
    if limit is not None and tried.bound > limit:
        return Reason("max-cards", f"{names}: at least {tried.bound} cards are needed, placement.maxCards allows {limit}")
    text = f"{names}: each fits alone, not all together; at least {plural(tried.bound, 'card')} needed ({tried.bound_reason})"
    where = "; ".join(
        part
        for node in sorted(tried.offered.cards)
        if (part := _node(tried, node, tuple(option for item in tried.posed.problem.components for option in item.options)))
    )
    return Reason("not-together", f"{text}, {free} free: {where}" if where else f"{text}, {free} free")


def _cards_free(tried: Attempt) -> str:
    low = high = 0
    for name in tried.offered.cards:
        free = tried.situation.gpus[name].cards_free
        low, high = (low + free, high + free) if isinstance(free, int) else (low + free.min, high + free.max)
    return plural(low, "card") if low == high else f"{low} to {high} cards"


def refusals(tried: Attempt) -> tuple[Refusal, ...]:
    """The modes that a component does not get, as far as a mode is refused as such."""
    return tuple(
        Refusal(name, mode, made.refused[mode])
        for name, made in tried.choices.items()
        for mode in MODE_ORDER
        if mode in made.refused
    )
