"""Typed, frozen views of the Kubernetes objects that many rooms read.

A view holds what the scheduler, the inventory and the planner ask for again and again; everything else stays reachable
through `raw`, the object as the API server (or a file) gave it. Views never change and never guess: a field that is absent
is None or empty. Nothing here interprets GPU labels or resources; that is the inventory's work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Raw = Mapping[str, Any]
Resources = Mapping[str, int]
"""Resource name -> amount: cpu in millicores, all others in whole units (bytes, counts), rounded up as kube-scheduler does."""


@dataclass(frozen=True, slots=True)
class OwnerRef:
    """One entry of metadata.ownerReferences."""

    kind: str
    name: str
    uid: str
    controller: bool
    api_version: str = ""


@dataclass(frozen=True, slots=True)
class Taint:
    """A node taint; effect is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod toleration as written: empty key with operator Exists tolerates all, empty effect matches all effects."""

    key: str
    operator: str
    value: str
    effect: str
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class KubeObject:
    """Any object: identity and metadata, the rest in `raw`."""

    kind: str
    api_version: str
    name: str
    namespace: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owners: tuple[OwnerRef, ...]
    created: str | None
    deleted: str | None
    raw: Raw = field(repr=False)
    file: str | None = field(default=None, compare=False)

    @property
    def group(self) -> str:
        """The API group, "" for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def live(self) -> bool:
        """Whether an API server made this object: it has a uid or a status. Others are manifests that somebody wrote."""
        return bool(self.uid) or "status" in self.raw

    @property
    def ref(self) -> str:
        """ "Kind ns/name" or "Kind name", as findings and messages print it."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def controller(self) -> OwnerRef | None:
        """The managing owner, if any."""
        return next((owner for owner in self.owners if owner.controller), None)


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod; `restart_policy` is "Always" for a sidecar among the init containers."""

    name: str
    image: str
    requests: Resources
    limits: Resources
    restart_policy: str | None
    raw: Raw = field(repr=False)


@dataclass(frozen=True, slots=True)
class Pod(KubeObject):
    """A pod; `node` is spec.nodeName or None, `phase` as in the status ("" where there is no status)."""

    node: str | None = None
    phase: str = ""
    scheduler: str = "default-scheduler"
    priority: int = 0
    priority_class: str | None = None
    runtime_class: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Resources = field(default_factory=dict)

    @property
    def key(self) -> str:
        """ "namespace/name"."""
        return f"{self.namespace}/{self.name}"

    @property
    def spec(self) -> Raw:
        """The raw spec."""
        spec = self.raw.get("spec")
        return spec if isinstance(spec, Mapping) else {}

    @property
    def status(self) -> Raw:
        """The raw status."""
        status = self.raw.get("status")
        return status if isinstance(status, Mapping) else {}

    @property
    def finished(self) -> bool:
        """Succeeded or Failed: the pod holds nothing any more."""
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Node(KubeObject):
    """A node; capacity and allocatable as `Resources`."""

    unschedulable: bool = False
    ready: bool | None = None
    taints: tuple[Taint, ...] = ()
    capacity: Resources = field(default_factory=dict)
    allocatable: Resources = field(default_factory=dict)
    kubelet_version: str | None = None

    @property
    def status(self) -> Raw:
        """The raw status."""
        status = self.raw.get("status")
        return status if isinstance(status, Mapping) else {}
