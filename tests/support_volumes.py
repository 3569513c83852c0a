"""Small clusters with volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]


def node(name: str, **labels: str) -> Json:
    """A node with room for everything; `zone` is short for the topology label."""
    known = {"topology.kubernetes.io/zone" if key == "zone" else key: value for key, value in labels.items()}
    room = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **known}},
        "status": {"allocatable": room, "capacity": room},
    }


def pod(name: str, *volumes: Mapping[str, Any], on: str | None = None) -> Json:
    """A pod with volumes; running where `on` says so."""
    spec: Json = {
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": f"v{n}", **v} for n, v in enumerate(volumes)],
    }
    if on is not None:
        spec["nodeName"] = on
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": spec,
    }


def uses(claim: str) -> Json:
    """A volume that names a claim."""
    return {"persistentVolumeClaim": {"claimName": claim}}


def claim(name: str, storage_class: str = "fast", size: str = "10Gi", volume: str = "", **more: Any) -> Json:
    """A claim; bound where `volume` is given. `modes`, `phase`, `deleted`, `owner` and `selected` set what they say."""
    meta: Json = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": {}}
    spec: Json = {
        "storageClassName": storage_class,
        "accessModes": more.get("modes", ["ReadWriteOnce"]),
        "resources": {"requests": {"storage": size}},
    }
    if volume:
        spec["volumeName"] = volume
        meta["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
    if more.get("selected"):
        meta["annotations"]["volume.kubernetes.io/selected-node"] = more["selected"]
    if more.get("deleted"):
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if more.get("owner"):
        meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": more["owner"], "controller": True}]
    status = {"phase": more.get("phase", "Bound" if volume else "Pending")}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec, "status": status}


def volume(name: str, storage_class: str = "fast", size: str = "10Gi", **more: Any) -> Json:
    """A volume; `at` = {label: value} is its node affinity; `labels`, `phase`, `claim` and `csi` (driver, handle) as named."""
    spec: Json = {"storageClassName": storage_class, "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]}
    if more.get("at"):
        wanted = [{"key": key, "operator": "In", "values": [value]} for key, value in more["at"].items()]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": wanted}]}}
    if more.get("claim"):
        spec["claimRef"] = {"namespace": "default", "name": more["claim"], "uid": f"uid-{more['claim']}"}
    if more.get("csi"):
        spec["csi"] = {"driver": more["csi"][0], "volumeHandle": more["csi"][1]}
    phase = more.get("phase", "Bound" if more.get("claim") else "Available")
    meta = {"name": name, "labels": more.get("labels", {})}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec, "status": {"phase": phase}}


def storage_class(name: str, *, wait: bool = True, provisioner: str = "csi.example.com", zones: Sequence[str] = ()) -> Json:
    """A storage class."""
    made: Json = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer" if wait else "Immediate",
    }
    if zones:
        made["allowedTopologies"] = [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": list(zones)}]}]
    return made


def storage(kind: str, name: str, **body: Any) -> Json:
    """Any other object of storage.k8s.io."""
    return {"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, **body}
