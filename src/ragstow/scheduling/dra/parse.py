"""Reads `resource.k8s.io` objects into the values of `model`.

v1 and v1beta2 have one shape; v1beta1 has requests without `exactly` and devices under `basic`. Absent fields get the API's
defaults (ExactCount, 1, Equal). Unknown fields are left out, broken ones raise `InputError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstow.cluster.objects import KubeObject
from ragstow.quantity import Quantity
from ragstow.quantity import parse as parse_quantity
from ragstow.scheduling.dra.model import (
    Allocation,
    Attribute,
    Capacity,
    Claim,
    Constraint,
    Device,
    DeviceClass,
    DeviceId,
    DeviceRequest,
    DeviceResult,
    DeviceTaint,
    DeviceToleration,
    NodeScope,
    Request,
    RequestPolicy,
    Slice,
)

EXTENDED_CLAIM_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"

Raw = Mapping[str, Any]

_ATTRIBUTE_KINDS = ("int", "bool", "string", "version")


def device_class(item: KubeObject) -> DeviceClass:
    """A DeviceClass."""
    spec: Raw = item.raw.get("spec") or {}
    return DeviceClass(
        name=item.name,
        selectors=tuple(_expression(selector) or "" for selector in spec.get("selectors") or ()),
        extended_resource=str(spec.get("extendedResourceName") or ""),
        created=item.created or "",
    )


def resource_slice(item: KubeObject) -> Slice:
    """A ResourceSlice."""
    spec: Raw = item.raw.get("spec") or {}
    pool: Raw = spec.get("pool") or {}
    driver, pool_name = str(spec.get("driver") or ""), str(pool.get("name") or "")
    return Slice(
        name=item.name,
        driver=driver,
        pool=pool_name,
        generation=int(pool.get("generation") or 0),
        slice_count=int(pool.get("resourceSliceCount") or 0),
        devices=tuple(_device(raw, driver, pool_name) for raw in spec.get("devices") or ()),
        counter_sets=tuple(
            (str(raw.get("name") or ""), _counters(raw.get("counters"))) for raw in spec.get("sharedCounters") or ()
        ),
        node_name=str(spec.get("nodeName") or ""),
        all_nodes=spec.get("allNodes") is True,
        scope=NodeScope.read(spec.get("nodeSelector")),
        per_device=spec.get("perDeviceNodeSelection") is True,
    )


def resource_claim(item: KubeObject) -> Claim:
    """A ResourceClaim."""
    spec: Raw = item.raw.get("spec") or {}
    status: Raw = item.raw.get("status") or {}
    devices: Raw = spec.get("devices") or {}
    owner = item.controller
    extended = item.annotations.get(EXTENDED_CLAIM_ANNOTATION) == "true"
    return Claim(
        namespace=item.namespace,
        name=item.name,
        uid=item.uid,
        requests=tuple(device_request(raw) for raw in devices.get("requests") or ()),
        constraints=tuple(
            Constraint(tuple(raw.get("requests") or ()), raw.get("matchAttribute"), raw.get("distinctAttribute"))
            for raw in devices.get("constraints") or ()
        ),
        allocation=_allocation(status.get("allocation")),
        reserved_for=tuple(
            (str(raw.get("resource") or ""), str(raw.get("name") or ""), str(raw.get("uid") or ""))
            for raw in status.get("reservedFor") or ()
        ),
        deleted=item.deleted is not None,
        owner_uid=owner.uid if owner else "",
        extended_for=owner.uid if extended and owner else "",
        raw=item.raw,
    )


def device_request(raw: Raw) -> DeviceRequest:
    """One entry of spec.devices.requests."""
    name = str(raw.get("name") or "")
    exactly = raw.get("exactly")
    if exactly is None and raw.get("deviceClassName"):
        exactly = raw
    return DeviceRequest(
        name=name,
        exactly=None if exactly is None else _request(exactly, name),
        alternatives=tuple(_request(sub, str(sub.get("name") or "")) for sub in raw.get("firstAvailable") or ()),
    )


def device_taint(raw: Raw) -> DeviceTaint:
    """A taint as slices and DeviceTaintRules write it."""
    return DeviceTaint(str(raw.get("key") or ""), str(raw.get("value") or ""), str(raw.get("effect") or ""))


def _request(raw: Raw, name: str) -> Request:
    capacity = raw.get("capacity")
    return Request(
        name=name,
        class_name=str(raw.get("deviceClassName") or ""),
        mode=str(raw.get("allocationMode") or "ExactCount"),
        count=int(raw.get("count") or 1),
        admin=raw.get("adminAccess") is True,
        admin_set=raw.get("adminAccess") is not None,
        selectors=tuple(_expression(selector) for selector in raw.get("selectors") or ()),
        tolerations=tuple(_toleration(item) for item in raw.get("tolerations") or ()),
        capacity=None if capacity is None else _quantities(capacity.get("requests")),
    )


def _allocation(raw: Raw | None) -> Allocation | None:
    if raw is None:
        return None
    results = (raw.get("devices") or {}).get("results") or ()
    return Allocation(
        tuple(
            DeviceResult(
                request=str(item.get("request") or ""),
                device=DeviceId(str(item.get("driver") or ""), str(item.get("pool") or ""), str(item.get("device") or "")),
                admin=item.get("adminAccess") is True,
                shared=item.get("shareID") is not None,
                consumed=None if item.get("consumedCapacity") is None else _quantities(item["consumedCapacity"]),
                tolerations=tuple(_toleration(entry) for entry in item.get("tolerations") or ()),
            )
            for item in results
        ),
        NodeScope.read(raw.get("nodeSelector")),
    )


def _device(raw: Raw, driver: str, pool: str) -> Device:
    body: Raw = raw.get("basic") or raw
    return Device(
        id=DeviceId(driver, pool, str(raw.get("name") or "")),
        attributes={str(name): _attribute(value) for name, value in (body.get("attributes") or {}).items()},
        capacity={str(name): _capacity(value) for name, value in (body.get("capacity") or {}).items()},
        consumes=tuple(
            (str(item.get("counterSet") or ""), _counters(item.get("counters"))) for item in body.get("consumesCounters") or ()
        ),
        taints=tuple(device_taint(item) for item in body.get("taints") or ()),
        shareable=body.get("allowMultipleAllocations") is True,
        node_name=str(body.get("nodeName") or ""),
        all_nodes=body.get("allNodes") is True,
        scope=NodeScope.read(body.get("nodeSelector")),
        has_binding_conditions=bool(body.get("bindingConditions")),
        binds_to_node=body.get("bindsToNode") is True,
    )


def _attribute(raw: Raw) -> Attribute:
    for kind in _ATTRIBUTE_KINDS:
        if raw.get(kind) is not None:
            return kind, raw[kind]
        if raw.get(f"{kind}s") is not None:
            return f"{kind}s", tuple(raw[f"{kind}s"])
    return "", None


def _capacity(raw: Raw | str) -> Capacity:
    if not isinstance(raw, Mapping):
        return Capacity(parse_quantity(raw))
    policy = raw.get("requestPolicy")
    value = parse_quantity(raw.get("value") or "0")
    return Capacity(value, None if policy is None else _policy(policy))


def _policy(raw: Raw) -> RequestPolicy:
    limits = raw.get("validRange")
    bounds: Raw = limits or {}
    return RequestPolicy(
        default=_optional(raw.get("default")),
        values=tuple(parse_quantity(value) for value in raw.get("validValues") or ()),
        minimum=_optional(bounds.get("min")),
        maximum=_optional(bounds.get("max")),
        step=_optional(bounds.get("step")),
        has_range=limits is not None,
    )


def _optional(raw: Any) -> Quantity | None:
    return None if raw is None else parse_quantity(raw)


def _quantities(raw: Raw | None) -> Mapping[str, Quantity]:
    return {str(name): parse_quantity(value) for name, value in (raw or {}).items()}


def _counters(raw: Raw | None) -> Mapping[str, int]:
    return {str(name): parse_quantity(value.get("value") or "0").nano for name, value in (raw or {}).items()}


def _expression(raw: Raw) -> str | None:
    cel = raw.get("cel")
    return None if cel is None else str(cel.get("expression") or "")


def _toleration(raw: Raw) -> DeviceToleration:
    return DeviceToleration(
        key=str(raw.get("key") or ""),
        operator=str(raw.get("operator") or "Equal"),
        value=str(raw.get("value") or ""),
        effect=str(raw.get("effect") or ""),
    )
