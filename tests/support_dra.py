"""Small clusters for the tests of the allocator and of DynamicResources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragstow.cluster.build import build
from ragstow.cluster.objects import KubeObject, Node
from ragstow.quantity import parse as quantity
from ragstow.scheduling.dra import parse
from ragstow.scheduling.dra.cel import Selectors
from ragstow.scheduling.dra.counters import AvailableCounters
from ragstow.scheduling.dra.model import Allocation, Claim, DeviceClass, Slice
from ragstow.scheduling.dra.pools import PoolIndex
from ragstow.scheduling.dra.results import allocation
from ragstow.scheduling.dra.rules import DraRules
from ragstow.scheduling.dra.search import Inputs, Search
from ragstow.scheduling.dra.state import AllocatedDevices

Json = dict[str, Any]

RULES = DraRules()
DRIVER = "gpu.example.com"
CLASSES = {"gpu": DeviceClass("gpu", (f"device.driver == '{DRIVER}'",))}


def node(name: str, **labels: str) -> Node:
    """A node with labels (underscores stand for dots)."""
    raw = {
        "kind": "Node",
        "metadata": {"name": name, "labels": {key.replace("_", "."): value for key, value in labels.items()}},
    }
    return build([raw]).nodes[0]


def made(kind: str, name: str, spec: Mapping[str, Any], **more: Any) -> KubeObject:
    """One object of the resource.k8s.io group."""
    raw = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name, "namespace": "default", "uid": name}}
    return build([{**raw, "spec": spec, **more}]).of(kind, "resource.k8s.io")[0]


def slice_of(name: str, devices: Sequence[Mapping[str, Any]], pool: str = "node-1", **spec: Any) -> Slice:
    """A slice of one pool on node-1, complete unless `count` says otherwise."""
    count, generation = spec.pop("count", 1), spec.pop("generation", 1)
    where = (
        spec
        if {"nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection"} & set(spec)
        else {**spec, "nodeName": "node-1"}
    )
    identity = {"name": pool, "generation": generation, "resourceSliceCount": count}
    return parse.resource_slice(made("ResourceSlice", name, {"driver": DRIVER, "pool": identity, "devices": devices, **where}))


def gpus(count: int, **attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Devices gpu-0 .. with the same attributes."""
    return [{"name": f"gpu-{number}", "attributes": {**attributes}} for number in range(count)]


def claim(name: str, *requests: Mapping[str, Any], constraints: Sequence[Mapping[str, Any]] = ()) -> Claim:
    """A claim with these requests (each {"name": ..., "exactly"|"firstAvailable": ...})."""
    spec = {"devices": {"requests": list(requests), "constraints": list(constraints)}}
    return parse.resource_claim(made("ResourceClaim", name, spec))


def exactly(name: str = "r", **fields: Any) -> dict[str, Any]:
    """An exact request of class gpu."""
    return {"name": name, "exactly": {"deviceClassName": "gpu", **fields}}


def allocate(
    slices: Sequence[Slice],
    claims: Sequence[Claim],
    *,
    on: Node | None = None,
    allocated: AllocatedDevices | None = None,
    rules: DraRules = RULES,
    classes: Mapping[str, DeviceClass] = CLASSES,
) -> list[Allocation] | None:
    """One allocation attempt on a node (node-1 by default)."""
    where = on or node("node-1")
    state = allocated or AllocatedDevices(rules.consumable)
    inputs = Inputs(rules, classes, Selectors(), state, AvailableCounters(state))
    search = Search(inputs, where, PoolIndex(slices, rules).on(where), claims)
    return [allocation(taken, where) for taken in search.result] if search.run() else None


def names(made: Sequence[Allocation] | None) -> list[list[str]] | None:
    """Device names by claim."""
    return None if made is None else [[item.device.device for item in one.results] for one in made]


def nano(text: str) -> int:
    """An amount in nano units."""
    return quantity(text).nano


def raw_class(name: str, driver: str = DRIVER, resource: str | None = None) -> Json:
    """A class of all devices of a driver, which may back an extended resource."""
    spec: Json = {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]}
    if resource is not None:
        spec["extendedResourceName"] = resource
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def raw_slice(node_name: str, devices: Sequence[str | Mapping[str, Any]], driver: str = DRIVER, **spec: Any) -> Json:
    """The only slice of the pool of a node."""
    listed = [{"name": device} if isinstance(device, str) else device for device in devices]
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    body = {"driver": driver, "pool": pool, "nodeName": node_name, "devices": listed, **spec}
    name = f"{node_name}-{driver}"
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": body}


def raw_claim(
    name: str,
    *requests: Mapping[str, Any],
    allocated: Mapping[str, Any] | None = None,
    users: Sequence[str] = (),
    deleted: bool = False,
    constraints: Sequence[Mapping[str, Any]] = (),
) -> Json:
    """A claim; `users` are pods that use it."""
    meta: Json = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    if deleted:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status: Json = {"reservedFor": [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users]}
    if allocated is not None:
        status["allocation"] = allocated
    spec = {"devices": {"requests": list(requests), "constraints": list(constraints)}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta, "spec": spec, "status": status}


def taken(node_name: str, *devices: str, request: str = "r") -> Json:
    """An allocation of devices of a node's pool, usable on that node only."""
    results = [{"request": request, "driver": DRIVER, "pool": node_name, "device": device} for device in devices]
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    return {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}}


def template_claim(name: str, *requests: Mapping[str, Any], owner: str) -> Json:
    """A claim that was made from a template for the pod with uid `owner`."""
    made = raw_claim(name, *requests)
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": owner, "controller": True}
    made["metadata"]["ownerReferences"] = [reference]
    return made


UNSET = "not from a template"


def pod(name: str, *claims: str, template: str | None = UNSET, **containers: Mapping[str, Any]) -> Json:
    """A pod with claims; `template` is the name of the claim made for it ("" none wanted, None not yet).

    Each further argument is a container's resources; init containers' names start with "init" (those that stay, "init_stays").
    """
    entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    status: Json = {}
    if template != UNSET:
        entries.append({"name": "gpu", "resourceClaimTemplateName": "t"})
        if template is not None:
            status["resourceClaimStatuses"] = [{"name": "gpu", **({"resourceClaimName": template} if template else {})}]
    spec: Json = {"containers": [], "initContainers": [], "resourceClaims": entries}
    for key, amounts in (containers or {"c": {}}).items():
        made: Json = {"name": key.replace("_", "-"), "image": "i", "resources": {"requests": amounts, "limits": amounts}}
        if key.startswith("init_stays"):
            made["restartPolicy"] = "Always"
        spec["initContainers" if key.startswith("init") else "containers"].append(made)
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}
