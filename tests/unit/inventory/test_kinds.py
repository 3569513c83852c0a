"""Clusters of every kind, small: what the vendors' programs write on nodes and pods, and what must be read out of it.

Labels, annotations and names follow the vendors' code and charts as the fact sheet records them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from makers import Raw, config_map, gfd, managed_plugin, node, plugin, pod, sharing_config, thing
from ragstow.cluster.build import build
from ragstow.facts import load
from ragstow.inventory.assume import parse
from ragstow.inventory.build import inventory
from ragstow.inventory.document import body
from ragstow.inventory.model import Inventory, LayoutGroup, NodeGpus, Range

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
A100, H100 = "NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3"
FACTS = load()


def look(*objects: Raw, assume: tuple[str, ...] = ()) -> Inventory:
    snapshot = build(objects)
    assert not snapshot.problems
    return inventory(snapshot, FACTS, assumed=parse(assume, snapshot, FACTS))


def only(*objects: Raw, assume: tuple[str, ...] = ()) -> NodeGpus:
    nodes = look(*objects, assume=assume).nodes
    assert len(nodes) == 1
    return nodes[0]


def holders(count: int, on: str, resource: str = GPU) -> list[Raw]:
    return [pod(f"p{number}", on, {resource: 1}) for number in range(count)]


# Who holds something.


def test_only_pods_that_run_on_the_node_hold_something() -> None:
    found = only(
        node("n", {GPU: 4}, gfd("NVIDIA-L4", 4, 23034)),
        pod("running", "n", {GPU: 1}),
        pod("starting", "n", {GPU: 1}, phase="Pending"),
        pod("done", "n", {GPU: 1}, phase="Succeeded"),
        pod("rejected", "n", {GPU: 1}, phase="Failed"),
        pod("waiting", None, {GPU: 1}, phase="Pending"),
        pod("elsewhere", "other", {GPU: 1}),
        pod("zero", "n", {GPU: 0}),
        pod("none", "n"),
    )
    use = found.resources[GPU]
    assert dict(use.holders) == {"rag/running": 1, "rag/starting": 1}
    assert (use.requested, use.free, found.cards_free) == (2, 2, 2)


def test_a_pod_takes_the_larger_of_its_phases() -> None:
    first = {"name": "load", "image": "x", "resources": {"limits": {GPU: "3"}}}
    found = only(node("n", {GPU: 4}), pod("p", "n", {GPU: 1}, initContainers=[first]))
    assert dict(found.resources[GPU].holders) == {"rag/p": 3}


def test_an_unhealthy_card_is_there_and_not_free() -> None:
    found = only(node("n", {GPU: 4}, gfd("NVIDIA-L4", 4, 23034), allocatable={GPU: 3}), *holders(1, "n"))
    assert (found.cards, found.cards_free, found.resources[GPU].free) == (4, 2, 2)


def test_more_holders_than_slots() -> None:
    """After a change of the plugin's configuration running pods keep what they have."""
    found = only(node("n", {GPU: 1}, gfd("NVIDIA-L4", 1, 23034)), *holders(2, "n"))
    assert (found.resources[GPU].requested, found.resources[GPU].free, found.cards_free) == (2, 0, 0)


# Nodes and totals.


def test_cordoned_and_unready_nodes_count_but_are_marked() -> None:
    found = look(
        node("a", {GPU: 2}, gfd("NVIDIA-L4", 2, 23034)),
        node("b", {GPU: 2}, gfd("NVIDIA-L4", 2, 23034), cordoned=True, taints=("node.kubernetes.io/unschedulable:NoSchedule",)),
        node("c", {GPU: 2}, gfd("NVIDIA-L4", 2, 23034), ready=False, taints=("nvidia.com/gpu=present:NoSchedule",)),
    )
    slots = found.totals["NVIDIA-L4"].slots[GPU]
    assert (found.totals["NVIDIA-L4"].cards, slots.total, slots.free, slots.free_schedulable) == (6, 6, 6, 4)
    assert [(item.schedulable, item.ready) for item in found.nodes] == [(True, True), (False, True), (True, False)]
    assert found.node("c").taints == ("nvidia.com/gpu=present:NoSchedule",)


def test_two_products_in_one_cluster() -> None:
    found = look(
        node("a", {GPU: 8}, gfd(H100, 8, 81559)),
        node("b", {GPU: 4}, gfd("NVIDIA-L40S", 4, 46068)),
        pod("p", "a", {GPU: 8}),
    )
    assert {product: (item.cards, item.cards_free) for product, item in found.totals.items()} == {
        H100: (8, 0),
        "NVIDIA-L40S": (4, 4),
    }


def test_two_models_in_one_node() -> None:
    """GFD labels describe one of the models; the plugin offers all cards."""
    found = only(node("n", {GPU: 3}, gfd("Tesla-V100-SXM2-16GB", 1, 16384)))
    assert (found.cards, found.cards_free) == (3, 3)
    assert "describes 1 of 3 cards" in found.assumed[0]


def test_a_node_without_labels_and_a_node_without_gpu() -> None:
    found = look(node("a"), node("b", {GPU: 2}))
    assert (found.node("a").sharing, found.node("a").cards, found.node("a").product) == ("none", 0, None)
    assert (found.node("b").sharing, found.node("b").cards, found.node("b").memory_mib_per_card) == ("exclusive", 2, None)
    assert list(found.totals) == ["unknown"]
    assert "no device plugin in the data" in found.node("b").assumed[0]


def test_other_vendors_resources_are_not_ours() -> None:
    found = only(node("n", {"amd.com/gpu": 8, "nvidia.com/gpumem": 100, "nvidia.com/rdma_shared_device_a": 63}))
    assert (found.sharing, found.cards, dict(found.resources)) == ("none", 0, {})


@pytest.mark.parametrize("label", ["A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB-SHARED"])
def test_product_labels_of_older_drivers_and_of_shared_nodes(label: str) -> None:
    found = only(node("n", {GPU: 4}, gfd(label, 4, 40536)))
    assert (found.product, found.memory_mib_per_card) == (label.removesuffix("-SHARED"), 40536)


def test_a_memory_label_in_bytes() -> None:
    assert only(node("n", {GPU: 1}, gfd("Tesla-T4", 1, 16106127360))).memory_mib_per_card == 15360


# Shares.


def test_mps_by_the_chart() -> None:
    labels = gfd("NVIDIA-L40S-SHARED", 2, 46068, replicas=4, strategy="mps")
    found = only(
        node("n", {GPU: 8}, {**labels, "nvidia.com/device-plugin.config": "mps4"}),
        managed_plugin("n", "configs", default="none"),
        config_map("configs", {"none": "version: v1\n", "mps4": sharing_config(4, kind="mps")}),
        *holders(3, "n"),
    )
    assert (found.sharing, found.replicas, found.product, found.cards) == ("mps", 4, "NVIDIA-L40S", 2)
    assert (found.memory_mib_per_card, found.cards_free, found.resources[GPU].free) == (46068, Range(0, 1), 5)
    assert found.config is not None
    assert (found.config.key, found.config.config_map) == ("mps4", ("gpu", "configs"))
    assert found.allocators == ("device-plugin",)


@pytest.mark.parametrize(("held", "free"), [(0, 2), (1, 1), (2, Range(0, 1)), (4, Range(0, 1)), (5, 0), (8, 0)])
def test_time_slicing(held: int, free: int | Range) -> None:
    labels = gfd("NVIDIA-L4-SHARED", 2, 23034, replicas=4, strategy="time-slicing")
    found = only(node("n", {GPU: 8}, labels), *holders(held, "n"))
    assert (found.sharing, found.replicas, found.cards, found.cards_free) == ("time-slicing", 4, 2, free)


def test_a_pod_from_before_the_renaming_still_holds_a_card() -> None:
    labels = gfd("NVIDIA-L4", 2, 23034, replicas=4, strategy="time-slicing")
    found = only(node("n", {GPU: 0, SHARED: 8}, labels), *holders(1, "n"), pod("new", "n", {SHARED: 1}))
    assert found.resources[GPU].requested == 1
    assert found.cards_free == 0
    assert look(node("n", {GPU: 0, SHARED: 8}, labels)).totals["NVIDIA-L4"].slots[GPU].total == 0


@pytest.mark.parametrize("kind", ["timeSlicing", "mps"])
def test_sharing_without_labels_is_read_from_the_configuration(kind: str) -> None:
    found = only(
        node("n", {SHARED: 10, GPU: 0}),
        managed_plugin("n", "configs"),
        config_map("configs", {"any": sharing_config(5, kind=kind, rename=True)}),
    )
    assert (found.sharing, found.replicas, found.cards) == ("mps" if kind == "mps" else "time-slicing", 5, 2)
    assert found.config is not None
    assert found.config.origin.endswith("key any, the only key (fallback)")


def test_a_share_whose_kind_is_not_in_the_data() -> None:
    found = only(node("n", {SHARED: 8}))
    assert (found.sharing, found.cards, found.cards_free) == ("unknown", 1, Range(0, 1))
    assert "not in the data" in found.assumed[0]


def test_labels_that_lag_behind_the_configuration() -> None:
    found = only(
        node("n", {GPU: 8}, gfd("NVIDIA-L4", 2, 23034)),
        managed_plugin("n", "configs"),
        config_map("configs", {"any": sharing_config(4)}),
    )
    assert (found.sharing, found.replicas, found.cards, found.cards_free) == ("time-slicing", 4, 2, 2)
    assert "do not show the sharing" in found.assumed[0]


# The configuration in force.


CONFIGS = {"default": sharing_config(2), "other": sharing_config(3)}


@pytest.mark.parametrize(
    ("label", "default", "fallbacks", "data", "says"),
    [
        ("other", "default", "named,single", CONFIGS, "key other, by node label nvidia.com/device-plugin.config"),
        ("", "other", "named,single", CONFIGS, "key other, the default"),
        ("", "", "named,single", CONFIGS, "key default, the key named default (fallback)"),
        ("", "", "named,single", {"x": sharing_config(2)}, "key x, the only key (fallback)"),
        ("", "", "named,single", {"x": "", "y": ""}, "the plugin does not start"),
        ("", "", "empty", CONFIGS, "the plugin runs without configuration"),
        ("gone", "default", "named,single", CONFIGS, "has no key 'gone'"),
        ("other", "", "named", None, "the ConfigMap is not in the data"),
    ],
)
def test_the_choice_of_the_config_manager(
    label: str, default: str, fallbacks: str, data: dict[str, str] | None, says: str
) -> None:
    labels = {"nvidia.com/device-plugin.config": label} if label else {}
    objects = [node("n", {GPU: 2}, labels), managed_plugin("n", "configs", default=default, fallbacks=fallbacks)]
    found = only(*objects, *([config_map("configs", data)] if data is not None else []))
    assert found.config is not None
    assert says in found.config.origin


def test_a_file_mounted_straight_from_a_config_map() -> None:
    mount = {"name": "c", "mountPath": "/etc/plugin"}
    volume = {"name": "c", "configMap": {"name": "file", "items": [{"key": "k", "path": "config.yaml"}]}}
    found = only(
        node("n", {GPU: 6}),
        plugin("n", args=("--config-file=/etc/plugin/config.yaml",), mounts=(mount,), volumes=(volume,)),
        config_map("file", {"k": sharing_config(3)}),
    )
    assert (found.sharing, found.replicas, found.cards) == ("time-slicing", 3, 2)
    assert found.config is not None
    assert found.config.origin == "ConfigMap gpu/file key k, mounted by DaemonSet gpu/plugin"


def test_environment_beats_the_file_and_a_flag_beats_both() -> None:
    found = only(node("n", {GPU: 1}), plugin("n", env={"MIG_STRATEGY": "single"}, args=("--mig-strategy", "mixed")))
    assert found.config is not None
    assert dict(found.config.overrides) == {"migStrategy": "mixed"}
    assert found.config.config is not None
    assert found.config.config["flags"]["migStrategy"] == "mixed"


def test_a_configuration_that_the_plugin_refuses() -> None:
    found = only(node("n", {GPU: 2}), managed_plugin("n", "c"), config_map("c", {"x": sharing_config(1)}))
    assert found.config is not None
    assert found.config.config is None
    assert "number of replicas must be >= 2" in found.config.origin


def test_the_operators_policy_where_the_plugin_is_not_in_the_data() -> None:
    spec = {"devicePlugin": {"config": {"name": "shares", "default": ""}}, "mig": {"strategy": "single"}}
    policy = thing("ClusterPolicy", "cluster-policy", api="nvidia.com/v1", spec=spec)
    config = config_map("shares", {"any": sharing_config(4)}, namespace="gpu-operator")
    found = only(node("n", {GPU: 2}), policy, config)
    assert found.config is not None
    assert "the plugin runs without configuration (ClusterPolicy cluster-policy)" in found.config.origin
    assert dict(found.config.overrides) == {"migStrategy": "single"}
    labelled = only(node("n", {GPU: 8}, {"nvidia.com/device-plugin.config": "any"}), policy, config)
    assert (labelled.sharing, labelled.replicas, labelled.cards) == ("time-slicing", 4, 2)


# MIG.


def mig_parted(name: str, *entries: Raw) -> str:
    return json.dumps({"version": "v1", "mig-configs": {name: list(entries)}})


def mixed_labels(count: int, **more: str) -> dict[str, str]:
    return {
        **gfd(H100, count, 81559, {"mig.strategy": "mixed"}),
        **{f"nvidia.com/{key.replace('__', '.')}": value for key, value in more.items()},
    }


def test_mig_single_under_the_operator() -> None:
    """Labels describe slices: their number, memory and product with the profile."""
    labels = gfd(
        f"{A100}-MIG-1g.5gb", 14, 4864, {"mig.strategy": "single", "mig.config": "all-1g.5gb", "mig.config.state": "success"}
    )
    found = only(node("n", {GPU: 14}, labels), *holders(8, "n"))
    assert (found.sharing, found.product, found.cards, found.memory_mib_per_card) == ("mig-single", A100, 2, 40960)
    assert found.layout == (LayoutGroup(2, {"1g.5gb": 7}, (0, 1)),)
    assert (found.cards_free, found.resources[GPU].free) == (0, 6)
    free = only(node("n", {GPU: 14}, labels), *holders(3, "n"))
    assert free.cards_free == Range(0, 1)


def test_mig_single_by_a_configuration_of_ones_own() -> None:
    labels = gfd(f"{A100}-MIG-3g.20gb", 4, 20091, {"mig.strategy": "single", "mig.config": "halves"})
    policy = thing(
        "ClusterPolicy",
        "p",
        api="nvidia.com/v1",
        spec={"migManager": {"config": {"name": "mine"}}, "mig": {"strategy": "single"}},
    )
    config = config_map(
        "mine", {"config.yaml": mig_parted("halves", {"devices": "all", "mig-enabled": True, "mig-devices": {"3g.20gb": 2}})}
    )
    found = only(node("n", {GPU: 4}, labels), policy, config, *holders(1, "n"))
    assert found.layout == (LayoutGroup(2, {"3g.20gb": 2}, (0, 1)),)
    assert (found.cards, found.cards_free) == (2, 1)


def test_mig_single_with_mig_off() -> None:
    labels = gfd(A100, 8, 40960, {"mig.strategy": "single", "mig.config": "all-disabled", "mig.config.state": "success"})
    found = only(node("n", {GPU: 8}, labels))
    assert (found.sharing, found.cards, found.layout) == ("exclusive", 8, ())


def test_mig_single_whose_cards_are_not_cut_alike() -> None:
    labels = gfd(f"{A100}-MIG-INVALID", 0, 0, {"mig.strategy": "single"}, replicas=0, strategy="")
    found = only(node("n", {GPU: 0}, labels))
    assert (found.sharing, found.product, found.cards_free) == ("mig-single", A100, 0)
    assert "not cut alike" in found.assumed[0]


def test_mig_mixed_with_the_operators_own_layout_for_the_node() -> None:
    labels = mixed_labels(4, mig__config="all-balanced")
    offered = {GPU: 0, "nvidia.com/mig-1g.10gb": 8, "nvidia.com/mig-2g.20gb": 4, "nvidia.com/mig-3g.40gb": 4}
    entry = {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}}
    other = {"device-filter": ["0x20B010DE"], "devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 2}}
    config = config_map(
        "n-mig-config", {"config.yaml": mig_parted("all-balanced", {**entry, "device-filter": "0x233010DE"}, other)}
    )
    held = pod("p", "n", {"nvidia.com/mig-3g.40gb": 1})
    for objects in ((config, held), (held,)):  # without the ConfigMap the vendor's default of that name is tried
        found = only(node("n", offered, labels), *objects)
        assert found.layout == (LayoutGroup(4, {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}, (0, 1, 2, 3)),)
        assert (found.sharing, found.cards, found.cards_free) == ("mig-mixed", 4, 3)
        assert len([device for device in found.devices if device.kind == "slice"]) == 16


def test_a_layout_that_does_not_give_what_the_node_offers_is_not_believed() -> None:
    labels = mixed_labels(2, mig__config="all-1g.10gb", mig__config__state="failed")
    found = only(node("n", {GPU: 0, "nvidia.com/mig-3g.40gb": 3}, labels), pod("p", "n", {"nvidia.com/mig-3g.40gb": 2}))
    assert found.layout == ()
    assert found.cards_free == Range(0, 1)


def test_one_cut_card_can_only_be_cut_in_one_way() -> None:
    found = only(
        node("n", {GPU: 7, "nvidia.com/mig-3g.40gb": 1, "nvidia.com/mig-1g.10gb": 4}, mixed_labels(8)), *holders(7, "n")
    )
    assert found.layout == (LayoutGroup(7, None), LayoutGroup(1, {"1g.10gb": 4, "3g.40gb": 1}))
    assert found.cards_free == 1


def test_profiles_with_media_engines() -> None:
    labels = mixed_labels(1, mig__config="me")
    entry = {"devices": [0], "mig-enabled": True, "mig-devices": {"1g.10gb+me": 1, "1g.10gb": 6}}
    config = config_map("default-mig-parted-config", {"config.yaml": mig_parted("me", entry)})
    offered = {"nvidia.com/mig-1g.10gb.me": 1, "nvidia.com/mig-1g.10gb": 6}
    found = only(node("n", offered, labels), config, pod("p", "n", {"nvidia.com/mig-1g.10gb.me": 1}))
    assert found.layout == (LayoutGroup(1, {"1g.10gb+me": 1, "1g.10gb": 6}, (0,)),)
    assert found.cards_free == 0


def test_time_sliced_mig_slices() -> None:
    labels = mixed_labels(2, mig__config="all-3g.40gb", **{"mig-3g__40gb__replicas": "2"})
    found = only(
        node("n", {GPU: 0, "nvidia.com/mig-3g.40gb": 8}, labels),
        pod("a", "n", {"nvidia.com/mig-3g.40gb": 1}),
        pod("b", "n", {"nvidia.com/mig-3g.40gb": 1}),
    )
    assert found.layout == (LayoutGroup(2, {"3g.40gb": 2}, (0, 1)),)
    assert found.cards_free == Range(0, 1)


# Clouds.


def gke(**labels: str) -> dict[str, str]:
    return {f"cloud.google.com/{key.replace('_', '-')}": value for key, value in labels.items()}


@pytest.mark.parametrize(
    ("labels", "slots", "sharing", "cards", "replicas"),
    [
        (gke(gke_accelerator="nvidia-l4", gke_accelerator_count="2"), 2, "exclusive", 2, None),
        (
            gke(
                gke_accelerator="nvidia-l4",
                gke_accelerator_count="2",
                gke_gpu_sharing_strategy="mps",
                gke_max_shared_clients_per_gpu="8",
            ),
            16,
            "mps",
            2,
            8,
        ),
        (
            gke(gke_accelerator="nvidia-tesla-a100", gke_accelerator_count="2", gke_gpu_partition_size="1g.5gb"),
            14,
            "mig-single",
            2,
            None,
        ),
    ],
)
def test_a_cloud_with_its_own_labels(
    labels: dict[str, str], slots: int, sharing: str, cards: int, replicas: int | None
) -> None:
    found = only(node("n", {GPU: slots}, labels), *holders(1, "n"))
    assert (found.sharing, found.cards, found.replicas) == (sharing, cards, replicas)
    assert found.cards_free == 1
    assert found.product == ("NVIDIA-L4" if "l4" in labels["cloud.google.com/gke-accelerator"] else A100)
    if sharing == "mig-single":
        assert found.layout == (LayoutGroup(2, {"1g.5gb": 7}, (0, 1)),)
        assert found.memory_mib_per_card == 40960


def test_a_clouds_sharing_labels_beat_gfd_that_does_not_know_of_them() -> None:
    labels = gke(gke_accelerator="nvidia-l4", gke_gpu_sharing_strategy="time-sharing", gke_max_shared_clients_per_gpu="4")
    found = only(node("n", {GPU: 4}, {**labels, **gfd("NVIDIA-L4", 1, 23034)}), *holders(1, "n"))
    assert (found.sharing, found.replicas, found.cards, found.cards_free, found.assumed) == ("time-slicing", 4, 1, 0, ())


def test_a_machine_type_names_the_card() -> None:
    labels = {"eks.amazonaws.com/nodegroup": "gpu", "node.kubernetes.io/instance-type": "g5.12xlarge"}
    found = only(node("n", {GPU: 4}, labels, kubelet="v1.34.2-eks-abc", taints=("nvidia.com/gpu=true:NoSchedule",)))
    assert (found.product, found.cards, found.memory_mib_per_card, found.sharing) == ("NVIDIA-A10G", 4, 23028, "exclusive")
    assert "machine type g5.12xlarge" in found.assumed[0]


def test_an_autoscalers_labels_and_the_card_s_own_memory() -> None:
    labels = {
        "karpenter.sh/nodepool": "gpu",
        "karpenter.k8s.aws/instance-gpu-name": "l4",
        "karpenter.k8s.aws/instance-gpu-count": "1",
        "karpenter.k8s.aws/instance-gpu-memory": "22888",
    }
    found = only(node("n", {GPU: 1}, labels))
    assert (found.product, found.cards, found.memory_mib_per_card) == ("NVIDIA-L4", 1, 23034)
    eight = {
        "karpenter.sh/nodepool": "gpu",
        "karpenter.k8s.aws/instance-gpu-name": "a100",
        "node.kubernetes.io/instance-type": "p4de.24xlarge",
    }
    assert only(node("n", {GPU: 8}, eight)).product == "NVIDIA-A100-SXM4-80GB"


def test_a_cloud_with_gfd_labels() -> None:
    labels = {
        "kubernetes.azure.com/agentpool": "gpu",
        "kubernetes.azure.com/accelerator": "nvidia",
        "node.kubernetes.io/instance-type": "Standard_NC48ads_A100_v4",
    }
    found = only(node("n", {GPU: 2}, {**labels, **gfd("NVIDIA-A100-80GB-PCIe", 2, 81920)}, taints=("sku=gpu:NoSchedule",)))
    assert (found.product, found.cards, found.memory_mib_per_card, found.assumed) == ("NVIDIA-A100-80GB-PCIe", 2, 81920, ())
    bare = only(node("n", {GPU: 2}, labels))
    assert (bare.product, bare.cards) == ("NVIDIA-A100-80GB-PCIe", 2)


def test_a_gpu_machine_that_offers_nothing_yet() -> None:
    labels = {"karpenter.sh/nodepool": "gpu", "node.kubernetes.io/instance-type": "g6.xlarge"}
    found = only(node("n", None, labels))
    assert (found.sharing, found.cards, found.cards_free) == ("unknown", 1, 0)
    assert "the node offers no GPU now" in found.assumed


# Other allocators.


def hami_node() -> Raw:
    cards = [
        {"id": "GPU-a", "count": 10, "devmem": 23034, "devcore": 100, "type": "NVIDIA-NVIDIA L4", "health": True},
        {"id": "GPU-b", "index": 1, "count": 10, "devmem": 23034, "devcore": 100, "type": "NVIDIA-NVIDIA L4", "health": True},
    ]
    return node("n", {GPU: 20}, {"gpu": "on"}, annotations={"hami.io/node-nvidia-register": json.dumps(cards)})


def hami_pod(name: str, uuid: str) -> Raw:
    notes = {"hami.io/vgpu-devices-allocated": f"{uuid},NVIDIA,4000,30:;", "hami.io/vgpu-node": "n"}
    return pod(name, "n", {GPU: 1, "nvidia.com/gpumem": "4k"}, schedulerName="hami-scheduler", annotations=notes)


def test_hami_says_which_card_a_pod_is_on() -> None:
    found = only(hami_node(), hami_pod("x", "GPU-b"), hami_pod("y", "GPU-b"))
    assert (found.sharing, found.product, found.cards, found.cards_free, found.replicas) == ("hami", "NVIDIA-L4", 2, 1, 10)
    assert dict(found.resources) == {GPU: found.resources[GPU]}
    assert found.resources[GPU].free == 18
    assert [(device.card, device.holders) for device in found.devices] == [(0, ()), (1, ("rag/x", "rag/y"))]
    assert "hami" in found.allocators


def test_hami_before_version_2() -> None:
    old = "GPU-a,10,23034,100,NVIDIA-NVIDIA L4,0,true:GPU-b,10,23034,100,NVIDIA-NVIDIA L4,0,true:"
    found = only(node("n", {GPU: 20}, annotations={"hami.io/node-nvidia-register": old}), pod("p", "n", {GPU: 1}))
    assert (found.cards, found.cards_free) == (2, Range(1, 2))


def test_kai_shares_a_reserved_card() -> None:
    group = {"runai-gpu-group": "g1"}
    reservation = pod(
        "gpu-reservation-abc",
        "n",
        {GPU: 1},
        namespace="kai-resource-reservation",
        labels={"app": "kai-resource-reservation", **group},
        annotations={"run.ai/reserve_for_gpu_index": "GPU-a"},
    )
    sharers = [
        pod(
            name,
            "n",
            schedulerName="kai-scheduler",
            labels={**group, "kai.scheduler/queue": "q"},
            annotations={"gpu-fraction": "0.5"},
        )
        for name in ("x", "y")
    ]
    found = only(node("n", {GPU: 4}, gfd("NVIDIA-L40S", 4, 46068)), reservation, *sharers, pod("whole", "n", {GPU: 1}))
    assert (found.sharing, found.cards, found.cards_free) == ("kai", 4, 2)
    assert dict(found.resources[GPU].holders) == {"kai-resource-reservation/gpu-reservation-abc": 1, "rag/whole": 1}
    assert (found.devices[0].uuid, found.devices[0].holders) == ("GPU-a", ("rag/x", "rag/y"))
    assert "kai" in found.allocators
    assert len(found.devices) == 4


# DRA.


def device(name: str, kind: str = "gpu", **more: Any) -> Raw:
    attributes = {
        "type": {"string": kind},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "uuid": {"string": f"UUID-{name}"},
    }
    capacity = {"memory": {"value": "81559Mi" if kind == "gpu" else "40320Mi"}}
    return {"name": name, "attributes": attributes, "capacity": capacity, **more}


def slices(*devices: Raw, api: str = "resource.k8s.io/v1") -> Raw:
    spec = {"driver": "gpu.nvidia.com", "nodeName": "n", "pool": {"name": "n", "generation": 1}, "devices": list(devices)}
    return thing("ResourceSlice", "s", api=api, spec=spec)


def claim(name: str, *held: str, pods: tuple[str, ...] = ()) -> Raw:
    results = [{"driver": "gpu.nvidia.com", "pool": "n", "device": item, "request": "r"} for item in held]
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": item} for item in pods],
    }
    return thing("ResourceClaim", name, api="resource.k8s.io/v1", namespace="rag", status=status)


def test_a_claim_that_is_allocated_holds_its_device_before_any_pod_uses_it() -> None:
    found = only(node("n"), slices(device("gpu-0"), device("gpu-1")), claim("c", "gpu-0"))
    assert (found.sharing, found.cards, found.cards_free, found.product) == ("dra", 2, 1, H100)
    assert body(Inventory((found,), {}))["nodes"][0]["claims"] == [
        {"device": "gpu-0", "card": 0, "claim": "rag/c", "pods": []},
        {"device": "gpu-1", "card": 1, "claim": None},
    ]


def test_the_older_api_of_dra() -> None:
    nested = [
        {"name": item["name"], "basic": {key: item[key] for key in ("attributes", "capacity")}}
        for item in (device("gpu-0"), device("gpu-1"))
    ]
    found = only(node("n"), slices(*nested, api="resource.k8s.io/v1beta1"))
    assert (found.cards, found.memory_mib_per_card, found.cards_free) == (2, 81559, 2)


def test_partitions_of_a_card_exclude_each_other() -> None:
    """DynamicMIG publishes every possible slice beside the whole card; what can still be had is the card or what is held."""
    counters = [{"counterSet": "gpu-0-counter-set", "counters": {}}]
    published = [
        device("gpu-0", consumesCounters=counters),
        device("gpu-0-mig-3g40gb-9-0", "mig", consumesCounters=counters),
        device("gpu-0-mig-3g40gb-9-4", "mig", consumesCounters=counters),
        device("gpu-1", consumesCounters=counters),
    ]
    free = only(node("n"), slices(*published))
    assert (free.cards, free.cards_free, [item.device for item in free.claims]) == (2, 2, ["gpu-0", "gpu-1"])
    cut = only(node("n"), slices(*published), claim("c", "gpu-0-mig-3g40gb-9-4", pods=("p",)))
    assert (cut.cards, cut.cards_free) == (2, 1)
    assert [item.device for item in cut.claims] == ["gpu-0-mig-3g40gb-9-4", "gpu-1"]


def test_a_device_that_several_claims_hold() -> None:
    found = look(
        node("n"),
        slices(device("gpu-0", allowMultipleAllocations=True)),
        claim("a", "gpu-0", pods=("p",)),
        claim("b", "gpu-0", pods=("q",)),
    )
    assert [item.claim for item in found.nodes[0].claims] == ["rag/a", "rag/b"]
    slots = found.totals[H100].slots["gpu.nvidia.com"]
    assert (slots.total, slots.free, found.nodes[0].devices[0].holders) == (1, 0, ("rag/p", "rag/q"))


def test_plugin_and_dra_driver_on_one_node_is_said() -> None:
    found = only(node("n", {GPU: 1}, gfd(H100, 1, 81559)), slices(device("gpu-0")))
    assert found.sharing == "dra"
    assert "handed out twice" in found.assumed[0]


def test_a_node_with_only_compute_domains_has_no_gpu_by_dra() -> None:
    spec = {"driver": "compute-domain.nvidia.com", "nodeName": "n", "pool": {"name": "n"}, "devices": [{"name": "channel-0"}]}
    assert only(node("n"), thing("ResourceSlice", "s", api="resource.k8s.io/v1", spec=spec)).sharing == "none"


# Assumptions.


def test_assumed_cards_and_shares() -> None:
    found = only(node("n", {GPU: 8}), assume=("n=GeForce-RTX-3090:2",))
    assert (found.product, found.cards, found.memory_mib_per_card, found.replicas) == ("NVIDIA-GeForce-RTX-3090", 2, 24576, 4)
    assert found.assumed[0] == "assumed on the command line: NVIDIA-GeForce-RTX-3090, 2 cards"
    alone = only(node("n"), assume=("n=NVIDIA-L4:2",))
    assert (alone.cards, alone.cards_free, alone.sharing) == (2, 0, "unknown")


def test_an_assumption_never_beats_what_the_node_says() -> None:
    found = only(node("n", {GPU: 1}, gfd("Tesla-T4", 1, 15360)), assume=("n=NVIDIA-L4",))
    assert (found.product, found.memory_mib_per_card) == ("Tesla-T4", 15360)
    assert "is not needed" in found.assumed[0]
