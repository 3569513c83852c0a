"""MIG names and layouts, driver minimums and cloud habits as the reference has them."""

from __future__ import annotations

import pytest

from ragstow import facts
from ragstow.facts.mig import Geometry

KNOWN = facts.load()


def geometry(product: str) -> Geometry:
    gpu = KNOWN.gpus.find(product)
    assert gpu is not None
    found = KNOWN.mig.of(gpu)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("product", "profile", "mib", "measured"),
    [
        ("NVIDIA-A100-SXM4-40GB", "1g.5gb", 4864, True),
        ("NVIDIA-H100-80GB-HBM3", "1g.10gb", 9984, True),
        ("NVIDIA-H100-NVL", "1g.12gb", 11008, True),
        ("NVIDIA-H200", "1g.18gb", 16384, True),
        ("NVIDIA-A30", "4g.24gb", 24064, True),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "2g.48gb", 48517, True),
        ("NVIDIA-H200", "1g.35gb", 33280, False),  # as 2g.35gb, which has the same memory slices
        ("NVIDIA-B200", "1g.23gb", 183359 // 8, False),
    ],
)
def test_a_slice_has_its_measured_memory_or_an_upper_bound_that_says_so(
    product: str, profile: str, mib: int, measured: bool
) -> None:
    found = geometry(product).profile(profile)
    assert found is not None
    assert found.memory.mib == mib
    assert found.memory.measured is measured
    if not measured:
        assert found.memory.band_mib[1] - found.memory.band_mib[0] > 1000


@pytest.mark.parametrize(
    ("product", "profile", "resource", "layout", "count"),
    [
        ("NVIDIA-A100-SXM4-40GB", "1g.5gb", "nvidia.com/mig-1g.5gb", "all-1g.5gb", 7),
        ("NVIDIA-A100-SXM4-40GB", "1g.10gb", "nvidia.com/mig-1g.10gb", "all-1g.10gb", 4),
        ("NVIDIA-A100-SXM4-80GB", "1g.10gb", "nvidia.com/mig-1g.10gb", "all-1g.10gb", 7),
        ("NVIDIA-A100-SXM4-80GB", "1g.10gb+me", "nvidia.com/mig-1g.10gb.me", "all-1g.10gb.me", 1),
        (
            "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
            "1g.24gb+me.all",
            "nvidia.com/mig-1g.24gb.me.all",
            "all-1g.24gb.me.all",
            1,
        ),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "1g.24gb-me", "nvidia.com/mig-1g.24gb-me", "all-1g.24gb-me", 4),
        ("NVIDIA-GB300", "1g.35gb", "nvidia.com/mig-1g.35gb", "all-1g.35gb", 7),
        ("NVIDIA-H200", "1g.35gb", "nvidia.com/mig-1g.35gb", "all-1g.35gb", 4),
    ],
)
def test_resource_and_layout_names(product: str, profile: str, resource: str, layout: str, count: int) -> None:
    found = geometry(product)
    known = found.profile(profile)
    assert known is not None
    assert known.resource == resource
    assert found.default_layouts[layout] == {known.name: count}


def test_layouts_that_mig_parted_does_not_have_are_not_promised() -> None:
    assert "all-1g.35gb" not in geometry("NVIDIA-H200-NVL").default_layouts
    assert list(geometry("NVIDIA-RTX-PRO-5000-Blackwell").default_layouts) == ["all-disabled", "all-enabled"]
    assert geometry("NVIDIA-H100-80GB-HBM3").default_layouts["all-balanced"] == {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}
    assert geometry("NVIDIA-A30").default_layouts["all-balanced"] == {"1g.6gb": 2, "2g.12gb": 1}


def test_a_geometry_is_found_by_pci_id_and_an_older_profile_name() -> None:
    found = KNOWN.mig.by_pci("0x20B010DE")
    assert found is not None
    assert found.card.geometry == geometry("NVIDIA-A100-SXM4-40GB").card.geometry
    assert KNOWN.mig.by_pci("0x27B810DE") is None
    seven = geometry("NVIDIA-A100-SXM4-80GB").profile("7g.79gb")
    assert seven is not None
    assert seven.name == "7g.80gb"


@pytest.mark.parametrize(
    ("cuda", "least", "shipped"),
    [("11.8", "450.80.02", "520.61.05"), ("12.8", "525.60.13", "570.26"), ("13.0", "580.65.06", "580.65.06")],
)
def test_driver_minimums(cuda: str, least: str, shipped: str) -> None:
    assert KNOWN.drivers.minimum_driver(cuda) == least
    assert KNOWN.drivers.minimum_driver(cuda, all_features=True) == shipped


def test_what_a_driver_runs_and_where_an_architecture_ends() -> None:
    assert KNOWN.drivers.cuda_of("580.95.05") == "13.0"
    assert KNOWN.drivers.cuda_of("535.161.08") == "12.2"
    assert KNOWN.drivers.cuda_of("999.1") is None
    volta = KNOWN.drivers.architecture("7.0")
    assert volta is not None
    assert (volta.last_cuda_major, volta.last_driver_branch) == (12, "580")


def test_a_cloud_is_known_by_its_nodes() -> None:
    clouds = KNOWN.clouds
    gke = clouds.of_node({"cloud.google.com/gke-nodepool": "l4"})
    assert gke is not None
    assert gke.plugin_managed
    assert gke.max_shared_clients == 48
    assert clouds.product({"cloud.google.com/gke-accelerator": "nvidia-l4"}) == "NVIDIA-L4"
    assert clouds.product({"cloud.google.com/gke-accelerator": "something-new"}) is None
    k3s = clouds.of_node({}, kubelet_version="v1.35.3+k3s1")
    assert k3s is not None
    assert k3s.runtime_class == "nvidia"
    assert clouds.of_node({"a": "b"}) is None


def test_a_name_that_two_cards_have_is_told_apart_by_memory() -> None:
    name, memory = "karpenter.k8s.aws/instance-gpu-name", "karpenter.k8s.aws/instance-gpu-memory"
    assert KNOWN.clouds.product({name: "a100", memory: "40960"}) == "NVIDIA-A100-SXM4-40GB"
    assert KNOWN.clouds.product({name: "a100", memory: "81920"}) == "NVIDIA-A100-SXM4-80GB"
    assert KNOWN.clouds.product({name: "a100"}) is None
    assert KNOWN.clouds.product({name: "l4", memory: "22888"}) == "NVIDIA-L4"
