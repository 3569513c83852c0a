"""What the allocator works on: slices, devices, classes and claims as frozen values.

They are read from `resource.k8s.io` objects by `parse`; nothing here decides anything. Names follow the API
(k8s.io/api/resource/v1). Amounts are `Quantity`; identifiers of devices are (driver, pool, device).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ragstow.quantity import Quantity
from ragstow.scheduling.selectors import NodeSelector, node_selector

Attribute = tuple[str, Any]
""" "int", "bool", "string" or "version" (or one of these in the plural, then a tuple), and the value."""

MAX_DEVICES_PER_CLAIM = 32
"""AllocationResultsMaxSize."""

MAX_ALTERNATIVES = 8
"""FirstAvailableDeviceRequestMaxSize."""


class DeviceId(NamedTuple):
    """The name of a device in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True)
class NodeScope:
    """A core/v1 NodeSelector: as written, and compiled."""

    raw: Mapping[str, Any] = field(compare=False)
    compiled: NodeSelector

    @classmethod
    def read(cls, raw: Mapping[str, Any] | None) -> NodeScope | None:
        """The scope that `raw` writes; None for none."""
        return None if raw is None else cls(raw, node_selector(raw.get("nodeSelectorTerms") or ()))


@dataclass(frozen=True, slots=True)
class DeviceTaint:
    """A taint of a device, from its slice or from a DeviceTaintRule."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class DeviceToleration:
    """A toleration of a request; an empty effect or key matches all."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """How much of a capacity one request may take (CapacityRequestPolicy)."""

    default: Quantity | None = None
    values: tuple[Quantity, ...] = ()
    minimum: Quantity | None = None
    maximum: Quantity | None = None
    step: Quantity | None = None
    has_range: bool = False


@dataclass(frozen=True, slots=True)
class Capacity:
    """One capacity of a device."""

    value: Quantity
    policy: RequestPolicy | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """One entry of a slice; compared by identity, so it can key a cache."""

    id: DeviceId
    attributes: Mapping[str, Attribute]
    capacity: Mapping[str, Capacity]
    consumes: tuple[tuple[str, Mapping[str, int]], ...] = ()
    """(counter set, counter -> nano units)."""
    taints: tuple[DeviceTaint, ...] = ()
    shareable: bool = False
    """allowMultipleAllocations."""
    node_name: str = ""
    all_nodes: bool = False
    scope: NodeScope | None = None
    has_binding_conditions: bool = False
    binds_to_node: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """A ResourceSlice; compared by identity."""

    name: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    devices: tuple[Device, ...]
    counter_sets: tuple[tuple[str, Mapping[str, int]], ...] = ()
    node_name: str = ""
    all_nodes: bool = False
    scope: NodeScope | None = None
    per_device: bool = False
    """perDeviceNodeSelection: the devices say where they are."""


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass: its selectors, and the extended resource it backs ("" = none of its own)."""

    name: str
    selectors: tuple[str, ...]
    extended_resource: str = ""
    created: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """One thing to allocate: an `exactly` request, or one alternative of `firstAvailable`."""

    name: str
    class_name: str
    mode: str = "ExactCount"
    count: int = 1
    admin: bool = False
    admin_set: bool = False
    selectors: tuple[str | None, ...] = ()
    """CEL expressions; None where the selector is of an unknown type."""
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: Mapping[str, Quantity] | None = None


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A request of a claim: `exactly`, or the alternatives in order of preference."""

    name: str
    exactly: Request | None
    alternatives: tuple[Request, ...] = ()


@dataclass(frozen=True, slots=True)
class Constraint:
    """A claim constraint; both attributes None means an unknown type."""

    requests: tuple[str, ...]
    match_attribute: str | None = None
    distinct_attribute: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """One allocated device (DeviceRequestAllocationResult); `shared` = it has a share ID."""

    request: str
    device: DeviceId
    admin: bool = False
    shared: bool = False
    consumed: Mapping[str, Quantity] | None = None
    tolerations: tuple[DeviceToleration, ...] = ()


@dataclass(frozen=True, slots=True)
class Allocation:
    """The devices of a claim and the nodes on which they can be used (None = all)."""

    results: tuple[DeviceResult, ...]
    scope: NodeScope | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim."""

    namespace: str
    name: str
    uid: str
    requests: tuple[DeviceRequest, ...]
    constraints: tuple[Constraint, ...] = ()
    allocation: Allocation | None = None
    reserved_for: tuple[tuple[str, str, str], ...] = ()
    """(resource, name, uid)."""
    deleted: bool = False
    owner_uid: str = ""
    """The uid of the controlling owner."""
    extended_for: str = ""
    """The uid of the pod for whose extended resources the scheduler made this claim."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def key(self) -> str:
        """ "namespace/name"."""
        return f"{self.namespace}/{self.name}"
