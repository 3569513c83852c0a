"""What a node's kubelet is told: hardware, configuration, plugins, pods. Data only, units in the names.

`Settings` holds the keys of KubeletConfiguration that decide admissions (kubelet.config.k8s.io/v1beta1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

GIB = 2**30
MIB = 2**20


@dataclass(frozen=True, slots=True)
class NumaNode:
    """A NUMA node: its CPUs (ids), hyperthread siblings (`cores`, tuples of ids), memory and its row of distances."""

    id: int
    cpus: tuple[int, ...]
    memory_bytes: int
    distances: tuple[int, ...] = ()
    cores: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """One device as a plugin lists it; `numa` is None where it names no NUMA node."""

    id: str
    numa: tuple[int, ...] | None
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class Plugin:
    """A device plugin: its list in its own order, the rule by which it prefers ("" = it offers no preference), whether its
    Allocate fails always, and whether it refuses more than one shared device (failRequestsGreaterThanOne)."""

    devices: tuple[Device, ...]
    preference: str = ""
    allocate_fails: bool = False
    one_share_only: bool = False

    def refusal(self, resource: str, count: int) -> str | None:
        """The error with which Allocate answers a request for `count` devices, None where it does not.

        Source of the text for shares: k8s-device-plugin v0.20 internal/rm/rm.go and internal/plugin/server.go.
        """
        if self.allocate_fails:
            return "allocate refused"
        if self.one_share_only and count > 1:
            return (
                f'invalid allocation request for "{resource}": invalid request: '
                f"maximum request size for shared resources is 1; found {count}"
            )
        return None


@dataclass(frozen=True, slots=True)
class Settings:
    """The part of KubeletConfiguration that decides admissions; defaults are the kubelet's own."""

    topology_policy: str = "none"
    topology_scope: str = "container"
    topology_options: Mapping[str, str] = field(default_factory=dict)
    cpu_policy: str = "none"
    memory_policy: str = "None"
    reserved_cpus: int = 0
    reserved_memory_bytes: Mapping[int, int] = field(default_factory=dict)
    max_pods: int = 110


@dataclass(frozen=True, slots=True)
class ContainerAsk:
    """A container's request: devices by resource (limits, as plugins count), CPU in millicores, memory in bytes.

    `init` is an init container, `sidecar` one with restartPolicy Always.
    """

    name: str
    devices: Mapping[str, int] = field(default_factory=dict)
    cpu_milli: int = 0
    memory_bytes: int = 0
    init: bool = False
    sidecar: bool = False


@dataclass(frozen=True, slots=True)
class PodAsk:
    """A pod that arrives at the node: containers in the order they are handled (init containers first).

    `guaranteed` is its QoS class; `others` are requests of the whole pod that no manager hands out (ephemeral-storage...),
    in whole units, and `overhead_*` what its RuntimeClass adds.
    """

    name: str
    containers: tuple[ContainerAsk, ...]
    guaranteed: bool = False
    others: Mapping[str, int] = field(default_factory=dict)
    overhead_cpu_milli: int = 0
    overhead_memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A call that the kubelet made to a plugin, and the answer: ids, or the text of an error."""

    call: str
    resource: str
    ids: tuple[str, ...] = ()
    error: str | None = None
    available: tuple[str, ...] = ()
    must_include: tuple[str, ...] = ()
    size: int = 0


@dataclass(frozen=True, slots=True)
class Pick:
    """A choice that the kubelet leaves to map order: `count` ids out of `pool`, on top of `taken`."""

    container: str
    resource: str
    taken: tuple[str, ...]
    pool: tuple[str, ...]
    count: int


class AdmissionRefused(Exception):
    """Internal: a manager refuses; the text becomes "Allocate failed due to TEXT, which is unexpected"."""


class KubeletCrash(Exception):
    """Internal: the kubelet process would end here."""


class DoesNotStart(Exception):
    """The kubelet does not start with this configuration; the text is its own."""
