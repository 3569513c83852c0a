"""The GPUs of a node that the DRA driver serves: here the API says which device each claim holds.

Devices come from ResourceSlices, holders from the allocations of ResourceClaims; a pod that asks for an extended resource and
got its device by a claim (KEP-5004) is a holder as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ragstow.cluster.dra import Claim, DeviceId, PublishedDevice, claims, devices
from ragstow.cluster.snapshot import Snapshot
from ragstow.facts.gpus import Gpus
from ragstow.inventory.model import Device, DeviceClaim

_CARD = re.compile(r"gpu-([0-9]+)(?:-mig-.*)?")
_WHOLE, _SLICE = "gpu", "mig"


@dataclass(frozen=True, slots=True)
class DraNode:
    """What the driver publishes for a node, and who holds it; `cards` counts physical cards, cut ones too."""

    cards: int
    cards_free: int
    product: str | None
    products: Mapping[str, int]
    memory_mib: int | None
    driver: str | None
    cuda: str | None
    claims: tuple[DeviceClaim, ...]
    devices: tuple[Device, ...]


class Dra:
    """The devices of one GPU driver over the whole cluster, by node; made once for a snapshot."""

    def __init__(self, snapshot: Snapshot, driver: str, gpus: Gpus) -> None:
        self.driver = driver
        self._gpus = gpus
        self._by_node: dict[str, list[PublishedDevice]] = {}
        for device in devices(snapshot, driver):
            if device.node is not None and device.attributes.get("type", _WHOLE) in (_WHOLE, _SLICE):
                self._by_node.setdefault(device.node, []).append(device)
        self._holders: dict[DeviceId, list[Claim]] = {}
        for claim in claims(snapshot):
            for held in claim.devices:
                self._holders.setdefault(held, []).append(claim)

    def node(self, name: str) -> DraNode | None:
        """The GPUs of a node, or None where the driver publishes none there."""
        published = self._by_node.get(name)
        if not published:
            return None
        # Devices of a partitioned card exclude each other: of those only the whole card and what is held are slots.
        shown = [
            item
            for item in published
            if not item.partition or item.attributes.get("type") != _SLICE or item.id in self._holders
        ]
        held_cards = {self._card_key(item) for item in published if item.id in self._holders}
        shown = [
            item for item in shown if not item.partition or item.id in self._holders or self._card_key(item) not in held_cards
        ]
        cards: dict[str, PublishedDevice] = {}
        for item in published:
            cards.setdefault(self._card_key(item), item)
        products = Counter(product for item in cards.values() if (product := self._product(item)) is not None)
        whole = next((item for item in published if item.attributes.get("type", _WHOLE) == _WHOLE), None)
        first = published[0]
        return DraNode(
            cards=len(cards),
            cards_free=len(cards.keys() - held_cards),
            product=min(products, key=lambda product: (-products[product], product)) if products else None,
            products=dict(sorted(products.items())),
            memory_mib=self._memory(whole) if whole is not None else None,
            driver=_text(first.attributes.get("driverVersion")),
            cuda=_minor(_text(first.attributes.get("cudaDriverVersion"))),
            claims=tuple(claim for item in shown for claim in self._claims(item)),
            devices=tuple(self._device(item) for item in shown),
        )

    def _claims(self, device: PublishedDevice) -> list[DeviceClaim]:
        card = card_index(device.id.device)
        holders = self._holders.get(device.id, [])
        return [DeviceClaim(device.id.device, card, claim.key, tuple(sorted(claim.pods))) for claim in holders] or [
            DeviceClaim(device.id.device, card)
        ]

    def _device(self, device: PublishedDevice) -> Device:
        is_slice = device.attributes.get("type") == _SLICE
        return Device(
            card=card_index(device.id.device),
            kind="slice" if is_slice else "card",
            product=self._product(device),
            memory_mib=self._memory(device),
            profile=_text(device.attributes.get("profile")) if is_slice else None,
            uuid=_text(device.attributes.get("uuid")),
            name=device.id.device,
            holders=tuple(sorted({pod for claim in self._holders.get(device.id, []) for pod in claim.pods})),
            known=True,
        )

    def _product(self, device: PublishedDevice) -> str | None:
        name = _text(device.attributes.get("productName"))
        if name is None:
            return None
        found = self._gpus.find(name)
        return found.product if found is not None else re.sub(r"\s+", "-", name.strip())

    def _memory(self, device: PublishedDevice) -> int | None:
        memory = device.capacity.get("memory")
        return memory >> 20 if memory else None

    def _card_key(self, device: PublishedDevice) -> str:
        index = card_index(device.id.device)
        return (
            f"card {index}"
            if index is not None
            else str(device.attributes.get("parentUUID") or device.attributes.get("uuid") or device.id.device)
        )


def card_index(device: str) -> int | None:
    """The card in a device's name ("gpu-3", "gpu-3-mig-3g40gb-9-0"); None where the name does not say."""
    match = _CARD.fullmatch(device)
    return int(match[1]) if match else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _minor(version: str | None) -> str | None:
    """13.2 of 13.2.0, as the labels write it."""
    return None if version is None else ".".join(version.split(".")[:2])
