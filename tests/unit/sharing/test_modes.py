"""What each mode gives and denies, and the reason where it is impossible: from the reference, not from the code."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ragstow.errors import Reason
from ragstow.sharing import dra, migmode, modes, verdict
from ragstow.sharing.modes import Given
from ragstow.sharing.pluginfile import mig_parted_file, text_of
from ragstow.sharing.slots import Slot
from sharing_hosts import KNOWN, card, gpu_resources, host, node, recorded


def given(answer: Given | Reason) -> Given:
    assert isinstance(answer, Given), answer
    return answer


def refused(answer: object) -> Reason:
    assert isinstance(answer, Reason), answer
    return answer


def test_time_slicing_caps_nothing_and_gives_shares_a_name_of_their_own() -> None:
    made = given(modes.time_slicing(host("NVIDIA-L4", 2), 4, KNOWN))
    (slot,) = made.slots
    assert (made.isolation, slot.isolation) == ("none", "none")
    assert (slot.resource, slot.total, slot.cards, slot.sharers) == ("nvidia.com/gpu.shared", 8, 2, 4)
    assert slot.cap_mib is None
    # The whole card, as CUDA sees it: 22.06 GiB of the label's 23034 MiB.
    assert slot.memory.mib == int(22.06 * 1024)
    assert made.after.resources == {"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 8}
    assert made.labels_to_set == {"nvidia.com/device-plugin.config": "time-slicing-4"}
    assert any("nvidia.com/gpu is no longer offered" in effect for effect in made.side_effects)


def test_without_a_new_name_the_product_label_changes_and_others_may_land_there() -> None:
    before = host("NVIDIA-L4", labels={"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.memory": "23034"})
    made = given(modes.time_slicing(before, 4, KNOWN, rename=False))
    assert made.after.resources == {"nvidia.com/gpu": 4}
    assert made.after.labels["nvidia.com/gpu.product"] == "NVIDIA-L4-SHARED"
    assert made.after.labels["nvidia.com/gpu.memory"] == "23034"
    assert made.after.labels["nvidia.com/gpu.replicas"] == "4"
    assert any("becomes NVIDIA-L4-SHARED" in effect for effect in made.side_effects)
    renamed = given(modes.time_slicing(before, 4, KNOWN))
    assert renamed.after.labels["nvidia.com/gpu.product"] == "NVIDIA-L4"


def test_mps_caps_memory_at_an_equal_part_of_the_label() -> None:
    made = given(modes.mps(host("NVIDIA-L4", 1), 4, KNOWN))
    (slot,) = made.slots
    assert made.isolation == "memory"
    assert slot.cap_mib == 23034 // 4 == 5758
    # Four caps are more than CUDA sees: what a pod may count on is a quarter of that.
    assert slot.memory.mib == int(22.06 * 1024) // 4
    assert made.after.labels["nvidia.com/mps.capable"] == "true"
    assert any("EXCLUSIVE_PROCESS" in effect for effect in made.side_effects)


@pytest.mark.parametrize(("product", "most"), [("Tesla-T4", 48), ("NVIDIA-H200", 48), ("Tesla-V100-SXM2-32GB", 16)])
def test_mps_takes_so_many_clients_and_no_more(product: str, most: int) -> None:
    assert isinstance(modes.mps(host(product), most, KNOWN), Given)
    assert refused(modes.mps(host(product), most + 1, KNOWN)).code == "mps-too-many"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (modes.mps(host("NVIDIA-L4", gfd=False), 2, KNOWN), "mps-needs-gfd"),
        (modes.mps(host("Tesla-P100-PCIE-16GB"), 2, KNOWN), "mps-not-limited"),
        (modes.mps(host("NVIDIA-GB10"), 2, KNOWN), "mps-unified-memory"),
        (modes.mps(host("NVIDIA-A30", 2, cuts=({"1g.6gb": 4}, None)), 2, KNOWN), "mps-mig-on"),
        (modes.time_slicing(host("NVIDIA-A30", 2, cuts=({}, None)), 2, KNOWN), "time-slicing-mig-on"),
        (modes.mps(host("NVIDIA-A30", env={"MIG_STRATEGY": "mixed"}), 2, KNOWN), "plugin-refuses"),
        (modes.time_slicing(host("NVIDIA-L4"), 1, KNOWN), "replicas-too-few"),
        (modes.time_slicing(host("NVIDIA-L4", server="hami"), 2, KNOWN), "time-slicing-not-here"),
        (modes.time_slicing(host("NVIDIA-L4", server="dra"), 2, KNOWN), "time-slicing-not-here"),
        (modes.exclusive(host("NVIDIA-L4", server="none"), KNOWN), "exclusive-not-here"),
        (modes.exclusive(host("NVIDIA-L4", 0), KNOWN), "no-gpu"),
        (migmode.mig(host("NVIDIA-L4"), [{"1g.5gb": 1}], KNOWN), "mig-not-capable"),
        (migmode.mig(host("NVIDIA-H100-PCIe", driver="470.57.02"), [{"1g.10gb": 1}], KNOWN), "mig-driver-too-old"),
        (
            migmode.mig(host("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", driver="575.57.08"), [{"1g.24gb": 1}], KNOWN),
            "mig-driver-broken",
        ),
        (migmode.mig(host("NVIDIA-A100-SXM4-40GB", driver="510.47.03"), [{"1g.10gb": 1}], KNOWN), "mig-profile-driver"),
        (migmode.mig(host("NVIDIA-A100-SXM4-40GB"), [{"1g.6gb": 1}], KNOWN), "mig-profile-unknown"),
        (migmode.mig(host("NVIDIA-A100-SXM4-40GB"), [{"3g.20gb": 2, "1g.5gb": 1}], KNOWN), "mig-layout-illegal"),
        (migmode.mig(host("NVIDIA-A100-SXM4-40GB"), [None, None], KNOWN), "mig-layout-cards"),
        (migmode.mig(host("NVIDIA-H200", 2, driver="570.133.20"), [None, {"7g.141gb": 1}], KNOWN), "mig-driver-fault"),
        (
            migmode.mig(host("NVIDIA-A100-SXM4-40GB", env={"MIG_STRATEGY": "single"}), [{}], KNOWN, strategy="mixed"),
            "mig-strategy-fixed",
        ),
        (
            migmode.mig(
                dataclasses.replace(host("NVIDIA-A30", 2), gpus=(card("NVIDIA-A30"), card("NVIDIA-L4"))), [None, None], KNOWN
            ),
            "mig-several-products",
        ),
    ],
)
def test_a_mode_that_is_impossible_there_has_a_reason(answer: Given | Reason, code: str) -> None:
    reason = refused(answer)
    assert reason.code == code
    assert "n1" in reason.text or code.startswith("mig-profile-unknown")


def test_a_cloud_that_runs_the_plugin_itself_is_taken_as_it_is() -> None:
    gke = KNOWN.clouds.get("gke")
    assert gke is not None
    labels = {
        "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing",
        "cloud.google.com/gke-max-shared-clients-per-gpu": "4",
    }
    there = host("NVIDIA-L4", 1, server="cloud", cloud=gke, gfd=False, labels=labels, resources={"nvidia.com/gpu": 4})
    reason = refused(modes.mps(there, 2, KNOWN))
    assert "gpu-sharing-strategy" in reason.hint
    assert "gpu-partition-size" in refused(migmode.mig(there, [{}], KNOWN)).hint
    now = given(modes.present(there, KNOWN))
    (slot,) = now.slots
    assert (now.mode, slot.resource, slot.total, slot.sharers, slot.cap_mib) == ("time-slicing", "nvidia.com/gpu", 4, 4, None)
    whole = given(modes.present(dataclasses.replace(there, labels={}, resources={"nvidia.com/gpu": 1}), KNOWN))
    assert (whole.mode, whole.slots[0].sharers, whole.isolation) == ("exclusive", 1, "fault")


def test_mig_mixed_gives_each_profile_its_resource_with_measured_memory() -> None:
    there = host("NVIDIA-H100-80GB-HBM3", 2, env={"MIG_STRATEGY": "mixed"}, mig_manager=True, install="operator")
    made = given(migmode.mig(there, [None, {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}], KNOWN))
    assert made.after.resources == {
        "nvidia.com/gpu": 1,
        "nvidia.com/mig-1g.10gb": 2,
        "nvidia.com/mig-2g.20gb": 1,
        "nvidia.com/mig-3g.40gb": 1,
    }
    memory = {slot.profile: slot.memory.mib for slot in made.slots}
    assert memory["1g.10gb"] == 9984
    assert memory["3g.40gb"] == 40320
    assert {slot.isolation for slot in made.slots} == {"fault"}
    assert made.after.labels["nvidia.com/mig-1g.10gb.product"] == "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"
    assert made.after.labels["nvidia.com/mig-1g.10gb.memory"] == "9984"
    # What facts cannot know is not promised.
    assert not any("engines" in key for key in made.after.labels)
    # The cards differ, so no default layout of mig-parted does it; cutting every card in balance has one.
    assert "nvidia.com/mig.config" not in made.labels_to_set
    balanced = given(migmode.mig(there, [{"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}] * 2, KNOWN))
    assert balanced.labels_to_set["nvidia.com/mig.config"] == "all-balanced"


def test_mig_single_shows_slices_as_whole_cards_and_wants_them_all_alike() -> None:
    there = host("NVIDIA-A100-SXM4-40GB", 2, env={"MIG_STRATEGY": "single"}, mig_manager=True)
    made = given(migmode.mig(there, [{"1g.5gb": 7}] * 2, KNOWN))
    (slot,) = made.slots
    assert (slot.resource, slot.profile, slot.total, slot.memory.mib) == ("nvidia.com/gpu", "1g.5gb", 14, 4864)
    assert made.after.labels["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"
    assert made.labels_to_set["nvidia.com/mig.config"] == "all-1g.5gb"
    assert any("resets card 0, 1" in effect for effect in made.side_effects)
    for cuts in ([{"1g.5gb": 7}, None], [{"1g.5gb": 7}, {"2g.10gb": 3}], [{"1g.5gb": 7}, {}]):
        assert "mixed does not" in refused(migmode.mig(there, cuts, KNOWN)).hint


def test_strategy_none_becomes_mixed_and_says_so() -> None:
    made = given(migmode.mig(host("NVIDIA-H200"), [{"1g.18gb": 7}], KNOWN))
    assert made.config == {"version": "v1", "flags": {"migStrategy": "mixed"}}
    assert any("MIG strategy becomes mixed" in effect for effect in made.side_effects)
    assert any("by hand" in note for note in made.notes)
    assert made.slots[0].memory.mib == 16384


def test_a_size_never_measured_is_an_upper_bound_with_a_band_and_no_label_is_promised() -> None:
    made = given(migmode.mig(host("NVIDIA-B200", env={"MIG_STRATEGY": "mixed"}), [{"1g.23gb": 7}], KNOWN))
    (slot,) = made.slots
    assert not slot.memory.measured
    assert slot.memory.band_mib[0] < slot.memory.band_mib[1] == slot.memory.mib
    assert "nvidia.com/mig-1g.23gb.memory" not in made.after.labels
    assert made.after.labels["nvidia.com/mig-1g.23gb.count"] == "7"
    assert any("assumed" in note for note in made.notes)


@pytest.mark.parametrize("name", KNOWN.mig.geometries)
def test_every_profile_keeps_its_name_through_the_plugins_model(name: str) -> None:
    product = next(gpu.product for gpu in KNOWN.gpus.cards if gpu.mig == name)
    geometry = KNOWN.mig.geometry(name)
    assert geometry is not None
    for profile in geometry.profiles:
        made = given(migmode.mig(host(product, driver="999.1"), [{profile.name: 1}], KNOWN))
        assert made.after.resources[profile.resource] == 1
        assert [slot.profile for slot in made.slots] == [profile.name]


def test_other_flags_of_the_file_are_kept() -> None:
    config = (
        "version: v1\nflags: {plugin: {passDeviceSpecs: true}}\n"
        "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 3}]}}\n"
    )
    made = given(modes.mps(host("NVIDIA-L4", config=config, env={"MPS_ROOT": "/run/nvidia/mps"}), 2, KNOWN))
    assert made.config is not None
    assert made.config["flags"] == {"plugin": {"passDeviceSpecs": True}}
    assert verdict.plugin(text_of(made.config), env={"MPS_ROOT": "/run/nvidia/mps"}).accepted
    without = given(modes.mps(host("NVIDIA-L4"), 2, KNOWN))
    assert without.config is not None
    assert without.config["flags"] == {"mpsRoot": "/run/nvidia/mps"}


def test_the_present_configuration_is_described_by_the_same_model() -> None:
    config = (
        "version: v1\nflags: {migStrategy: mixed}\nsharing: {timeSlicing: {resources: [{name: mig-1g.5gb, replicas: 2}]}}\n"
    )
    there = host("NVIDIA-A100-SXM4-40GB", 2, config=config, cuts=(None, {"1g.5gb": 3, "3g.20gb": 1}))
    now = given(modes.present(there, KNOWN))
    assert [(slot.resource, slot.profile, slot.total, slot.sharers, slot.isolation) for slot in now.slots] == [
        ("nvidia.com/gpu", None, 1, 1, "fault"),
        ("nvidia.com/mig-1g.5gb", "1g.5gb", 6, 2, "none"),
        ("nvidia.com/mig-3g.20gb", "3g.20gb", 1, 1, "fault"),
    ]


def test_nothing_changes_where_the_wish_is_what_is() -> None:
    made = given(modes.exclusive(recorded("01-device-plugin-bare-metal", "a100-1"), KNOWN))
    assert made.side_effects == ()
    assert made.after.resources == {"nvidia.com/gpu": 4}


def test_labels_after_time_slicing_are_those_of_the_recorded_node() -> None:
    """One recorded node is exclusive, its neighbour is shared by four: turned into the other it has the other's labels."""
    made = given(modes.time_slicing(recorded("04-time-slicing-renamed", "l4-3", named_configs=True), 4, KNOWN))
    other = node("04-time-slicing-renamed", "l4-1")
    for key, value in other.labels.items():
        if key.startswith(("nvidia.com/gpu.", "nvidia.com/m")):
            assert made.after.labels[key] == value, key
    assert made.after.resources == gpu_resources(other.allocatable)


def test_labels_after_cutting_are_those_of_the_recorded_node() -> None:
    """The recorded node with whole and cut cards together, made anew from whole cards."""
    there = node("02-operator-mig-mixed", "h100-1")
    cuts: list[Any] = [None] * 4 + [{"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}] * 2 + [{"3g.40gb": 2}] * 2
    before = recorded("02-operator-mig-mixed", "h100-1", env={"MIG_STRATEGY": "mixed"}, mig_manager=True, install="operator")
    bare = {key: value for key, value in before.labels.items() if not key.startswith("nvidia.com/mig-")}
    made = given(migmode.mig(dataclasses.replace(before, labels=bare, resources={"nvidia.com/gpu": 8}), cuts, KNOWN))
    assert made.after.resources == gpu_resources(there.allocatable)
    for key, value in there.labels.items():
        if key.startswith("nvidia.com/") and ".engines." not in key:
            assert made.after.labels[key] == value, key
    # Already cut so: everything that was there stays, engines too.
    again = given(migmode.mig(dataclasses.replace(before, cuts=tuple(cuts)), cuts, KNOWN))
    assert again.side_effects == ()
    assert again.after.labels == dict(there.labels)


def test_a_label_that_the_api_server_would_refuse_is_not_promised() -> None:
    product = "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition"
    there = host(product, env={"MIG_STRATEGY": "mixed"}, labels={"nvidia.com/gpu.product": product})
    made = given(migmode.mig(there, [{"1g.24gb": 4}], KNOWN))
    key = "nvidia.com/mig-1g.24gb.product"
    assert made.after.invalid_labels == (f"value of {key}: {product}-MIG-1g.24gb",)
    assert key not in made.after.labels
    assert made.after.labels["nvidia.com/gpu.product"] == product
    assert any("not be valid" in note for note in made.notes)


def test_dra_gives_cards_devices_and_shared_claims() -> None:
    there = host("NVIDIA-A100-SXM4-80GB", 4, server="dra", cuts=(None, None, None, {"3g.40gb": 1, "1g.10gb": 4}))

    def slot(claim: dra.Claim, **more: Any) -> Slot:
        answer = dra.dra(there, claim, KNOWN, kubernetes="v1.37.2", **more)
        assert isinstance(answer, Slot), answer
        return answer

    assert slot("card").isolation == "fault"
    device = slot("mig-device", profile="1g.10gb")
    assert (device.total, device.memory.mib, device.isolation) == (4, 9728, "fault")
    assert (slot("shared-claim", sharers=2).isolation, slot("shared-claim", sharers=2).cap_mib) == ("none", None)
    assert slot("mps", sharers=2, gates=("MPSSupport",)).isolation == "memory"
    assert refused(dra.dra(there, "mps", KNOWN, kubernetes="1.37")).code == "dra-gate-off"
    assert refused(dra.dra(there, "card", KNOWN, kubernetes="1.33.13")).code == "dra-too-old"
    assert refused(dra.dra(host("NVIDIA-L4"), "card", KNOWN, kubernetes="1.37")).code == "dra-no-driver"
    assert refused(dra.dra(there, "mig-device", KNOWN, kubernetes="1.37", profile="7g.80gb")).code == "dra-no-device"


def test_a_mig_parted_file_names_cards_only_where_they_differ() -> None:
    assert mig_parted_file({"a": [{"1g.10gb": 7}] * 2})["mig-configs"]["a"] == [
        {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}
    ]
    assert mig_parted_file({"b": [None, {"3g.40gb": 2}, None]})["mig-configs"]["b"] == [
        {"devices": [0, 2], "mig-enabled": False},
        {"devices": [1], "mig-enabled": True, "mig-devices": {"3g.40gb": 2}},
    ]


def test_two_products_on_one_node_may_be_labelled_either_way() -> None:
    there = dataclasses.replace(host("NVIDIA-L4", 2), gpus=(card("NVIDIA-L4"), card("Tesla-T4")))
    made = given(modes.exclusive(there, KNOWN))
    assert {labels["nvidia.com/gpu.product"] for labels in made.after.possible_labels} == {"NVIDIA-L4", "Tesla-T4"}
    # What every card of the node has: the smaller one's memory.
    assert made.slots[0].memory.mib < 15360
