"""Loads a saved cluster under running controllers: what people and charts made is created, what controllers make they make.

Pods and ReplicaSets with a controller are left out, and come back as the scheduler of this control plane decides; static pods
are created on their nodes. Nodes start as not ready and are made ready by KWOK, which writes its own port into them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from cluster_loader import _create, _define, _in_order
from ragstow.cluster.objects import KubeObject
from ragstow.cluster.snapshot import Snapshot
from ragstow.live.client import ApiClient
from ragstow.live.discovery import discover

_MADE_BY_CONTROLLERS = frozenset({"ReplicaSet", "ControllerRevision", "Event", "Job", "VolumeAttachment", "ResourceClaim"})
_AT_ONCE = 8


def load_running(client: ApiClient, snapshot: Snapshot) -> None:
    """Create the objects of a saved cluster, owners before what they own."""
    _define(client, snapshot)
    resources = discover(client.transport)
    uids: dict[str, str] = {}
    # Vendors' kinds first: the garbage collector ends what has an owner that is not there.
    for kind, items in sorted(_in_order(snapshot), key=lambda pair: not _vendors(pair[1][0])):
        wanted = [replace(item, raw=_prepared(item)) for item in items if _ours(item)]
        if not wanted:
            continue
        resource = resources.of(wanted[0].api_version, kind)
        assert resource is not None, f"the server has no {kind} of {wanted[0].api_version}"
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            made = list(pool.map(lambda item, resource=resource: _create(client, resource, item, uids), wanted))
        uids.update({item.uid: uid for item, uid in zip(wanted, made, strict=True) if item.uid})


def _vendors(item: KubeObject) -> bool:
    return "." in item.group and not item.group.endswith(".k8s.io")


def _ours(item: KubeObject) -> bool:
    if item.kind == "Pod":
        above = item.controller
        return above is None or above.kind == "Node"
    return item.kind not in _MADE_BY_CONTROLLERS


def _prepared(item: KubeObject) -> dict[str, Any]:
    raw = dict(item.raw)
    if item.kind == "Node":
        status = {
            key: value for key, value in raw["status"].items() if key not in ("conditions", "addresses", "daemonEndpoints")
        }
        raw["status"] = status
        spec = {key: value for key, value in raw.get("spec", {}).items() if key not in ("podCIDR", "podCIDRs")}
        taints = [taint for taint in spec.get("taints") or () if not str(taint["key"]).startswith("node.kubernetes.io/")]
        raw["spec"] = {**spec, "taints": taints}
    elif item.kind in (
        "Pod",
        "DaemonSet",
        "Deployment",
        "StatefulSet",
        "Namespace",
        "PersistentVolumeClaim",
        "PodDisruptionBudget",
    ):
        raw.pop("status", None)
        if item.kind == "PersistentVolumeClaim":
            # Bound to a volume that the controller finds again.
            raw["metadata"] = {**raw["metadata"], "annotations": {}}
    elif item.kind == "PersistentVolume":
        raw.pop("status", None)
    return raw
