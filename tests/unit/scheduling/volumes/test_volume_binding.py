"""VolumeBinding: what a pod's claims need on a node, in upstream's words, and what later pods see."""

from __future__ import annotations

import pytest

from support_player import Player
from support_volumes import claim, node, pod, storage, storage_class, uses, volume

NODES = [node("n0", zone="a"), node("n1", zone="b")]
CLASSES = [
    storage_class("fast"),
    storage_class("now", wait=False),
    storage_class("local", provisioner="kubernetes.io/no-provisioner"),
]
BASE = [*NODES, *CLASSES]


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        ([], 'persistentvolumeclaim "data" not found'),
        ([claim("data", deleted=True)], 'persistentvolumeclaim "data" is being deleted'),
        (
            [claim("data", phase="Lost", volume="gone")],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "gone"',
        ),
        ([claim("data", "now")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("data", "unknown")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("data", volume="gone")], 'persistentvolume "gone" not found'),
    ],
)
def test_refused_before_any_node(objects: list[dict[str, object]], text: str) -> None:
    said = Player([*BASE, *objects]).before(pod("p", uses("data")))
    assert said is not None
    assert said.message == text


def test_ephemeral_volumes_have_claims_of_their_own() -> None:
    wanting = pod("p", {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
    waiting = Player(BASE).before(wanting)
    assert waiting is not None
    assert waiting.message == 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v0"'
    foreign = Player([*BASE, claim("p-v0", owner="uid-q")]).before(wanting)
    assert foreign is not None
    assert foreign.message == "PVC default/p-v0 was not created for pod default/p (pod is not owner)"
    assert Player([*BASE, claim("p-v0", owner="uid-p")]).refusals(wanting) == {}


def test_bound_volume_keeps_the_pod_in_its_zone() -> None:
    objects = [claim("data", volume="pv"), volume("pv", claim="data", at={"topology.kubernetes.io/zone": "b"})]
    refused = Player([*BASE, *objects]).refusals(pod("p", uses("data")))
    assert refused == {"n0": ("node(s) didn't match PersistentVolume's node affinity",)}


def test_smallest_claim_takes_the_smallest_volume_that_fits() -> None:
    here = {"kubernetes.io/hostname": "n0"}
    volumes = [
        volume("big", "local", "40Gi", at=here),
        volume("mid", "local", "20Gi", at=here),
        volume("small", "local", "5Gi", at=here),
    ]
    player = Player([*BASE, *volumes, claim("a", "local", "30Gi"), claim("b", "local", "10Gi")])
    wanting = pod("p", uses("a"), uses("b"))
    assert player.refusals(wanting) == {"n1": ("node(s) didn't find available persistent volumes to bind",)}
    assert player.place(wanting, "n0") == {"volumes": {"a": "big", "b": "mid"}}
    later = Player([*BASE, *volumes, claim("a", "local", "30Gi")])
    later.place(pod("p", uses("a")), "n0")
    assert later.refusals(pod("q", uses("a"))) == {"n1": ("node(s) didn't match PersistentVolume's node affinity",)}


def test_volume_reserved_for_a_claim_goes_to_no_other() -> None:
    volumes = [volume("pv", "local", claim="theirs", phase="Available")]
    assert set(Player([*BASE, *volumes, claim("mine", "local")]).refusals(pod("p", uses("mine")))) == {"n0", "n1"}
    assert Player([*BASE, *volumes, claim("theirs", "local")]).refusals(pod("p", uses("theirs"))) == {}


def test_provisioning_needs_an_allowed_topology() -> None:
    player = Player([*BASE, storage_class("zonal", zones=["a"]), claim("data", "zonal")])
    assert player.refusals(pod("p", uses("data"))) == {"n1": ("node(s) didn't find available persistent volumes to bind",)}
    assert player.place(pod("p", uses("data")), "n0") == {"volumes": {"data": "provisioned-data"}}
    assert player.refusals(pod("q", uses("data"))) == {"n1": ("node(s) didn't match PersistentVolume's node affinity",)}


def test_claim_with_a_selected_node_goes_there() -> None:
    refused = Player([*BASE, claim("data", selected="n1")]).refusals(pod("p", uses("data")))
    assert refused == {"n0": ("node(s) didn't find available persistent volumes to bind",)}


def capacity(name: str, host: str, amount: str, largest: str | None = None) -> dict[str, object]:
    topology = {"matchLabels": {"kubernetes.io/hostname": host}}
    more = {"maximumVolumeSize": largest} if largest else {}
    return storage("CSIStorageCapacity", name, storageClassName="cap", capacity=amount, nodeTopology=topology, **more)


CAPACITY = [
    storage_class("cap", provisioner="cap.example.com"),
    storage("CSIDriver", "cap.example.com", spec={"storageCapacity": True}),
    capacity("c0", "n0", "40Gi"),
    capacity("c1", "n1", "200Gi", "60Gi"),
]


@pytest.mark.parametrize(("size", "refused"), [("30Gi", []), ("50Gi", ["n0"]), ("80Gi", ["n0", "n1"])])
def test_storage_capacity(size: str, refused: list[str]) -> None:
    found = Player([*BASE, *CAPACITY, claim("data", "cap", size)]).refusals(pod("p", uses("data")))
    assert found == dict.fromkeys(refused, ("node(s) did not have enough free storage",))


def test_score_prefers_the_emptier_storage() -> None:
    objects = [*BASE, *CAPACITY, claim("data", "cap", "20Gi")]
    assert Player(objects).scores(pod("p", uses("data")), "VolumeBinding") == {"n0": 50, "n1": 90}
    with pytest.raises(KeyError):
        Player(objects, "1.36.3").scores(pod("p", uses("data")), "VolumeBinding")
