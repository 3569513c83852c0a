"""Pods that wait for resource claims (DRA): which claims, classes and drivers, and what the claims ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ragstow.cluster.build import RawObject, make
from ragstow.cluster.claimsmade import claim_of
from ragstow.cluster.objects import Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.rules.context import Context, PendingVerdict
from ragstow.rules.model import ObjectRef
from ragstow.rules.waiting import Waiting, waiting

_GROUP = "resource.k8s.io"
DEFAULT_DRIVER = "gpu.nvidia.com"


@dataclass(frozen=True, slots=True)
class ClaimGroup:
    """Waiting pods with claims that are not allocated: claim names, the objects to look at (a claim, else its template), device
    classes, drivers, CEL expressions, and how many devices one pod asks for."""

    waiting: Waiting
    claims: tuple[str, ...]
    classes: tuple[str, ...]
    drivers: frozenset[str]
    expressions: tuple[str, ...]
    refs: tuple[ObjectRef, ...] = ()
    count: int = 0


def claim_groups(context: Context) -> tuple[ClaimGroup, ...]:
    """The groups of waiting pods that have claims."""
    found: list[ClaimGroup] = []
    for group in waiting(context):
        requests: list[Mapping[str, Any]] = []
        names: list[str] = []
        refs: list[ObjectRef] = []
        count = 0
        for entry in group.pod.spec.get("resourceClaims") or ():
            name, kind, spec = _claim(context, group, entry)
            names.append(name)
            refs.append(ObjectRef(kind, group.pod.namespace, name))
            requests.extend(_requests(spec))
            count += sum(_count(request) for request in _first(spec))
        if not names:
            names, requests = _extended(context, group)
        if names:
            classes = tuple(
                dict.fromkeys(str(request["deviceClassName"]) for request in requests if request.get("deviceClassName"))
            )
            expressions = tuple(
                str((selector.get("cel") or {}).get("expression"))
                for request in requests
                for selector in request.get("selectors") or ()
            )
            # A class of a vendor is called after its driver, as far as classes say anything about drivers.
            drivers = frozenset(_driver(context, name) for name in classes) or frozenset({DEFAULT_DRIVER})
            found.append(ClaimGroup(group, tuple(names), classes, drivers, expressions, tuple(refs), count))
    return tuple(found)


def _extended(context: Context, group: Waiting) -> tuple[list[str], list[Mapping[str, Any]]]:
    """Extended resources that the pod wants, that no node offers and a DeviceClass hands out (KEP-5004), as requests."""
    names: list[str] = []
    requests: list[Mapping[str, Any]] = []
    for item in context.snapshot.of("DeviceClass", _GROUP):
        name = str((item.raw.get("spec") or {}).get("extendedResourceName") or "")
        offered = any(name in node.resources and node.resources[name].capacity for node in context.inventory.nodes)
        if name in group.wants and not offered:
            names.append(name)
            requests.append({"deviceClassName": item.name, "count": group.wants[name]})
    return names, requests


def missing_classes(context: Context, group: ClaimGroup) -> list[str]:
    """Device classes that the claims name and the cluster does not have.

    Where devices are published and the data hold no class at all, the classes were not saved; the scheduler would say that one
    "does not exist".
    """
    absent = [name for name in group.classes if context.snapshot.get("DeviceClass", name, group=_GROUP) is None]
    unsaved = context.snapshot.of("ResourceSlice", _GROUP) and not context.snapshot.of("DeviceClass", _GROUP)
    said = " ".join(entry.value for entry in group.waiting.evidence)
    return [name for name in absent if not unsaved or f"device class {name} does not exist" in said]


def unclaimed(context: Context, group: Waiting) -> PendingVerdict | None:
    """The scheduler's answer if no claim were allocated and no pod held a device; None where nobody can be asked."""
    if context.elsewhere is None:
        return None
    elsewhere = context.elsewhere
    ask: Callable[[Pod], PendingVerdict] = context.remember("unclaimed", lambda: elsewhere(_emptied(context)))
    return ask(group.pod)


def _emptied(context: Context) -> Snapshot:
    claims = [item for item in context.snapshot.of("ResourceClaim", _GROUP) if "allocation" in (item.raw.get("status") or {})]
    free = [make(RawObject({key: value for key, value in item.raw.items() if key != "status"})) for item in claims]
    holders = [pod for pod in context.snapshot.pods if pod.node and not pod.finished and _holds(pod)]
    return context.snapshot.replace(put=free, remove=holders)


def _holds(pod: Pod) -> bool:
    return bool(pod.spec.get("resourceClaims")) or bool(pod.status.get("extendedResourceClaimStatus"))


def _claim(context: Context, group: Waiting, entry: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]]:
    """(name, kind, what it asks for) of a claim, or of the template where the claim itself is not in the data."""
    namespace = group.pod.namespace
    name = str(entry.get("resourceClaimName") or "")
    if not name:
        statuses = group.pod.status.get("resourceClaimStatuses") or ()
        name = next((str(s.get("resourceClaimName")) for s in statuses if s.get("name") == entry.get("name")), "")
    item = context.snapshot.get("ResourceClaim", name, namespace, _GROUP) if name else None
    item = item or claim_of(context.snapshot, group.pod, entry)
    if item is not None:
        return item.name, "ResourceClaim", item.raw.get("spec") or {}
    template = str(entry.get("resourceClaimTemplateName") or "")
    found = context.snapshot.get("ResourceClaimTemplate", template, namespace, _GROUP) if template else None
    spec = (found.raw.get("spec") or {}).get("spec") or {} if found is not None else {}
    return (name, "ResourceClaim", spec) if name else (template, "ResourceClaimTemplate", spec)


def _first(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """One of the alternatives of each request: the first, which is wanted most."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        yield (request.get("firstAvailable") or [request.get("exactly") or request])[0]


def _count(request: Mapping[str, Any]) -> int:
    count = request.get("count", 1)
    return count if isinstance(count, int) else 1


def _requests(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for request in (spec.get("devices") or {}).get("requests") or ():
        yield from request.get("firstAvailable") or (request.get("exactly") or request,)


def _driver(context: Context, device_class: str) -> str:
    item = context.snapshot.get("DeviceClass", device_class, group=_GROUP)
    for selector in ((item.raw.get("spec") or {}).get("selectors") or ()) if item is not None else ():
        expression = str((selector.get("cel") or {}).get("expression"))
        if "device.driver ==" in expression:
            return expression.split("device.driver ==", 1)[1].strip().split("&&")[0].strip().strip("'\"")
    if item is None and not context.snapshot.of("DeviceClass", _GROUP):
        published = {str((found.raw.get("spec") or {}).get("driver")) for found in context.snapshot.of("ResourceSlice", _GROUP)}
        if len(published) == 1:
            return published.pop()
    return DEFAULT_DRIVER if device_class.endswith("nvidia.com") else device_class
