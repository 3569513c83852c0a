"""`nvidia-smi -L`: names and UUIDs of cards and MIG devices.

UUIDs of MIG devices are `MIG-<uuid>` since R470 and `MIG-GPU-<uuid of the card>/<gpu instance>/<compute instance>` before;
those of integrated GPUs have no prefix.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ragstow.verification.smi import values
from ragstow.verification.smi.model import Card, Reading, Slice

_CARD = re.compile(r"^\s*GPU\s+(?P<index>\d+):\s*(?P<name>.*?)\s*(?:\(UUID:\s*(?P<uuid>[^)\s]+)\s*\))?\s*$")
_SLICE = re.compile(r"^\s*MIG\s+(?P<profile>\S+)\s+Device\s+(?P<number>\d+):\s*\(UUID:\s*(?P<uuid>[^)\s]+)\s*\)")
_OLD = re.compile(r"^MIG-GPU-[^/]+/(\d+)/(\d+)$")


def read(text: str) -> Reading:
    """The reading of a listing; without cards where the text holds none, with the reason as its failure."""
    cards: list[Card] = []
    for line in text.splitlines():
        slice_ = _SLICE.match(line)
        if slice_ is not None and cards:
            old = _OLD.match(slice_["uuid"])
            made = Slice(
                number=int(slice_["number"]),
                profile=slice_["profile"],
                uuid=slice_["uuid"],
                gpu_instance=int(old[1]) if old else None,
                compute_instance=int(old[2]) if old else None,
            )
            cards[-1] = replace(cards[-1], slices=(*cards[-1].slices, made), mig=True)
            continue
        card = _CARD.match(line)
        if card is not None and not values.lost(line):
            broken = values.fault(card["name"]) or values.fault(card["uuid"] or "")
            cards.append(
                Card(
                    int(card["index"]),
                    name=values.known(card["name"]),
                    uuid=values.known(card["uuid"] or ""),
                    faults=(f"{broken} in the list of devices",) if broken else (),
                )
            )
    return Reading(cards=tuple(cards), faults=values.lost(text), failure=None if cards else values.failure(text))
