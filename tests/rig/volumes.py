"""Plays the provisioner of every storage class: a claim gets a volume of its size, which goes when the claim is gone."""

from __future__ import annotations

from ragstow.cluster.objects import KubeObject
from ragstow.cluster.snapshot import Snapshot
from ragstow.live.client import ApiClient
from ragstow.live.failures import Conflict

_NODE = "volume.kubernetes.io/selected-node"
_MARK = "rig.test/provisioned"


def provide(client: ApiClient, snapshot: Snapshot) -> None:
    """Make the volumes that claims wait for, delete those that were released."""
    classes = {item.name: item for item in snapshot.of("StorageClass", "storage.k8s.io")}
    there = {item.name for item in snapshot.of("PersistentVolume")}
    for claim in snapshot.of("PersistentVolumeClaim"):
        if (claim.raw.get("status") or {}).get("phase") != "Pending" or claim.deleted is not None:
            continue
        chosen = classes.get(str(claim.raw["spec"].get("storageClassName")))
        late = chosen is not None and chosen.raw.get("volumeBindingMode") == "WaitForFirstConsumer"
        name = f"pvc-{claim.uid}"
        if chosen is not None and name not in there and (not late or claim.annotations.get(_NODE)):
            _make(client, claim, chosen, name)
    volumes = client.resources().plural("", "persistentvolumes")
    assert volumes is not None
    for volume in snapshot.of("PersistentVolume"):
        if volume.annotations.get(_MARK) and (volume.raw.get("status") or {}).get("phase") == "Released":
            client.delete(volumes, volume.name)


def _make(client: ApiClient, claim: KubeObject, chosen: KubeObject, name: str) -> None:
    spec = claim.raw["spec"]
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
    }
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {_MARK: "true"}},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": chosen.name,
            "hostPath": {"path": f"/var/lib/volumes/{name}"},
            "claimRef": reference,
        },
    }
    try:
        client.create(volume)
    except Conflict:
        return
