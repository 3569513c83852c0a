"""The slots that each component may get, with the sum of memory for each, and a reason for every mode that gives none.

A slot is an option when the engine runs on that card, the component's memory fits, the mode promises the isolation that was
asked for, and the user allows mode and product. Which option is best is the solver's question.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from ragstow.errors import Reason
from ragstow.facts import Facts
from ragstow.plan.cardfacts import MIB
from ragstow.plan.model import Mode
from ragstow.plan.problem import MODE_ORDER, Option, Slot
from ragstow.plan.refusing import gib, listed
from ragstow.plan.situation import COMPONENT_LABEL, Situation
from ragstow.plan.supply import Supply
from ragstow.sizing import ComponentSizing, size
from ragstow.sizing import Slot as SizedSlot
from ragstow.spec.model import Component, Service, SharingMode

ISOLATION = ("none", "memory", "fault")
_BUNDLE_MOST = 6
"""Components that one claim is shared by at most; more are not tried."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Options of one component in the order of preference, their sizing, and why other modes give none."""

    options: tuple[Option, ...]
    sizing: Mapping[Option, ComponentSizing]
    refused: Mapping[Mode, Reason] = field(default_factory=dict)


class Sizer:
    """Sums of memory, each made once for a component and a kind of slot."""

    def __init__(self, situation: Situation) -> None:
        self._facts = situation.facts
        self._made: dict[tuple[str, SizedSlot], ComponentSizing | None] = {}

    def on(self, component: Component, slot: Slot, *, shared: bool) -> ComponentSizing | None:
        """The component's memory on a slot; None for one that takes no GPU.

        Raises:
            InputError: the facts do not know its model or engine.
        """
        gpu = self._facts.gpus.find(slot.product) if slot.product else None
        visible = slot.memory_bytes
        if slot.mode == "mps" and gpu is not None:
            # An engine under MPS sees the whole card; the daemon refuses what goes beyond the limit.
            visible = self._facts.gpus.visible(gpu).mib * MIB
        made = SizedSlot(visible, slot.product, gpu.cc if gpu is not None else None, shared)
        key = (component.name, made)
        if key not in self._made:
            self._made[key] = size(component, made, self._facts)
        return self._made[key]


def choices(situation: Situation, service: Service, offered: Supply, sizer: Sizer) -> dict[str, Choices]:
    """Options by component, for those that take a GPU.

    Raises:
        InputError: the facts do not know a model, an engine or a precision.
    """
    found: dict[str, Choices] = {}
    for component in service.components:
        if component.gpu != "never":
            found[component.name] = _of_component(situation, service, component, offered, sizer)
    _add_claims(situation, service, offered, sizer, found)
    return {name: _ordered(offered, made) for name, made in found.items()}


def _of_component(situation: Situation, service: Service, component: Component, offered: Supply, sizer: Sizer) -> Choices:
    options: list[Option] = []
    sizing: dict[Option, ComponentSizing] = {}
    refused: dict[Mode, list[tuple[int, int, Reason]]] = {}
    current = _current(situation, component.name)
    reachable, there = _pools(offered)
    smallest: dict[str | None, int] = {}
    for key, slot in sorted(offered.slots.items(), key=lambda item: (item[1].memory_bytes, item[0])):
        shared = not slot.alone and slot.sharers > 1
        summed = sizer.on(component, slot, shared=shared)
        if summed is None:
            return Choices((), {}, {})
        why = _why_not(service, component, slot, summed)
        if why is not None:
            refused.setdefault(slot.mode, []).append((why[0], slot.memory_bytes, why[1]))
            continue
        ways = reachable[key]
        if slot.mode == "mig":
            # New slices are the smallest that hold the component (with `apart` the next size too); others only as they are.
            smallest[slot.product] = smallest.get(slot.product, 0) + 1
            if smallest[slot.product] > (2 if service.placement.apart else 1):
                ways = tuple(pooled for pooled in ways if not pooled or key in there)
        for pooled in ways:
            option = Option(
                key, summed.cards, need_bytes(summed, situation.facts), pooled, current=(slot.resource, pooled) in current
            )
            options.append(option)
            sizing[option] = summed
    reasons = {mode: _best(found) for mode, found in refused.items()}
    for mode in MODE_ORDER[:-1]:
        if not any(offered.slots[option.slot].mode == mode for option in options):
            reasons.setdefault(mode, _absent(situation, service, offered, mode))
        else:
            reasons.pop(mode, None)
    return Choices(tuple(options), sizing, reasons)


def need_bytes(summed: ComponentSizing, facts: Facts) -> int:
    """The most that one pod takes of a card: the upper end of its band, and what the engine demands to be free at its start.

    vLLM checks its fraction of the *total* memory against the free memory, also where the cache is pinned in bytes.
    """
    serving = facts.serving.get(summed.engine)
    asked = serving.flags.utilization if serving is not None else None
    args = summed.engine_args
    share = next((float(args[number + 1]) for number, flag in enumerate(args[:-1]) if flag == asked), None)
    if share is None:
        return summed.minimum_bytes
    outside = sum(term.band[1] for term in summed.terms if not term.inside_budget)
    return max(summed.minimum_bytes, int(share * summed.capacity_bytes) + outside)


def _why_not(service: Service, component: Component, slot: Slot, summed: ComponentSizing) -> tuple[int, Reason] | None:
    """The first reason against a slot, with a rank: of several reasons for a mode the highest rank tells most."""
    mode: SharingMode = slot.mode  # type: ignore[assignment]  # slots never have mode "none"
    if mode not in service.placement.sharing:
        return 1, Reason("mode-not-allowed", f"placement.sharing does not allow {mode}", f"add {mode} to placement.sharing")
    if service.placement.products and slot.product not in service.placement.products:
        allowed = listed(list(service.placement.products))
        return 0, Reason("product-not-allowed", f"{slot.product} is not among placement.products ({allowed})")
    if summed.refusals:
        return 2, summed.refusals[0]
    if summed.cards > 1 and not slot.alone:
        return 2, Reason("needs-whole-cards", f"{summed.cards} cards a replica work only with whole cards, not with {mode}")
    if ISOLATION.index(slot.isolation) < ISOLATION.index(component.isolation):
        what = "it caps nothing and isolates nothing" if slot.isolation == "none" else "a crash reaches all clients of the card"
        return 4, Reason(f"isolation-{mode}", f"isolation={component.isolation}: {what}", "isolation: " + slot.isolation)
    need = summed.minimum_bytes
    if need > slot.memory_bytes:
        what = {"mig": f"a {slot.profile} slice", "mps": f"one of {slot.sharers} MPS shares"}.get(slot.mode, "the card")
        text = f"{gib(need)} needed, {what} of {slot.product or 'this product'} has {gib(slot.memory_bytes)}"
        return 3, Reason("too-small", text, "shorter context, less concurrency, quantization, a larger card")
    return None


def _best(found: list[tuple[int, int, Reason]]) -> Reason:
    """The reason that tells most: the highest rank, and of slots the one with the most memory."""
    rank = max(number for number, _, _ in found)
    return max(((memory, reason) for number, memory, reason in found if number == rank), key=lambda item: item[0])[1]


def _absent(situation: Situation, service: Service, offered: Supply, mode: Mode) -> Reason:
    """Why no node offers a mode, nor could."""
    allowed: tuple[str, ...] = service.placement.sharing
    if mode not in allowed:
        return Reason("mode-not-allowed", f"placement.sharing does not allow {mode}", f"add {mode} to placement.sharing")
    if mode == "dra":
        return Reason(
            "dra-absent", "no node offers its cards through the DRA driver", "install dra-driver-nvidia-gpu (Kubernetes 1.34+)"
        )
    why = [reasons[mode] for reasons in offered.unchangeable.values() if mode in reasons]
    if why:
        return max(why, key=lambda reason: (sum(other.code == reason.code for other in why), reason.text))
    if offered.excluded:
        return next(iter(offered.excluded.values()))
    return Reason(
        "no-gpu", "the cluster has no GPU node" if not situation.gpus or not offered.cards else f"no node offers {mode}"
    )


def _pools(offered: Supply) -> tuple[dict[str, tuple[bool, ...]], set[str]]:
    """For each slot: with the pool label, without it, or both; and the slots that nodes of the pool have already.

    With it where the plan makes the slots (or made them before); without it where nodes offer them as they are. A card of
    one's own needs no pool.
    """
    made: set[str] = set()
    there: set[str] = set()
    pooled: set[str] = set()
    for node in offered.nodes:
        here = {key for key, free in node.free.items() if free}
        there |= here
        pooled |= here if node.pooled else set()
        made |= {key for config in node.configs for cut in config.cuts for key, _ in cut.slots}
    found: dict[str, tuple[bool, ...]] = {}
    for key, slot in offered.slots.items():
        if slot.alone or slot.mode == "dra":
            found[key] = (False,)
        else:
            found[key] = tuple(way for way, has in ((True, key in made | pooled), (False, key in there)) if has)
    return found, pooled


def _current(situation: Situation, component: str) -> set[tuple[str | None, bool]]:
    """(resource, whether the pool label is selected) of the component's running pods; a claim counts as no resource."""
    found: set[tuple[str | None, bool]] = set()
    for pod in situation.own:
        if pod.labels.get(COMPONENT_LABEL) == component and not pod.finished:
            pooled = "ragstow.dev/pool" in str(pod.spec.get("affinity") or "")
            asked = [name for container in pod.containers for name in container.limits if name.startswith("nvidia.com/")]
            found.add((asked[0] if asked else None, pooled))
    return found


def _add_claims(situation: Situation, service: Service, offered: Supply, sizer: Sizer, found: dict[str, Choices]) -> None:
    """Options to share one DRA claim: several pods on one device, nothing caps them."""
    for key, slot in offered.slots.items():
        if slot.mode != "dra" or not slot.alone or "dra" not in service.placement.sharing:
            continue
        if service.placement.products and slot.product not in service.placement.products:
            continue
        able: list[tuple[Component, ComponentSizing]] = []
        for component in service.components:
            if component.name in found and component.isolation == "none":
                summed = sizer.on(component, slot, shared=True)
                if summed is not None and not summed.refusals and summed.cards == 1:
                    able.append((component, summed))
        for group in _bundles(able, slot.memory_bytes, situation.facts):
            names = tuple(component.name for component, _ in group)
            for component, summed in group:
                made = found[component.name]
                option = Option(key, 1, need_bytes(summed, situation.facts), bundle=names)
                refused: dict[Mode, Reason] = {mode: reason for mode, reason in made.refused.items() if mode != "dra"}
                found[component.name] = Choices((*made.options, option), {**made.sizing, option: summed}, refused)


def _bundles(
    able: list[tuple[Component, ComponentSizing]], memory_bytes: int, facts: Facts
) -> Iterable[tuple[tuple[Component, ComponentSizing], ...]]:
    for number in range(2, min(len(able), _BUNDLE_MOST) + 1):
        for group in combinations(able, number):
            alike = len({component.replicas for component, _ in group}) == 1
            if alike and sum(need_bytes(summed, facts) for _, summed in group) <= memory_bytes:
                yield group


def _ordered(offered: Supply, made: Choices) -> Choices:
    def order(option: Option) -> tuple[int, int, int, str, bool, tuple[str, ...]]:
        slot = offered.slots[option.slot]
        return (
            MODE_ORDER.index(slot.mode), slot.sharers, slot.memory_bytes, slot.key, not option.pooled, option.bundle
        )  # fmt: skip

    return Choices(tuple(sorted(made.options, key=order)), made.sizing, made.refused)
