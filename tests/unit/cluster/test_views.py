"""The small views over a snapshot: release, what a pod asks for, owners, devices and claims."""

from __future__ import annotations

from typing import Any

import pytest

from ragstow.cluster import demand, dra
from ragstow.cluster.build import build
from ragstow.cluster.objects import Pod
from ragstow.cluster.owners import Owners
from ragstow.cluster.read import read
from ragstow.cluster.release import detect, parse
from ragstow.cluster.snapshot import Source
from ragstow.errors import UsageError
from support import DATA


def raw(kind: str, name: str, api: str = "v1", **more: Any) -> dict[str, Any]:
    meta = {"name": name, **more.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": meta, **more}


NODE = raw("Node", "n1", status={"nodeInfo": {"kubeletVersion": "v1.35.3+k3s1"}})
OLD_NODE = raw("Node", "n0", status={"nodeInfo": {"kubeletVersion": "v1.9.9"}})
API = raw(
    "Pod",
    "kube-apiserver-cp-1",
    metadata={"namespace": "kube-system", "labels": {"component": "kube-apiserver"}},
    spec={"containers": [{"name": "kube-apiserver", "image": "registry:5000/kube-apiserver:v1.36.1@sha256:abc"}]},
)


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("v1.37.2", "1.37.2"),
        ("1.37", "1.37"),
        ("v1.34.3-gke.1318000", "1.34.3"),
        ("v1.35.3+k3s1", "1.35.3"),
        ("latest", None),
        ("", None),
    ],
)
def test_versions(text: str, release: str | None) -> None:
    assert parse(text) == release


def test_the_release_and_where_it_is_from() -> None:
    everything = build([NODE, OLD_NODE, API], version="v1.37.2")
    steps = [
        (detect(everything, newest_recorded="1.30", asked="1.33"), "1.33", "--release"),
        (detect(build([], version="v1.37.2", source=Source("live", "x")), newest_recorded="1.30"), "1.37.2", "the API server"),
        (detect(everything, newest_recorded="1.30"), "1.37.2", "the API server"),
        (detect(build([NODE, OLD_NODE, API]), newest_recorded="1.30"), "1.36.1", "the image of the kube-apiserver pod"),
        (detect(build([NODE, OLD_NODE]), newest_recorded="1.30"), "1.35.3", "the newest kubelet"),
        (detect(build([]), newest_recorded="1.30"), "1.30", "the newest recorded release"),
    ]
    for release, version, origin in steps:
        assert release.version == version
        assert release.origin.startswith(origin)
    assert (steps[0][0].numbers, steps[2][0].minor) == ((1, 33), "1.37")
    with pytest.raises(UsageError, match="--release newest"):
        detect(everything, newest_recorded="1.30", asked="newest")


def pod(**spec: Any) -> Pod:
    return build([raw("Pod", "p", spec=spec)]).pods[0]


def ask(amount: int, kind: str = "limits", **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {kind: {"nvidia.com/gpu": amount}}, **more}


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        ({"containers": [ask(1), ask(2)]}, 3),
        ({"containers": [ask(1)], "initContainers": [ask(2)]}, 2),
        ({"containers": [ask(1)], "initContainers": [ask(1, restartPolicy="Always")]}, 2),
        ({"containers": [ask(1)], "initContainers": [ask(1, restartPolicy="Always"), ask(2)]}, 3),
        ({"containers": [ask(1)], "initContainers": [ask(2), ask(1, restartPolicy="Always")]}, 2),
        ({"containers": [ask(0)]}, 0),
        ({"containers": [ask(1, "requests")]}, 1),
        ({"containers": [{"name": "c"}], "overhead": {"nvidia.com/gpu": 1}}, 1),
        ({}, 0),
    ],
)
def test_what_a_pod_asks_for(spec: dict[str, Any], asked: int) -> None:
    assert demand.pod_demand(pod(**spec), "nvidia.com/gpu") == asked


def owned(kind: str, name: str, by: dict[str, Any] | None, uid: str, api: str = "apps/v1") -> dict[str, Any]:
    meta: dict[str, Any] = {"namespace": "rag", "uid": uid}
    if by is not None:
        reference = {
            "apiVersion": by["apiVersion"],
            "kind": by["kind"],
            "name": by["metadata"]["name"],
            "uid": by["metadata"]["uid"],
        }
        meta["ownerReferences"] = [{**reference, "controller": True}]
    return raw(kind, name, api, metadata=meta)


def test_the_workload_above_a_pod() -> None:
    deployment = owned("Deployment", "llm", None, "d")
    replicas = owned("ReplicaSet", "llm-1", deployment, "r")
    one = owned("Pod", "llm-1-x", replicas, "p", "v1")
    whole, partial = build([deployment, replicas, one]), build([replicas, one])
    assert Owners(whole).workload(whole.pods[0]).ref == "Deployment rag/llm"
    above = Owners(partial).workload(partial.pods[0])
    assert (above.ref, above.object) == ("Deployment rag/llm", None)
    lone = build([owned("Pod", "x", None, "u", "v1")])
    assert Owners(lone).workload(lone.pods[0]).ref == "Pod rag/x"
    # The ReplicaSet was made anew under its old name: not the owner any more.
    again = build([deployment, replicas | {"metadata": replicas["metadata"] | {"uid": "other"}}, one])
    assert Owners(again).workload(again.pods[0]).object is None


def test_devices_and_claims_of_a_recorded_cluster() -> None:
    snapshot = read(str(DATA / "clusters" / "10-dra-driver.tar.gz"))
    devices = dra.devices(snapshot, "gpu.nvidia.com")
    assert len(devices) == 14
    cut = next(device for device in devices if device.id.device == "gpu-3-mig-3g40gb-9-0")
    assert (cut.node, cut.attributes["profile"], cut.capacity["memory"]) == ("dra-2", "3g.40gb", 40192 << 20)
    shared = next(claim for claim in dra.claims(snapshot) if claim.key == "rag/small-models")
    assert len(shared.pods) == 2
    assert not shared.extended
    assert [claim.pods[0] for claim in dra.claims(snapshot) if claim.extended] == ["rag/vision-55bb8b94dd-qcrq5"]


def slice_of(name: str, generation: int, *devices: dict[str, Any]) -> dict[str, Any]:
    spec = {"driver": "d.example", "nodeName": "n", "pool": {"name": "n", "generation": generation}, "devices": list(devices)}
    return raw("ResourceSlice", name, "resource.k8s.io/v1", spec=spec)


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    old = slice_of("a", 1, {"name": "x"}, {"name": "y"})
    new = slice_of(
        "b", 2, {"name": "x", "basic": {"attributes": {"d.example/index": {"int": 3}}, "capacity": {"memory": "1Gi"}}}
    )
    found = dra.devices(build([old, new]), "d.example")
    assert [(device.id.device, dict(device.attributes), dict(device.capacity)) for device in found] == [
        ("x", {"index": 3}, {"memory": 1 << 30})
    ]


def test_an_administrators_claim_holds_nothing() -> None:
    results = [{"driver": "d", "pool": "p", "device": "x", "adminAccess": True}, {"driver": "d", "pool": "p", "device": "y"}]
    claim = raw("ResourceClaim", "c", "resource.k8s.io/v1", status={"allocation": {"devices": {"results": results}}})
    assert [device.device for device in dra.claims(build([claim]))[0].devices] == ["y"]
