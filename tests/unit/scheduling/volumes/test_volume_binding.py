"""VolumeBinding: what a pod's claims need on a node, in upstream's words, and what later pods see."""

from __future__ import annotations

import random

import pytest

from ragstow.cluster.build import build
from ragstow.cluster.objects import Node
from ragstow.scheduling.release import Release
from ragstow.scheduling.volumes.cluster import VolumeCluster
from ragstow.scheduling.volumes.model import Volume, VolumeClaim
from ragstow.scheduling.world import World
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


def test_the_index_of_free_volumes_finds_what_looking_at_all_of_them_finds() -> None:
    rng = random.Random(7)
    zone, host = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
    nodes = [node(f"n{number}", zone="ab"[number % 2]) for number in range(4)]
    nodes.append(node("bare"))
    for _ in range(60):
        volumes = [
            volume(
                f"v{number}",
                "local",
                f"{rng.randint(1, 4)}Gi",
                at=rng.choice([None, {zone: "a"}, {zone: "b"}, {host: "n1"}, {host: "n2", zone: "a"}]),
                claim=rng.choice(["", "", "", "c0", "c1"]),
            )
            for number in range(8)
        ]
        claims = [claim(f"c{number}", "local", f"{rng.randint(1, 4)}Gi") for number in range(3)]
        world = World(build([*nodes, *CLASSES, *volumes, *claims]), Release.parse("1.37.2"))
        cluster, listed = world.view(VolumeCluster), sorted(item["metadata"]["name"] for item in volumes)
        for turn in range(2):
            for info in world.nodes:
                for name in ("c0", "c1", "c2"):
                    wanted = cluster.claim("default", name)
                    assert wanted is not None
                    found = [item.name for item in cluster.candidates(wanted, info.node)]
                    every = [item for known in listed if (item := cluster.volume(known)) is not None]
                    may = [item.name for item in every if _may(item, wanted, info.node)]
                    assert set(may) <= set(found)
                    assert found == sorted(found)
            free = [item for known in listed if (item := cluster.volume(known)) is not None and item.claim is None]
            unbound = cluster.claim("default", "c2")
            assert unbound is not None
            if free and not turn:
                cluster.bind(unbound, rng.choice(free))


def _may(item: Volume, wanted: VolumeClaim, at: Node) -> bool:
    mine = item.claim is None or item.claimed_by(wanted)
    return mine and (item.claimed_by(wanted) or item.nodes is None or item.nodes.matches(at))
