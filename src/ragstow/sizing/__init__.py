"""What a component needs of a card, term by term, with source and band; formulas and no cluster.

    size(component, slot, facts)          the slot is the component's own: what the engine will reserve there
    size_pinned(component, slot, facts)   the least budget, for a share or a small slice: independent of neighbours
    slot_of(gpu, facts, ...)              the slot that a whole card of this product is

Components without a GPU have no sizing (None). Nothing here decides where something goes.
"""

from __future__ import annotations

from ragstow.facts import Facts
from ragstow.facts.gpus import Gpu
from ragstow.sizing import tei, vllm
from ragstow.sizing.footprint import footprint
from ragstow.sizing.model import Budget, ComponentSizing, Slot, Term
from ragstow.sizing.resolve import resolve
from ragstow.spec.model import Component

__all__ = ["Budget", "ComponentSizing", "Slot", "Term", "size", "size_pinned", "slot_of"]

_MIB = 2**20


def size(component: Component, slot: Slot, facts: Facts) -> ComponentSizing | None:
    """The memory of one replica that has the slot to itself; None for a component that takes no GPU memory.

    On a shared slot (`slot.shared`) this is `size_pinned`: a fraction of memory that neighbours use as well means nothing.

    Raises:
        InputError: the facts do not know the model, the engine or a precision, or the model cannot be summed.
    """
    return _size(component, slot, facts, least=slot.shared)


def size_pinned(component: Component, slot: Slot, facts: Facts) -> ComponentSizing | None:
    """The least budget of one replica, with the cache pinned in bytes where the engine can; None as in `size`.

    Raises:
        InputError: as `size`.
    """
    return _size(component, slot, facts, least=True)


def slot_of(gpu: Gpu, facts: Facts, *, label_mib: int | None = None, shared: bool = False) -> Slot:
    """A whole card of a product.

    Args:
        gpu: the product.
        facts: its CUDA-visible memory.
        label_mib: what the node's label or driver says, where known.
        shared: whether neighbours may sit on the card.
    """
    return Slot(facts.gpus.visible(gpu, label_mib).mib * _MIB, gpu.product, gpu.cc, shared)


def _size(component: Component, slot: Slot, facts: Facts, *, least: bool) -> ComponentSizing | None:
    if component.gpu == "never":
        return None
    if component.footprint is not None:
        return footprint(component, component.footprint, slot)
    case = resolve(component, facts)
    if case.engine.sizing == "vllm":
        return vllm.pinned(case, slot, facts) if least else vllm.on_whole_slot(case, slot, facts)
    return tei.tei(case, slot, facts)
