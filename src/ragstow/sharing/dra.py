"""Mode dra: what claims give where the DRA driver hands out the cards.

Whole cards and MIG devices that exist are handed out by claims; sharing one device needs a claim that several pods name, or
feature gates of the driver that are off by default (driver documentation; KEP-4381).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from ragstow.errors import Reason
from ragstow.facts import Facts
from ragstow.facts.drivers import version
from ragstow.sharing.host import Host
from ragstow.sharing.slots import Slot, card_memory, share_of

Claim = Literal["card", "mig-device", "shared-claim", "time-slicing", "mps"]

SINCE = "1.34"
"""The release in which resource.k8s.io/v1 is served and on by default."""

_GATES = {"time-slicing": "TimeSlicingSettings", "mps": "MPSSupport"}


def dra(
    host: Host,
    claim: Claim,
    facts: Facts,
    *,
    kubernetes: str,
    gates: Collection[str] = (),
    profile: str | None = None,
    sharers: int = 1,
) -> Slot | Reason:
    """What one kind of claim gives on a node, or why it cannot be had there.

    Args:
        host: the node.
        claim: a whole card; an existing MIG device; one claim named by several pods; time-slicing or MPS set in a claim.
        facts: cards and MIG geometry.
        kubernetes: the release ("1.37", "v1.34.2").
        gates: feature gates of the driver that are on.
        profile: the MIG device's profile.
        sharers: pods that name one claim.
    """
    if host.server != "dra":
        return Reason(
            "dra-no-driver",
            f"on {host.name} no DRA driver hands out the cards",
            "install the DRA driver in the place of the device plugin",
        )
    if version(kubernetes.lstrip("v"))[:2] < version(SINCE):
        return Reason("dra-too-old", f"Kubernetes {kubernetes} is older than {SINCE}, which DRA for GPUs needs")
    gate = _GATES.get(claim)
    if gate is not None and gate not in gates:
        return Reason(
            "dra-gate-off", f"on {host.name} {claim} in a claim needs the driver's feature gate {gate}", f"enable {gate}"
        )
    whole = card_memory(host, facts)
    cards = len(host.gpus)
    if claim == "card":
        return Slot("dra", "fault", None, None, cards, cards, 1, whole, None)
    if claim == "mig-device":
        return _mig_device(host, profile, facts)
    if claim == "mps":
        cap = facts.gpus.memory(host.gpus[0]).mib // max(sharers, 1)
        return Slot("dra", "memory", None, None, cards, cards, sharers, share_of(whole, max(sharers, 1), cap), cap)
    return Slot("dra", "none", None, None, cards, cards, sharers, whole, None)


def _mig_device(host: Host, profile: str | None, facts: Facts) -> Slot | Reason:
    geometry = facts.mig.of(host.gpus[0])
    known = geometry.profile(profile) if geometry is not None and profile is not None else None
    if known is None:
        return Reason("mig-profile-unknown", f"{host.gpus[0].product} has no MIG profile {profile}")
    total = sum((cut or {}).get(known.name, 0) for cut in host.layout)
    if total == 0:
        return Reason(
            "dra-no-device",
            f"on {host.name} no MIG device {known.name} exists",
            "the driver publishes devices that exist when it starts",
        )
    cards = sum(bool((cut or {}).get(known.name)) for cut in host.layout)
    return Slot("dra", "fault", None, known.name, total, cards, 1, known.memory, known.memory.mib)
