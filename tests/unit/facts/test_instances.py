"""Instance types: each names a card that the cards table has, and what is left to pods is less than the whole."""

from __future__ import annotations

from ragstow import facts


def test_every_instance_has_a_known_card_and_plausible_room() -> None:
    known = facts.load()
    for row in known.instances.rows:
        assert known.gpus.find(row.product) is not None, row
        assert known.clouds.get(row.cloud) is not None, row
        assert row.allocatable_cpu_milli is None or row.allocatable_cpu_milli < row.cpu * 1000
        assert row.allocatable_memory_mib is None or row.allocatable_memory_mib < row.memory_mib


def test_known_instance() -> None:
    # Karpenter's reference for this type: 191450m CPU, 1938410 MiB, 100 pods, 8 cards.
    row = facts.load().instances.find("p5.48xlarge")
    assert row is not None
    assert (row.cards, row.allocatable_cpu_milli, row.allocatable_memory_mib, row.pods) == (8, 191450, 1938410, 100)
