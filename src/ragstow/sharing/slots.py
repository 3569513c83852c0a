"""The slots that a node offers, kind by kind: what a pod gets that asks for one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ragstow.facts import Facts
from ragstow.facts.gpus import Memory
from ragstow.sharing.aftermath import Aftermath
from ragstow.sharing.devices import Device
from ragstow.sharing.host import Cut, Host

Mode = Literal["exclusive", "mig", "mps", "time-slicing", "dra"]
Isolation = Literal["none", "memory", "fault"]


@dataclass(frozen=True, slots=True)
class Slot:
    """A kind of slot that a node offers.

    `total` is how many, over `cards` cards; `sharers` how many pods may sit on the card or slice together (1: alone on it).
    `memory` is what CUDA lets a pod use when every other sharer uses all of its own; under time-slicing it is the whole card,
    since nothing caps. `cap_mib` is the enforced limit of one pod (the slice, or MPS), None where nothing enforces one.
    """

    mode: Mode
    isolation: Isolation
    resource: str | None
    profile: str | None
    total: int
    cards: int
    sharers: int
    memory: Memory
    cap_mib: int | None


def slots_of(after: Aftermath, host: Host, cuts: tuple[Cut, ...], facts: Facts) -> tuple[Slot, ...]:
    """Every kind of slot, in the order of resource names and profiles."""
    made: list[Slot] = []
    for resource, served in sorted(after.devices.items()):
        kinds: dict[str | None, list[tuple[Device, int]]] = {}
        for device, factors in served.groups.values():
            kinds.setdefault(_profile(device, cuts), []).append((device, max(factors, default=1)))
        names = sorted(kinds, key=lambda name: name or "")
        made += [_slot(after, host, resource, profile, kinds[profile], facts) for profile in names]
    return tuple(made)


def _profile(device: Device, cuts: tuple[Cut, ...]) -> str | None:
    card, colon, number = device.index.partition(":")
    if not colon:
        return None
    instances = [name for name, count in (cuts[int(card)] or {}).items() for _ in range(count)]
    return instances[int(number)]


def _slot(
    after: Aftermath, host: Host, resource: str, profile: str | None, devices: list[tuple[Device, int]], facts: Facts
) -> Slot:
    sharers = max(factor for _, factor in devices)
    total = sum(factor for _, factor in devices)
    cards = len({device.index.partition(":")[0] for device, _ in devices})
    memory, cap = whole_or_slice(host, profile, facts)
    mode: Mode = "exclusive" if profile is None else "mig"
    isolation: Isolation = "fault"
    if sharers > 1:
        mode, isolation = ("mps", "memory") if after.strategy == "mps" else ("time-slicing", "none")
        if mode == "mps":
            memory, cap = share_of(memory, sharers, after.cap_mib), after.cap_mib
            isolation = "memory" if cap is not None else "none"
        else:
            cap = None
    return Slot(mode, isolation, resource, profile, total, cards, sharers, memory, cap)


def whole_or_slice(host: Host, profile: str | None, facts: Facts) -> tuple[Memory, int | None]:
    """The memory of a slice of this profile, and that it is a limit; of a whole card without one."""
    geometry = facts.mig.of(host.gpus[0]) if profile is not None else None
    known = geometry.profile(profile) if geometry is not None and profile is not None else None
    return (known.memory, known.memory.mib) if known is not None else (card_memory(host, facts), None)


def share_of(card: Memory, replicas: int, cap_mib: int | None) -> Memory:
    """The memory of one of `replicas` equal MPS shares: what the daemon allows, and no more than its part of what CUDA sees.

    The CUDA context of a pod comes out of it: what a component takes beside its engine's budget counts too.
    """
    most = cap_mib if cap_mib is not None else card.band_mib[1]
    low, high = card.band_mib[0] // replicas, card.band_mib[1] // replicas
    return Memory(min(card.mib // replicas, most), (min(low, most), min(high, most)), card.measured, card.source)


def card_memory(host: Host, facts: Facts) -> Memory:
    """What CUDA sees of one whole card of the node; of several products the smallest."""
    known = [facts.gpus.visible(gpu, host.label_mib) for gpu in host.gpus if gpu.kind != "display"]
    return min(known, key=lambda memory: memory.mib)


def by_resource(slots: tuple[Slot, ...]) -> Mapping[str | None, tuple[Slot, ...]]:
    """The slots of each resource; several where one name stands for several profiles."""
    found: dict[str | None, tuple[Slot, ...]] = {}
    for slot in slots:
        found[slot.resource] = (*found.get(slot.resource, ()), slot)
    return found
