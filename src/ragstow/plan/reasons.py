"""Why a component got its slot and not another, in sentences with numbers."""

from __future__ import annotations

from collections.abc import Mapping

from ragstow.errors import Reason
from ragstow.plan.after import After
from ragstow.plan.colocation import worst_crowds
from ragstow.plan.model import Mode, Refusal
from ragstow.plan.options import Choices
from ragstow.plan.problem import MODE_ORDER, Option, Slot
from ragstow.plan.promises import Verdict
from ragstow.plan.refusing import gib, listed, plural
from ragstow.sizing import ComponentSizing


def why(state: After, verdict: Verdict, name: str, choices: Choices) -> tuple[Reason, ...]:
    """Why this slot, and what its pods' constraints are for."""
    option = verdict.design.options[name]
    slot = state.problem.slots[option.slot]
    reasons = [_why_slot(state, verdict, name, option, slot, choices)]
    steering = verdict.steering[name]
    if name in steering.not_beside:
        reasons.append(
            Reason("one-a-node", f"at most one {name} on a node: which card of a node a pod gets is not ours to say")
        )
    others = [other for other in steering.not_beside if other != name]
    if others:
        reasons.append(Reason("apart-by-node", f"never on a node with {listed(others)}, so never on one card"))
    if steering.beside:
        reasons.append(
            Reason("together-by-node", f"always on a node with {listed(list(steering.beside))}, which has one such card")
        )
    if steering.spread:
        reasons.append(Reason("two-nodes", "never all replicas on one node, so one survives the loss of a node"))
    if slot.sharers > 1 and not slot.alone:
        others = sorted(
            member.name
            for group in state.groups
            if group.slot.key == slot.key
            for member in group.members
            if member.name != name or member.replicas > 1
        )
        if others:
            reasons.append(Reason("neighbours", f"may share its card with {listed(others, last='or')}: the kubelet chooses"))
    if steering.stage:
        reasons.append(Reason("starts-later", "starts after those that need more cards of one node, so it cannot block them"))
    return tuple(reasons)


def _why_slot(state: After, verdict: Verdict, name: str, option: Option, slot: Slot, choices: Choices) -> Reason:
    summed = choices.sizing[option]
    need = gib(summed.minimum_bytes)
    if option.bundle:
        others = [other for other in option.bundle if other != name]
        return Reason("claim-shared", f"one claim with {listed(others)}: the same card, which nobody else gets")
    match slot.mode:
        case "exclusive":
            return _why_whole(state, choices, summed)
        case "mig":
            return Reason("smallest-slice", f"a slice that holds it: {need} of {gib(slot.memory_bytes)}")
        case "mps":
            return Reason(
                "share-capped", f"one of {slot.sharers} shares of a card, each held to {gib(slot.memory_bytes)}; needs {need}"
            )
        case "time-slicing":
            crowd = max(
                (crowd for crowd in worst_crowds(state, verdict.steering) if crowd.slot == slot.key),
                key=lambda crowd: crowd.taken_bytes,
                default=None,
            )
            taken = f"{gib(crowd.taken_bytes)} of {gib(crowd.card_bytes)} ({listed(list(crowd.pods))})" if crowd else "nothing"
            return Reason("share-proven", f"one of {slot.sharers} shares of a card; the worst neighbours take {taken}")
        case _:
            what = f"a {slot.profile} device" if slot.profile else plural(option.count, "card")
            return Reason("claim", f"a claim for {what} of its own; needs {need}")


def _why_whole(state: After, choices: Choices, summed: ComponentSizing) -> Reason:
    parts = [option for option in choices.options if not state.problem.slots[option.slot].alone]
    ways: tuple[Mode, ...] = () if parts else ("mig", "mps", "time-slicing")
    cut = [choices.refused[mode] for mode in ways if mode in choices.refused]
    small = next((reason for reason in cut if reason.code == "too-small"), None)
    if summed.cards > 1:
        return Reason("cards-together", f"{summed.cards} cards of one node a replica (tensor parallel)")
    if small is not None:
        return Reason("more-than-a-part", f"more than a part of a card holds: {small.text}")
    return Reason("simplest", f"a card of its own, the simplest mode; needs {gib(summed.minimum_bytes)}")


def why_not(
    state: After, verdict: Verdict, choices: Mapping[str, Choices], prices: Mapping[tuple[str, Mode], int | None]
) -> tuple[Refusal, ...]:
    """A reason for every mode that a component did not get, in the order of components and modes.

    Args:
        state: the cluster after the plan.
        verdict: the plan.
        choices: what each component could have had.
        prices: cards of the best plan with a simpler mode, where that was asked.
    """
    refusals: list[Refusal] = []
    for name, made in choices.items():
        chosen = state.problem.slots[verdict.design.options[name].slot].mode if name in verdict.design.options else "none"
        for mode in MODE_ORDER[:-1]:
            if mode == chosen:
                continue
            reason = made.refused.get(mode) or _dearer(state, verdict, made, chosen, mode, prices.get((name, mode), -1))
            refusals.append(Refusal(name, mode, reason))
    return tuple(refusals)


def _dearer(state: After, verdict: Verdict, made: Choices, chosen: Mode, mode: Mode, price: int | None) -> Reason:
    """Why a possible mode was not taken; `price` is -1 where it was not asked."""
    option = next(option for option in made.options if state.problem.slots[option.slot].mode == mode)
    if MODE_ORDER.index(mode) > MODE_ORDER.index(chosen):
        return Reason("not-simpler", f"possible, but {chosen} is simpler and takes no more cards")
    need = gib(made.sizing[option].minimum_bytes)
    what = f"{plural(option.count, 'whole card')} for {need}" if mode == "exclusive" else "possible"
    if price is None:
        return Reason("no-room-beside", f"{what}: then not all of the service finds room here")
    if price > verdict.cards:
        return Reason("more-cards", f"{what}: {plural(price, 'card')} in all instead of {verdict.cards}")
    if price == verdict.cards:
        return Reason(
            "more-changes", f"{what}: no fewer cards, but more nodes to change, or a less simple mode for another component"
        )
    return Reason("more-cards", f"{what}: more cards, or more nodes to change, than with {chosen}")
