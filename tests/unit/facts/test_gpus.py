"""Cards are found under every label they are seen with, and their memory is told apart: nominal, label, CUDA."""

from __future__ import annotations

import re

import pytest

from ragstow import facts
from ragstow.facts.gpus import Product, split_product
from ragstow.facts.mig import profile_gb

KNOWN = facts.load()


@pytest.mark.parametrize(
    ("label", "product"),
    [
        ("NVIDIA-L4", "NVIDIA-L4"),
        ("nvidia-l4", "NVIDIA-L4"),
        ("NVIDIA L4", "NVIDIA-L4"),
        ("NVIDIA-L4-SHARED", "NVIDIA-L4"),
        ("A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "NVIDIA-A100-SXM4-40GB"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb.me-SHARED", "NVIDIA-A100-SXM4-40GB"),
        ("NVIDIA-A100-SXM4-40GB-MIG-INVALID", "NVIDIA-A100-SXM4-40GB"),
        ("NVIDIA-V100-SXM2-32GB", "Tesla-V100-SXM2-32GB"),
        ("Tesla-T4-SHARED", "Tesla-T4"),
        ("NVIDIA-GH200-120GB", "NVIDIA-GH200-480GB"),
        (
            "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition-MIG-1g.24gb",
            "NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition",
        ),
    ],
)
def test_a_card_is_found_by_the_label_of_a_node(label: str, product: str) -> None:
    found = KNOWN.gpus.find(label)
    assert found is not None
    assert found.product == product


@pytest.mark.parametrize("label", ["", "NVIDIA-Graphics-Device", "NVIDIA-H100-SXM5-80GB", "NVIDIA-L4000"])
def test_a_label_that_no_card_has_is_unknown(label: str) -> None:
    assert KNOWN.gpus.find(label) is None


def test_no_two_cards_share_a_label_whatever_its_spelling() -> None:
    for row in KNOWN.gpus.rows:
        if row.kind != "slice":
            for name in (row.product, *row.aliases):
                assert KNOWN.gpus.find(name) is row, name


def test_a_product_label_is_taken_apart() -> None:
    assert split_product("X-MIG-1g.5gb.me-SHARED") == Product("X", "1g.5gb.me", True)
    assert split_product("X-SHARED") == Product("X", None, True)
    assert split_product("X-MIG-2g.10gb") == Product("X", "2g.10gb", False)
    assert split_product("X") == Product("X")


# sizing reference 1.7: label MiB and what CUDA was seen to report, GiB.
@pytest.mark.parametrize(
    ("product", "label_mib", "gib"),
    [
        ("NVIDIA-H100-80GB-HBM3", 81559, 79.19),
        ("NVIDIA-A100-SXM4-80GB", 81920, 79.25),
        ("NVIDIA-L40S", 46068, 44.42),
        ("NVIDIA-A10G", 23028, 22.06),
        ("Tesla-T4", 15360, 14.56),
        ("Tesla-V100-SXM2-32GB", 32768, 31.74),
        ("NVIDIA-GeForce-RTX-3090", 24576, 23.58),
        ("NVIDIA-H200", 143771, 139.81),
    ],
)
def test_cuda_sees_what_was_measured(product: str, label_mib: int, gib: float) -> None:
    gpu = KNOWN.gpus.find(product)
    assert gpu is not None
    assert gpu.memory_mib == label_mib
    seen = KNOWN.gpus.visible(gpu)
    assert seen.measured
    assert seen.mib == int(gib * 1024)
    assert KNOWN.gpus.visible(gpu, label_mib) == seen


def test_what_was_never_measured_is_estimated_and_says_so() -> None:
    gpu = KNOWN.gpus.find("NVIDIA-A30")
    assert gpu is not None
    seen = KNOWN.gpus.visible(gpu)
    assert not seen.measured
    assert seen.mib == 24576 - 461
    assert "estimated" in seen.source
    # Another driver says less on the label: CUDA sees less too, by as much.
    a100 = KNOWN.gpus.find("NVIDIA-A100-SXM4-40GB")
    assert a100 is not None
    older = KNOWN.gpus.visible(a100, 40537)
    assert not older.measured
    assert older.mib == KNOWN.gpus.visible(a100).mib - (40960 - 40537)


def test_the_rule_holds_on_every_measured_card_within_its_band() -> None:
    for gpu in KNOWN.gpus.cards:
        if gpu.cuda_visible_gib is None or gpu.memory_mib is None or "cuda_visible_gib" in gpu.unverified:
            continue
        low, high = KNOWN.gpus.visible_of_label(gpu.memory_mib).band_mib
        assert low - 12 <= gpu.cuda_visible_gib * 1024 <= high + 12, gpu.product


def test_the_memory_label_is_read_with_its_traps() -> None:
    assert KNOWN.gpus.label_mib("15360") == 15360
    assert KNOWN.gpus.label_mib("16106127360") == 15360
    assert KNOWN.gpus.label_mib("0") is None
    assert KNOWN.gpus.label_mib("many") is None


def test_what_is_not_verified_is_marked_on_the_row() -> None:
    h20 = KNOWN.gpus.find("NVIDIA-H20")
    assert h20 is not None
    assert "dense_bf16_tflops" in h20.unverified
    assert not KNOWN.gpus.visible(h20).measured


def test_every_mig_capable_card_has_a_geometry_and_every_geometry_a_card() -> None:
    used = {gpu.mig for gpu in KNOWN.gpus.cards if gpu.mig is not None}
    assert used == set(KNOWN.mig.geometries)
    for gpu in KNOWN.gpus.cards:
        if gpu.mig_capable:
            geometry = KNOWN.mig.of(gpu)
            assert geometry is not None
            assert gpu.memory_mib is None or geometry.card.label_mib == gpu.memory_mib


def test_a_product_row_of_a_slice_says_what_the_geometry_says() -> None:
    for row in KNOWN.gpus.rows:
        if row.kind != "slice":
            continue
        parts = split_product(row.product)
        gpu = KNOWN.gpus.find(parts.base)
        assert gpu is not None
        geometry = KNOWN.mig.of(gpu)
        assert geometry is not None
        assert parts.profile is not None
        profile = geometry.profile(parts.profile)
        assert profile is not None
        assert profile.memory.mib == row.memory_mib


def test_architecture_family_and_compute_capability_agree_with_the_architecture_table() -> None:
    for row in KNOWN.gpus.rows:
        found = KNOWN.drivers.architecture(row.compute_capability)
        assert found is not None, row.product
        assert found.family == row.family
        assert row.architecture.startswith(found.architecture)


def test_every_product_of_a_cloud_is_a_card() -> None:
    for row in KNOWN.clouds.gpus:
        assert KNOWN.gpus.find(row.product) is not None, row.product


def test_every_base_profile_of_a_geometry_is_named_by_its_slices_and_its_size_is_below_its_name() -> None:
    for name in KNOWN.mig.geometries:
        geometry = KNOWN.mig.geometry(name)
        assert geometry is not None
        for profile in geometry.profiles:
            assert re.match(rf"^{profile.slices}g\.", profile.name)
            gb = profile_gb(profile.name)
            assert gb is not None
            assert profile.memory.band_mib[0] < (gb + 0.5) * 1024
            assert profile.memory.band_mib[0] <= profile.memory.mib <= profile.memory.band_mib[1]
            assert all(start + profile.size <= geometry.card.memory_slices for start in profile.starts)
