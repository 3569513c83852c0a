"""A played cluster as a snapshot again: pods on their nodes, claims with what they were given, evicted pods gone.

What is played next (a rollout, a lost node) starts from there. Devices and volumes are taken over as the plugins reported
them when they were booked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ragstow.cluster.objects import KubeObject, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.simulate.model import PodEntry
from ragstow.simulate.play import Play
from ragstow.simulate.workload import made

Json = dict[str, Any]

_DRA = "resource.k8s.io"
_EXTENDED = "extended-resources"
_EXTENDED_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
_PROVISIONED = "provisioned-"
_ZONE = "topology.kubernetes.io/zone"
_BOUND = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}


def freeze(play: Play, snapshot: Snapshot, arrived: Iterable[Pod]) -> Snapshot:
    """The snapshot with `arrived` pods where they are now (those without a node stay Pending) and gone pods taken out.

    Args:
        play: what was played on `snapshot`.
        snapshot: what the play started from.
        arrived: pods that came in during the play.
    """
    booked = {entry.key: entry for entry in play.entries if entry.node is not None}
    put: list[KubeObject] = []
    known: set[str] = set()
    for pod in arrived:
        known.add(pod.key)
        node = play.node_of(pod.key)
        if node is None and pod.node is not None:
            continue  # rejected by the node that it names: it ended there
        if node is None:
            put.append(made({**pod.raw, "status": {**pod.status, "phase": "Pending"}}))
            continue
        entry = booked.get(pod.key)
        status: Json = {**pod.status, "phase": "Running"}
        if entry is not None and _EXTENDED in entry.devices:
            status["extendedResourceClaimStatus"] = {"resourceClaimName": f"{pod.name}-{_EXTENDED}"}
        put.append(made({**pod.raw, "spec": {**pod.spec, "nodeName": node}, "status": status}))
        if entry is not None:
            put += _claims(snapshot, pod, entry)
            put += _volumes(snapshot, pod, entry, node)
    gone = [
        pod
        for pod in snapshot.pods
        if pod.node is not None and not pod.finished and pod.key not in known and play.node_of(pod.key) is None
        if snapshot.get("Node", pod.node) is not None
    ]
    return snapshot.replace(put=put, remove=gone)


def _claims(snapshot: Snapshot, pod: Pod, entry: PodEntry) -> Iterable[KubeObject]:
    consumer = {"resource": "pods", "name": pod.name, "uid": pod.uid}
    for name, shown in entry.devices.items():
        allocation: Json = {"devices": {"results": [_result(item) for item in shown.get("results") or ()]}}
        if shown.get("nodeSelector") is not None:
            allocation["nodeSelector"] = shown["nodeSelector"]
        if name == _EXTENDED:
            raw: Json = {
                "apiVersion": f"{_DRA}/v1",
                "kind": "ResourceClaim",
                "metadata": {
                    "name": f"{pod.name}-{_EXTENDED}",
                    "namespace": pod.namespace,
                    "annotations": {_EXTENDED_ANNOTATION: "true"},
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
                    ],
                },
                "spec": {},
            }
        else:
            claim = snapshot.get("ResourceClaim", name, pod.namespace, group=_DRA)
            if claim is None:
                continue
            raw = dict(claim.raw)
        before = (raw.get("status") or {}).get("reservedFor") or []
        raw["status"] = {"allocation": allocation, "reservedFor": [*before, consumer]}
        yield made(raw)


def _result(shown: Mapping[str, Any]) -> Json:
    result = {key: value for key, value in shown.items() if key not in ("shared", "tolerations")}
    if shown.get("shared"):
        result["shareID"] = "simulated"
    return result


def _volumes(snapshot: Snapshot, pod: Pod, entry: PodEntry, node: str) -> Iterable[KubeObject]:
    for name, volume in entry.volumes.items():
        claim = snapshot.get("PersistentVolumeClaim", name, pod.namespace)
        if claim is None or (claim.raw.get("spec") or {}).get("volumeName"):
            continue
        spec: Mapping[str, Any] = claim.raw.get("spec") or {}
        meta: Mapping[str, Any] = claim.raw.get("metadata") or {}
        bound = {**(meta.get("annotations") or {}), **_BOUND}
        yield made(
            {
                **claim.raw,
                "metadata": {**meta, "annotations": bound},
                "spec": {**spec, "volumeName": volume},
                "status": {"phase": "Bound"},
            }
        )
        held = {"namespace": pod.namespace, "name": name, "uid": claim.uid}
        existing = snapshot.get("PersistentVolume", volume)
        if existing is not None:
            body = {**(existing.raw.get("spec") or {}), "claimRef": held}
            yield made({**existing.raw, "spec": body, "status": {"phase": "Bound"}})
        elif volume.startswith(_PROVISIONED):
            yield made(_provisioned(snapshot, spec, volume, held, node))


def _provisioned(snapshot: Snapshot, spec: Mapping[str, Any], volume: str, held: Json, node: str) -> Json:
    """A volume made on demand: tied to the zone of the node it was made for."""
    at = snapshot.get("Node", node)
    zone = at.labels.get(_ZONE) if at is not None else None
    body: Json = {
        "capacity": dict((spec.get("resources") or {}).get("requests") or {}),
        "accessModes": spec.get("accessModes") or [],
        "storageClassName": spec.get("storageClassName") or "",
        "claimRef": held,
    }
    if zone is not None:
        term = {"matchExpressions": [{"key": _ZONE, "operator": "In", "values": [zone]}]}
        body["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume},
        "spec": body,
        "status": {"phase": "Bound"},
    }
