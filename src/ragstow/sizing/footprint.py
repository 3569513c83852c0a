"""A component whose memory the user measured: one term, taken as it is."""

from __future__ import annotations

from ragstow.sizing.model import ComponentSizing, Slot, Term
from ragstow.sizing.units import mib
from ragstow.spec.model import Component, Footprint


def footprint(component: Component, given: Footprint, slot: Slot) -> ComponentSizing:
    """The sum of one term that the user gave: what nvidia-smi shows per card at the peak, CUDA context included."""
    bytes_ = mib(given.memory_mib)
    return ComponentSizing(
        name=component.name,
        engine=component.engine,
        version=component.version,
        gpu=slot.product,
        cards=given.cards,
        capacity_bytes=slot.visible_bytes,
        terms=(Term("footprint", bytes_, "footprint of the spec, measured by the user", (bytes_, bytes_), "footprint"),),
        weights_bytes=0,
        kv_cache_bytes=0,
        kv_tokens=0,
        kv_bytes_per_request=0,
        budget_bytes=bytes_,
        total_bytes=bytes_,
        band=(bytes_, bytes_),
        validated=True,
        minimum_bytes=bytes_,
        notes=("as measured by the user; ragstow adds nothing and checks nothing",),
    )
