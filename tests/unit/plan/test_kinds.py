"""What a pod may count on in a slot."""

from __future__ import annotations

import pytest

from ragstow import facts
from ragstow.plan.cardfacts import CardFacts
from ragstow.plan.kinds import mps_share

GIB = 2**30
FACTS = facts.load()


@pytest.mark.parametrize(
    ("product", "label_mib", "visible_gib"), [("NVIDIA-L40S", 46068, 44.42), ("NVIDIA-A10G", 23028, 22.06)]
)
@pytest.mark.parametrize("replicas", [2, 3, 4])
def test_mps_shares_of_a_card_fit_it_together(product: str, label_mib: int, visible_gib: float, replicas: int) -> None:
    """The daemon's limits add up to the label's memory, of which CUDA hands out less (public measurements)."""
    gpu = FACTS.gpus.find(product)
    assert gpu is not None
    card = CardFacts(product, gpu, label_mib, FACTS.gpus.visible(gpu, label_mib).mib * 2**20, None, None)
    share = mps_share(card, replicas).memory_bytes
    assert replicas * share <= visible_gib * GIB * 1.001
    assert share >= 0.99 * visible_gib * GIB / replicas
