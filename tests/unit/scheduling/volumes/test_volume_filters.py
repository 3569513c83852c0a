"""VolumeRestrictions, NodeVolumeLimits and VolumeZone in upstream's words."""

from __future__ import annotations

from typing import Any

import pytest

from ragstow.scheduling.volumes.migration import translated
from support_player import Player
from support_volumes import claim, node, pod, storage, storage_class, uses, volume

EXCEEDED = "node(s) exceed max volume count"
BASE: list[dict[str, Any]] = [node("n0", zone="a"), node("n1", zone="b"), storage_class("fast")]


def disk(name: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


@pytest.mark.parametrize(
    ("theirs", "mine", "conflicts"),
    [
        (disk("d"), disk("d"), True),
        (disk("d", read_only=True), disk("d", read_only=True), False),
        (disk("d"), disk("e"), False),
        ({"awsElasticBlockStore": {"volumeID": "v"}}, {"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}}, True),
        ({"iscsi": {"iqn": "q", "readOnly": True}}, {"iscsi": {"iqn": "q"}}, True),
        ({"rbd": {"monitors": ["m1", "m2"], "image": "i"}}, {"rbd": {"monitors": ["m2"], "image": "i", "pool": "rbd"}}, True),
        ({"rbd": {"monitors": ["m1"], "image": "i"}}, {"rbd": {"monitors": ["m2"], "image": "i"}}, False),
    ],
)
def test_disks_that_cannot_be_mounted_twice(theirs: dict[str, Any], mine: dict[str, Any], conflicts: bool) -> None:
    refused = Player([*BASE, pod("q", theirs, on="n0")]).refusals(pod("p", mine))
    assert refused == ({"n0": ("node(s) had no available disk",)} if conflicts else {})


@pytest.mark.parametrize(
    ("release", "text"),
    [
        (
            "1.37.2",
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
        ),
        ("1.33.13", "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"),
    ],
)
def test_claim_for_one_pod(release: str, text: str) -> None:
    objects = [claim("once", modes=["ReadWriteOncePod"], volume="pv"), volume("pv", claim="once")]
    player = Player([*BASE, *objects, pod("q", uses("once"), on="n0")], release)
    assert player.refusals(pod("p", uses("once"))) == {"n0": (text,), "n1": (text,)}
    assert Player([*BASE, *objects], release).refusals(pod("p", uses("once"))) == {}


def bound(name: str, driver: str = "csi.example.com") -> list[dict[str, Any]]:
    return [claim(name, volume=f"pv-{name}"), volume(f"pv-{name}", claim=name, csi=(driver, f"handle-{name}"))]


def csi_node(name: str, **limits: int) -> dict[str, Any]:
    drivers = [{"name": key.replace("_", "."), "allocatable": {"count": count}} for key, count in limits.items()]
    return storage("CSINode", name, spec={"drivers": drivers})


def test_volume_limit_counts_a_shared_volume_once() -> None:
    objects = [*BASE, *bound("a"), *bound("b"), csi_node("n0", csi_example_com=1), pod("q", uses("a"), on="n0")]
    assert Player(objects).refusals(pod("p", uses("b"))) == {"n0": (EXCEEDED,)}
    assert Player(objects).refusals(pod("p", uses("a"))) == {}


def test_unbound_claim_counts_under_its_provisioner() -> None:
    objects = [*BASE, claim("new"), csi_node("n0", csi_example_com=0)]
    assert Player(objects).refusals(pod("p", uses("new"))) == {"n0": (EXCEEDED,)}


def test_attached_volumes_count_without_a_pod() -> None:
    attached = storage(
        "VolumeAttachment",
        "x",
        spec={"attacher": "csi.example.com", "nodeName": "n0", "source": {"persistentVolumeName": "pv-a"}},
    )
    objects = [*BASE, *bound("a"), *bound("b"), csi_node("n0", csi_example_com=1), attached]
    assert Player(objects).refusals(pod("p", uses("b"))) == {"n0": (EXCEEDED,)}


def test_missing_driver_by_release() -> None:
    driver = storage("CSIDriver", "csi.example.com", spec={"preventPodSchedulingIfMissing": True})
    objects = [*BASE, *bound("a"), driver, csi_node("n0", csi_example_com=5)]
    text = "csi.example.com CSI driver is not installed on the node"
    assert Player(objects).refusals(pod("p", uses("a"))) == {"n1": (text,)}
    assert Player(objects, "1.36.3").refusals(pod("p", uses("a"))) == {}


@pytest.mark.parametrize(("label", "refused"), [("a", ["n1"]), ("a__b", []), ("c", ["n0", "n1"])])
def test_zone_labels_of_volumes(label: str, refused: list[str]) -> None:
    objects = [claim("data", volume="pv"), volume("pv", claim="data", labels={"topology.kubernetes.io/zone": label})]
    found = Player([*BASE, node("n2"), *objects]).refusals(pod("p", uses("data")))
    assert found == dict.fromkeys(refused, ("node(s) had no available volume zone",))


def test_old_zone_labels_of_volumes_match_new_ones_of_nodes() -> None:
    labels = {"failure-domain.beta.kubernetes.io/zone": "b"}
    objects = [claim("data", volume="pv"), volume("pv", claim="data", labels=labels)]
    assert list(Player([*BASE, *objects]).refusals(pod("p", uses("data")))) == ["n0"]


@pytest.mark.parametrize(
    ("theirs", "driver", "mine"),
    [
        ({"gcePersistentDisk": {"pdName": "a"}}, "pd.csi.storage.gke.io", {"gcePersistentDisk": {"pdName": "b"}}),
        (
            {"awsElasticBlockStore": {"volumeID": "aws://z/vol-1"}},
            "ebs.csi.aws.com",
            {"awsElasticBlockStore": {"volumeID": "vol-2"}},
        ),
        ({"azureDisk": {"diskURI": "/a"}}, "disk.csi.azure.com", {"azureDisk": {"diskURI": "/b"}}),
        ({"cinder": {"volumeID": "a"}}, "cinder.csi.openstack.org", {"cinder": {"volumeID": "b"}}),
        ({"portworxVolume": {"volumeID": "a"}}, "pxd.portworx.com", {"portworxVolume": {"volumeID": "b"}}),
    ],
)
def test_disks_of_in_tree_plugins_count_under_their_driver(theirs: dict[str, Any], driver: str, mine: dict[str, Any]) -> None:
    full = csi_node("n0", **{driver.replace(".", "_"): 1})
    assert Player([*BASE, full, pod("q", theirs, on="n0")]).refusals(pod("p", mine)) == {"n0": (EXCEEDED,)}
    assert Player([*BASE, full]).refusals(pod("p", mine)) == {}


@pytest.mark.parametrize(
    ("release", "annotated", "counted"), [("1.37.2", False, True), ("1.35.4", False, False), ("1.35.4", True, True)]
)
def test_portworx_counts_everywhere_since_1_36(release: str, annotated: bool, counted: bool) -> None:
    full = csi_node("n0", pxd_portworx_com=0)
    if annotated:
        full["metadata"]["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/portworx-volume"}
    refused = Player([*BASE, full], release).refusals(pod("p", {"portworxVolume": {"volumeID": "a"}}))
    assert refused == ({"n0": (EXCEEDED,)} if counted else {})


@pytest.mark.parametrize(
    ("zone", "handle"),
    [
        ("", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        ("eu-west1-b", "projects/UNSPECIFIED/zones/eu-west1-b/disks/d"),
        ("eu-west1-b__eu-west1-c", "projects/UNSPECIFIED/regions/eu-west1/disks/d"),
        ("eu-west1-b__eu-west2-c", None),
        ("a__b", None),
    ],
)
def test_handles_of_google_disks(zone: str, handle: str | None) -> None:
    found = translated({"gcePersistentDisk": {"pdName": "d"}}, {"topology.kubernetes.io/zone": zone})
    assert found == (None if handle is None else ("kubernetes.io/gce-pd", handle))


def test_a_class_of_an_in_tree_plugin_counts_under_its_driver() -> None:
    objects = [
        *BASE,
        storage_class("old", provisioner="kubernetes.io/gce-pd"),
        claim("c", "old"),
        csi_node("n0", pd_csi_storage_gke_io=0),
    ]
    assert Player(objects).refusals(pod("p", uses("c"))) == {"n0": (EXCEEDED,)}


def test_a_running_pod_with_another_pods_claim_is_an_error() -> None:
    """The original fails on such a node, although the arriving pod has nothing to do with it."""
    ephemeral: dict[str, Any] = {"ephemeral": {"volumeClaimTemplate": {}}}
    objects = [*BASE, *bound("q-v0"), *bound("c"), csi_node("n0", csi_example_com=9), pod("q", ephemeral, on="n0")]
    (text,) = Player(objects).refusals(pod("p", uses("c")))["n0"]
    assert text.endswith("PVC default/q-v0 was not created for pod default/q (pod is not owner)")
