"""CEL selectors of DRA claims: the device's own words for product and profile, as its driver publishes them."""

from __future__ import annotations

from ragstow.cluster import dra
from ragstow.plan.kinds import GPU_CLASS
from ragstow.plan.situation import Situation


def claim_selectors(situation: Situation, product: str | None, profile: str | None) -> tuple[str, ...]:
    """The expressions that a device must meet, all of them."""
    attribute = f"device.attributes['{GPU_CLASS}']"
    found: list[str] = []
    name = _product_name(situation, product)
    if name is not None:
        found.append(f"{attribute}.productName == '{name}'")
    if profile is not None:
        found.append(f"{attribute}.profile == '{profile}'")
    return tuple(found)


def _product_name(situation: Situation, product: str | None) -> str | None:
    """The name by which the driver publishes a product."""
    for item in dra.devices(situation.snapshot, GPU_CLASS):
        name = item.attributes.get("productName")
        if not isinstance(name, str):
            continue
        known = situation.facts.gpus.find(name)
        if (known.product if known is not None else "-".join(name.split())) == product:
            return name
    return None
