"""What a node's cards are to the planner: product, memory that CUDA sees, MIG geometry; or the reason why that is unknown."""

from __future__ import annotations

from dataclasses import dataclass

from ragstow.errors import Reason
from ragstow.facts import Facts
from ragstow.facts.gpus import Gpu
from ragstow.facts.mig import Geometry, MigProfile
from ragstow.inventory.model import NodeGpus

MIB = 2**20


@dataclass(frozen=True, slots=True)
class CardFacts:
    """The cards of a node (they are alike, as far as its labels say). `label_mib` is what the driver says a card has."""

    product: str | None
    gpu: Gpu | None
    label_mib: int
    visible_bytes: int
    geometry: Geometry | None
    driver: str | None

    @property
    def compute_capability(self) -> tuple[int, int] | None:
        """Compute capability, None where the product is unknown."""
        return self.gpu.cc if self.gpu is not None else None

    def slice_bytes(self, profile: MigProfile) -> int:
        """Memory that a slice surely has: what was measured, else the low end of what is known."""
        memory = profile.memory
        return (memory.mib if memory.measured else memory.band_mib[0]) * MIB


def card_facts(node: NodeGpus, facts: Facts) -> CardFacts | Reason:
    """The cards of a node, or why nothing can be planned on them."""
    gpu = facts.gpus.find(node.product) if node.product else None
    label_mib = node.memory_mib_per_card
    if label_mib is None and gpu is not None:
        label_mib = facts.gpus.memory(gpu).mib
    if label_mib is None:
        if node.product is None:
            return Reason(
                "product-unknown",
                f"{node.name}: no label says what its cards are",
                f"--assume {node.name}=PRODUCT[:CARDS] names them",
            )
        return Reason("memory-unknown", f"{node.name}: the memory of {node.product} is not in the facts", "--facts adds a card")
    visible = facts.gpus.visible(gpu, label_mib) if gpu is not None else facts.gpus.visible_of_label(label_mib)
    geometry = facts.mig.of(gpu) if gpu is not None else None
    return CardFacts(node.product, gpu, label_mib, visible.mib * MIB, geometry, node.driver)
