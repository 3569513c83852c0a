"""The kinds of slots that a node offers now, and those that it would offer after a change.

A `Kind` is a slot without the labels that steer pods to it. What a mode gives (isolation, caps, sharers) is INTERFACE 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ragstow.errors import Reason
from ragstow.inventory.model import NodeGpus
from ragstow.plan.cardfacts import MIB, CardFacts
from ragstow.plan.model import Mode

FULL_GPU = "nvidia.com/gpu"
SHARED_GPU = "nvidia.com/gpu.shared"
MIG_PREFIX = "nvidia.com/mig-"
GPU_CLASS, MIG_CLASS = "gpu.nvidia.com", "mig.nvidia.com"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of slot; the fields are those of `problem.Slot`. `device_class` is set for DRA."""

    mode: Mode
    resource: str | None
    product: str | None
    profile: str | None
    sharers: int
    memory_bytes: int
    alone: bool
    capped: bool
    isolation: str
    device_class: str | None = None

    @property
    def name(self) -> str:
        """What is the same on all nodes that offer it (memory may differ by driver)."""
        parts = [self.mode, self.product or "?"]
        if self.profile:
            parts.append(self.profile)
        if self.sharers > 1:
            parts.append(f"x{self.sharers}")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Offer:
    """Slots of one kind on a node: how many on each card (by index, as far as known), and how many are free in all."""

    kind: Kind
    by_card: tuple[int, ...]
    free: int


def whole(card: CardFacts, resource: str = FULL_GPU) -> Kind:
    """A whole card of the device plugin."""
    return Kind("exclusive", resource, card.product, None, 1, card.visible_bytes, True, True, "fault")


def slice_of(card: CardFacts, profile: str, *, single: bool = False, resource: str | None = None) -> Kind | None:
    """A MIG slice (strategy single: under the name of whole cards); None where the profile is unknown."""
    known = card.geometry.profile(profile) if card.geometry is not None else None
    if known is None:
        return None
    name = resource or (FULL_GPU if single else known.resource)
    return Kind("mig", name, card.product, known.name, 1, card.slice_bytes(known), False, True, "fault")


def time_slice(card: CardFacts, replicas: int, resource: str = SHARED_GPU) -> Kind:
    """A share by time-slicing: it sees the whole card and nothing limits it."""
    return Kind("time-slicing", resource, card.product, None, replicas, card.visible_bytes, False, False, "none")


def mps_share(card: CardFacts, replicas: int, resource: str = SHARED_GPU) -> Kind:
    """A share by MPS: the daemon limits it to the card's total by the number of shares (mps-control-daemon, daemon.go).

    The total is what the driver says, more than CUDA can hand out: no share can count on more than its part of the latter.
    """
    limit = min(card.label_mib // replicas * MIB, card.visible_bytes // replicas)
    return Kind("mps", resource, card.product, None, replicas, limit, False, True, "memory")


def device(card: CardFacts, profile: str | None = None) -> Kind | None:
    """A device of the DRA driver: a whole card or a MIG device."""
    if profile is None:
        return Kind("dra", None, card.product, None, 1, card.visible_bytes, True, True, "fault", GPU_CLASS)
    cut = slice_of(card, profile)
    if cut is None:
        return None
    return Kind("dra", None, card.product, cut.profile, 1, cut.memory_bytes, False, True, "fault", MIG_CLASS)


def offers(node: NodeGpus, card: CardFacts) -> list[Offer] | Reason:
    """What a node offers now, or why nothing of it can be used.

    Args:
        node: its inventory, without the service's own pods.
        card: its cards.
    """
    match node.sharing:
        case "exclusive":
            return [_plain(node, whole(card), 1)]
        case "time-slicing" | "mps":
            replicas = node.replicas or 1
            resource = _resource(node)
            kind = (mps_share if node.sharing == "mps" else time_slice)(card, replicas, resource)
            return [_plain(node, kind, replicas)]
        case "mig-mixed":
            return _mixed(node, card)
        case "mig-single":
            return _single(node, card)
        case "dra":
            return _dra(node, card)
        case "hami" | "kai":
            return Reason(
                "other-allocator",
                f"{node.name}: {node.sharing.upper()} hands out its cards, and ragstow plans for the device plugin and DRA",
            )
        case _:
            why = f" ({node.assumed[0]})" if node.assumed else ""
            return Reason("sharing-unknown", f"{node.name}: how its cards are shared is not in the data{why}")


def _resource(node: NodeGpus) -> str:
    renamed = node.resources.get(SHARED_GPU)
    return SHARED_GPU if renamed is not None and renamed.capacity else FULL_GPU


def _plain(node: NodeGpus, kind: Kind, per_card: int) -> Offer:
    use = node.resources.get(kind.resource or "")
    if use is None:
        return Offer(kind, (0,) * node.cards, 0)
    cards = max(node.cards, -(-use.allocatable // per_card))
    healthy = use.allocatable // per_card
    return Offer(kind, (per_card,) * healthy + (0,) * (cards - healthy), use.free)


def _mixed(node: NodeGpus, card: CardFacts) -> list[Offer]:
    found: list[Offer] = []
    by_card = _layout(node)
    full = node.resources.get(FULL_GPU)
    if full is not None and full.allocatable:
        uncut = tuple(int(cut is None) for cut in by_card) or (1,) * full.allocatable
        found.append(Offer(whole(card), uncut, full.free))
    for name, use in node.resources.items():
        if not name.startswith(MIG_PREFIX) or name.endswith(".shared") or not use.capacity:
            continue
        kind = slice_of(card, name.removeprefix(MIG_PREFIX), resource=name)
        if kind is None:
            continue
        # Where the layout is unknown every cut card may hold every slice: the most cards that can be touched.
        counts = tuple((cut or {}).get(kind.profile or "", 0) for cut in by_card) or (use.capacity,) * node.cards
        found.append(Offer(kind, counts, use.free))
    return found


def _single(node: NodeGpus, card: CardFacts) -> list[Offer] | Reason:
    use = node.resources.get(_resource(node))
    profiles = sorted({profile for group in node.layout for profile in group.mig or {}})
    if use is None or len(profiles) != 1 or node.replicas not in (None, 1):
        return Reason("slices-unknown", f"{node.name}: how its cards are cut, or shared on top of it, is not in the data")
    kind = slice_of(card, profiles[0], single=True, resource=_resource(node))
    if kind is None:
        return Reason("slices-unknown", f"{node.name}: profile {profiles[0]} of {card.product} is not in the facts")
    counts = tuple((cut or {}).get(profiles[0], 0) for cut in _layout(node))
    return [Offer(kind, counts, use.free)]


def _layout(node: NodeGpus) -> tuple[Mapping[str, int] | None, ...]:
    """The cut of each card by index; empty where the data do not tell."""
    cards: dict[int, Mapping[str, int] | None] = {}
    number = 0
    for group in node.layout:
        for index in group.cards if group.cards is not None else range(number, number + group.count):
            cards[index] = group.mig
        number += group.count
    return tuple(cards[index] for index in sorted(cards))


def _dra(node: NodeGpus, card: CardFacts) -> list[Offer]:
    held = {claim.device for claim in node.claims if claim.claim is not None}
    counts: dict[str | None, dict[int, int]] = {}
    free: dict[str | None, int] = {}
    for number, item in enumerate(node.devices):
        profile = item.profile if item.kind == "slice" else None
        index = item.card if item.card is not None else number
        counts.setdefault(profile, {})
        counts[profile][index] = counts[profile].get(index, 0) + 1
        free[profile] = free.get(profile, 0) + int(item.name not in held)
    cards = max([node.cards, *(index + 1 for by_card in counts.values() for index in by_card)])
    found = []
    for profile, by_card in counts.items():
        kind = device(card, profile)
        if kind is not None:
            found.append(Offer(kind, tuple(by_card.get(index, 0) for index in range(cards)), free[profile]))
    return found
