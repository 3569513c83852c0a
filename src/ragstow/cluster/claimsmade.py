"""Completes what partial data leave out of DRA: which claims the control plane made for waiting pods.

A pod whose claims come from templates names them in its status, and the claims name the pod as their owner. Reports often hold
the claim without either, or the template alone; to the scheduler library such a pod waits for claims to be made. Here they are
put together, for answering "where would it fit" only: nothing that is made here is an object of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from ragstow.cluster.build import RawObject, make
from ragstow.cluster.dra import GROUP, devices
from ragstow.cluster.objects import KubeObject, Pod
from ragstow.cluster.snapshot import Snapshot

_POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
_ROOM = {"cpu": "1k", "memory": "1Pi", "ephemeral-storage": "1Pi", "pods": "1k"}
_TOLD_MISSING = "ResourceClaim not created yet"


def uses_claims(snapshot: Snapshot) -> bool:
    """Whether the cluster has objects of dynamic resource allocation, so that the feature must be on whatever its release."""
    return any(snapshot.of(kind, GROUP) for kind in ("ResourceSlice", "ResourceClaim", "DeviceClass"))


def with_claims(snapshot: Snapshot) -> Snapshot:
    """The snapshot with the claims of waiting pods tied to them; the same snapshot where there is nothing to tie.

    Source: names and owners as the claim controller of kube-controller-manager gives them (`<pod>-<name in pod>-<random>`).
    """
    put: list[KubeObject] = []
    taken = {
        f"{pod.namespace}/{entry['resourceClaimName']}"
        for pod in snapshot.pods
        for entry in _entries(pod)
        if entry.get("resourceClaimName")
    }
    for pod in snapshot.pods:
        if pod.node or pod.finished or not pod.live or _told_missing(pod):
            continue
        told = {str(item.get("name")) for item in pod.status.get("resourceClaimStatuses") or () if isinstance(item, Mapping)}
        tied: list[dict[str, str]] = []
        for entry in _entries(pod):
            if str(entry.get("name")) in told:
                continue
            claim = _claim(snapshot, pod, entry, taken)
            if claim is not None:
                taken.add(f"{claim.namespace}/{claim.name}")
                tied.append({"name": str(entry.get("name")), "resourceClaimName": claim.name})
                put.append(claim)
        if tied:
            statuses = [*(pod.status.get("resourceClaimStatuses") or ()), *tied]
            put.append(make(RawObject({**pod.raw, "status": {**pod.status, "resourceClaimStatuses": statuses}})))
    put += _nodes(snapshot)
    put += _classes(snapshot, (*snapshot.of("ResourceClaim", GROUP), *put))
    return snapshot.replace(put=put) if put else snapshot


def _nodes(snapshot: Snapshot) -> list[KubeObject]:
    """Where the data hold no node: those that publish devices, with room for everything else."""
    if snapshot.nodes:
        return []
    names = [(item.raw.get("spec") or {}).get("nodeName") for item in snapshot.of("ResourceSlice", GROUP)]
    meta = [
        {"name": name, "labels": {"kubernetes.io/hostname": name}} for name in dict.fromkeys(names) if isinstance(name, str)
    ]
    status = {"capacity": _ROOM, "allocatable": _ROOM}
    return [make(RawObject({"apiVersion": "v1", "kind": "Node", "metadata": item, "status": status})) for item in meta]


def _classes(snapshot: Snapshot, claims: Iterable[KubeObject]) -> list[KubeObject]:
    """The classes that claims name, where devices are published and the data have no class at all: a list that was not saved.

    A class is called after its driver (`gpu.example.com`), or after a type of device in its domain (`mig.example.com`).
    """
    types: dict[str, set[str]] = {}
    for item in snapshot.of("ResourceSlice", GROUP):
        driver = str((item.raw.get("spec") or {}).get("driver") or "")
        types.setdefault(driver, set()).update(str(device.attributes.get("type")) for device in devices(snapshot, driver))
    if not types or snapshot.of("DeviceClass", GROUP):
        return []
    made: dict[str, KubeObject] = {}
    for claim in claims:
        for name in _class_names(claim):
            kind, _, domain = name.partition(".")
            driver = name if name in types else next((known for known in types if known.partition(".")[2] == domain), "")
            if driver:
                typed = kind in types[driver] or name != driver
                selector = f"device.driver == '{driver}'" + (
                    f" && device.attributes['{driver}'].type == '{kind}'" if typed else ""
                )
                spec = {"selectors": [{"cel": {"expression": selector}}]}
                raw = {"apiVersion": f"{GROUP}/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}
                made[name] = make(RawObject(raw))
    return list(made.values())


def _class_names(claim: KubeObject) -> Iterator[str]:
    listed = ((claim.raw.get("spec") or {}).get("devices") or {}).get("requests") if claim.kind == "ResourceClaim" else ()
    for request in listed or ():
        for inner in request.get("firstAvailable") or (request.get("exactly") or request,):
            if isinstance(inner.get("deviceClassName"), str):
                yield inner["deviceClassName"]


def _entries(pod: Pod) -> tuple[Mapping[str, Any], ...]:
    listed = pod.spec.get("resourceClaims")
    return tuple(entry for entry in listed if isinstance(entry, Mapping)) if isinstance(listed, list) else ()


def _told_missing(pod: Pod) -> bool:
    conditions = pod.status.get("conditions") or ()
    return any(_TOLD_MISSING in str(item.get("message")) for item in conditions if isinstance(item, Mapping))


def claim_of(snapshot: Snapshot, pod: Pod, entry: Mapping[str, Any], taken: Collection[str] = ()) -> KubeObject | None:
    """The claim in the data that was made for an entry of the pod's `resourceClaims` from a template, as far as signs tell.

    Args:
        snapshot: the cluster.
        pod: a pod without a node.
        entry: one entry of `spec.resourceClaims`.
        taken: "namespace/name" of claims that are others'.
    """
    template = entry.get("resourceClaimTemplateName")
    if not isinstance(template, str) or not template:
        return None
    claims = [
        item
        for item in snapshot.of("ResourceClaim", GROUP)
        if item.namespace == pod.namespace and f"{item.namespace}/{item.name}" not in taken
    ]
    return next((item for ask in _signs(pod, entry, template) for item in claims if ask(item)), None)


def _claim(snapshot: Snapshot, pod: Pod, entry: Mapping[str, Any], taken: set[str]) -> KubeObject | None:
    """The pod's claim for this entry, owned by it: one of the data, else one made from the template."""
    found = claim_of(snapshot, pod, entry, taken)
    if found is not None:
        return _owned(found.raw, pod)
    template = str(entry.get("resourceClaimTemplateName") or "")
    source = snapshot.get("ResourceClaimTemplate", template, pod.namespace, GROUP)
    spec = source.raw.get("spec") if source is not None else None
    if source is None or not isinstance(spec, Mapping) or not isinstance(spec.get("spec"), Mapping):
        return None
    meta = {"name": f"{pod.name}-{entry.get('name')}", "namespace": pod.namespace}
    made = {"apiVersion": source.raw.get("apiVersion"), "kind": "ResourceClaim", "metadata": meta, "spec": spec["spec"]}
    return _owned(made, pod)


def _signs(pod: Pod, entry: Mapping[str, Any], template: str) -> Iterator[Callable[[KubeObject], bool]]:
    """What tells a pod's claim, the surest sign first."""
    name = str(entry.get("name"))

    def owned(item: KubeObject) -> bool:
        return any(owner.kind == "Pod" and owner.name == pod.name for owner in item.owners)

    def free(item: KubeObject) -> bool:
        return not item.owners and "allocation" not in (item.raw.get("status") or {})

    yield lambda item: owned(item) and item.annotations.get(_POD_CLAIM_NAME) == name
    yield lambda item: owned(item) and item.name.startswith(f"{pod.name}-{name}")
    yield lambda item: free(item) and item.name.startswith(f"{pod.name}-{name}")
    yield lambda item: free(item) and item.name.startswith(template)


def _owned(raw: Mapping[str, Any], pod: Pod) -> KubeObject:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    return make(RawObject({**raw, "metadata": {**raw["metadata"], "ownerReferences": [owner]}}))
