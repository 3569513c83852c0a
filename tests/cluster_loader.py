"""Loads a saved cluster into an API server that has no controllers, statuses too, so that it can be read live.

Uids are the server's own; every reference to an old one (owners, claims, events) is rewritten. Kinds of vendors get a stub
definition that keeps all fields. What the server decides by itself and nothing reads is left to it: service addresses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ragstow.cluster.objects import KubeObject
from ragstow.cluster.scope import namespaced
from ragstow.cluster.snapshot import Snapshot
from ragstow.live.client import ApiClient
from ragstow.live.discovery import Resource, discover
from ragstow.live.failures import Conflict, Right

_FIRST = (
    "Namespace", "PriorityClass", "RuntimeClass", "StorageClass", "CSIDriver", "DeviceClass", "Node", "CSINode", "ConfigMap",
    "Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job", "ReplicaSet", "ResourceClaimTemplate", "PersistentVolumeClaim",
    "PersistentVolume", "Pod", "ResourceClaim", "ResourceSlice",
)  # fmt: skip
_LAST = ("Event",)
_AT_ONCE = 8
_TRIES = 10
_RIGHT = Right("create", "objects")


def load_cluster(client: ApiClient, snapshot: Snapshot) -> None:
    """Create every object of a saved cluster, kind after kind, owners before what they own."""
    _define(client, snapshot)
    resources = discover(client.transport)
    uids: dict[str, str] = {}
    for kind, items in _in_order(snapshot):
        first = items[0]
        resource = resources.of(first.api_version, kind)
        assert resource is not None, f"the server has no {kind} of {first.api_version}"
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            made = pool.map(lambda item, resource=resource: _create(client, resource, item, uids), items)
            new = {item.uid: uid for item, uid in zip(items, made, strict=True) if item.uid}
        uids.update(new)


def _in_order(snapshot: Snapshot) -> Iterable[tuple[str, tuple[KubeObject, ...]]]:
    kinds = {kind: tuple(table.values()) for (_, kind), table in snapshot.objects.items() if table}
    middle = sorted(kind for kind in kinds if kind not in (*_FIRST, *_LAST))
    for kind in (*_FIRST, *middle, *_LAST):
        if kind in kinds:
            yield kind, kinds[kind]


def _create(client: ApiClient, resource: Resource, item: KubeObject, uids: Mapping[str, str]) -> str:
    value = _rewritten(item.raw, uids)
    meta = value["metadata"]
    for key in ("uid", "resourceVersion", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"):
        meta.pop(key, None)
    if item.kind == "Service" and value["spec"].get("clusterIP") != "None":
        for key in ("clusterIP", "clusterIPs"):
            value["spec"].pop(key, None)
    if item.kind == "Job" and not value["spec"].get("manualSelector"):
        # The server selects a Job's pods by its uid.
        value["spec"].pop("selector", None)
        labels = value["spec"]["template"]["metadata"]["labels"]
        for key in ("controller-uid", "batch.kubernetes.io/controller-uid"):
            labels.pop(key, None)
    status = value.get("status")
    namespace = item.namespace
    send = client.transport.json
    try:
        made = send("POST", resource.path(namespace), _RIGHT, body=value)
    except Conflict:
        # The server makes some objects itself: its namespaces, its priority classes, its service.
        there = send("GET", resource.path(namespace, item.name), _RIGHT)
        if item.kind in ("Service", "PriorityClass"):
            return str(there["metadata"]["uid"])
        meta["resourceVersion"] = there["metadata"]["resourceVersion"]
        made = send("PUT", resource.path(namespace, item.name), _RIGHT, body=value)
    if status:
        _set_status(client, resource, item, made, status)
    return str(made["metadata"]["uid"])


def _set_status(client: ApiClient, resource: Resource, item: KubeObject, made: Mapping[str, Any], status: Any) -> None:
    if item.kind in ("Event", "ConfigMap") or (item.kind == "Namespace" and status == made.get("status")):
        return
    path = resource.path(item.namespace, item.name)
    for _ in range(_TRIES):
        try:
            client.transport.json("PUT", f"{path}/status", _RIGHT, body={**made, "status": status})
            return
        except Conflict:
            # A controller that runs already was faster.
            made = client.transport.json("GET", path, _RIGHT)
    raise AssertionError(f"{item.ref} changes all the time")


def _rewritten(raw: Mapping[str, Any], uids: Mapping[str, str]) -> dict[str, Any]:
    # Only whole texts: the names of volumes have uids inside and must stay.
    text = re.sub(r'"([0-9a-f-]{36})"', lambda found: f'"{uids.get(found[1], found[1])}"', json.dumps(raw))
    value: dict[str, Any] = json.loads(text)
    return value


def _define(client: ApiClient, snapshot: Snapshot) -> None:
    known = discover(client.transport)
    stubs = [(kind, items[0]) for kind, items in _in_order(snapshot) if known.of(items[0].api_version, kind) is None]
    for kind, first in stubs:
        version = first.api_version.rpartition("/")[2]
        plural = kind.lower()[:-1] + "ies" if kind.endswith("y") else kind.lower() + "s"
        names = {"plural": plural, "singular": kind.lower(), "kind": kind}
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{first.group}"},
            "spec": {
                "group": first.group,
                "names": names,
                "scope": "Namespaced" if first.namespace or namespaced(first.group, kind) else "Cluster",
                "versions": [
                    {
                        "name": version,
                        "served": True,
                        "storage": True,
                        "subresources": {"status": {}},
                        "schema": {"openAPIV3Schema": anything},
                    }
                ],
            },
        }
        client.transport.json("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _RIGHT, body=body)
    for kind, first in stubs:
        _wait_for(client, first.api_version, kind)


def _wait_for(client: ApiClient, api_version: str, kind: str) -> None:
    import time

    for _ in range(100):
        resource = discover(client.transport).of(api_version, kind)
        if resource is not None:
            return
        time.sleep(0.1)
    raise AssertionError(f"{kind} is not served")
