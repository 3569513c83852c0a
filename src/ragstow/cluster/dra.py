"""Dynamic resource allocation as plain views: the devices that drivers publish and the claims that hold them.

Reads ResourceSlice and ResourceClaim of resource.k8s.io in all versions since v1alpha3 (devices were nested under `basic`,
capacities were plain quantities before). Nothing here knows what a device is good for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragstow import quantity
from ragstow.cluster.objects import KubeObject
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import InputError

GROUP = "resource.k8s.io"
EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim that the scheduler made for a pod that asks for an extended resource (KEP-5004)."""


@dataclass(frozen=True, slots=True)
class DeviceId:
    """What names a device in an allocation."""

    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """A device of a ResourceSlice; attribute and capacity names are without the driver's own domain.

    `node` is None where the device is not bound to one node. `partition` says that it consumes shared counters, so that other
    devices of its pool exclude it; `shareable` that several claims may hold it at once.
    """

    id: DeviceId
    node: str | None
    attributes: Mapping[str, Any]
    capacity: Mapping[str, int]
    partition: bool = False
    shareable: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim: the devices it was given (none: not allocated) and the pods ("namespace/name") it is reserved for."""

    object: KubeObject = field(repr=False)
    devices: tuple[DeviceId, ...]
    pods: tuple[str, ...]
    extended: bool

    @property
    def key(self) -> str:
        """ "namespace/name"."""
        return f"{self.object.namespace}/{self.object.name}"


def devices(snapshot: Snapshot, driver: str) -> tuple[PublishedDevice, ...]:
    """The devices of one driver: of each pool its newest generation only, in the order of slices and devices."""
    slices = [(item, _mapping(item.raw.get("spec"))) for item in snapshot.of("ResourceSlice", GROUP)]
    slices = [(item, spec) for item, spec in slices if spec.get("driver") == driver]
    newest: dict[str, int] = {}
    for _, spec in slices:
        pool, generation = _pool(spec)
        newest[pool] = max(generation, newest.get(pool, generation))
    found: list[PublishedDevice] = []
    for _, spec in slices:
        pool, generation = _pool(spec)
        if generation == newest[pool]:
            found.extend(_device(raw, driver, pool, spec) for raw in _sequence(spec.get("devices")))
    return tuple(found)


def claims(snapshot: Snapshot) -> tuple[Claim, ...]:
    """All claims in the order of the snapshot."""
    return tuple(_claim(item) for item in snapshot.of("ResourceClaim", GROUP))


def _claim(item: KubeObject) -> Claim:
    status = _mapping(item.raw.get("status"))
    results = _sequence(_mapping(_mapping(status.get("allocation")).get("devices")).get("results"))
    return Claim(
        object=item,
        devices=tuple(
            DeviceId(str(result.get("driver") or ""), str(result.get("pool") or ""), str(result.get("device") or ""))
            for result in map(_mapping, results)
            if result.get("adminAccess") is not True  # an administrator looks on and holds nothing
        ),
        pods=tuple(
            f"{item.namespace}/{consumer.get('name')}"
            for consumer in map(_mapping, _sequence(status.get("reservedFor")))
            if consumer.get("resource") == "pods"
        ),
        extended=item.annotations.get(EXTENDED_CLAIM) == "true",
    )


def _device(value: object, driver: str, pool: str, spec: Mapping[str, Any]) -> PublishedDevice:
    raw = _mapping(value)
    body = {**raw, **_mapping(raw.get("basic"))}
    node = body.get("nodeName") or spec.get("nodeName")
    return PublishedDevice(
        id=DeviceId(driver, pool, str(raw.get("name") or "")),
        node=node if isinstance(node, str) else None,
        attributes={
            _own(name, driver): next(iter(_mapping(item).values()), None)
            for name, item in _mapping(body.get("attributes")).items()
        },
        capacity={_own(name, driver): _amount(item) for name, item in _mapping(body.get("capacity")).items()},
        partition=bool(body.get("consumesCounters")),
        shareable=body.get("allowMultipleAllocations") is True,
    )


def _own(name: str, driver: str) -> str:
    return name.removeprefix(f"{driver}/")


def _amount(value: Any) -> int:
    try:
        return quantity.parse(value.get("value", 0) if isinstance(value, Mapping) else value).value
    except InputError:
        return 0


def _pool(spec: Mapping[str, Any]) -> tuple[str, int]:
    pool = _mapping(spec.get("pool"))
    generation = pool.get("generation")
    return str(pool.get("name") or spec.get("nodeName") or ""), generation if isinstance(generation, int) else 0


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
