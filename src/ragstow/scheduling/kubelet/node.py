"""One node's kubelet over time: plugins come and go, pods are admitted or rejected, it restarts.

Order of an admission (kubelet.go, cm/topologymanager/scope*.go, lifecycle/predicate.go): topology manager with device, CPU
and memory manager, container by container; then the node's counts. A pod that is refused half way keeps what it got until
the next collection.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ragstow.scheduling.kubelet import predicates
from ragstow.scheduling.kubelet.cpus import CpuManager
from ragstow.scheduling.kubelet.devices import DeviceManager, Journal
from ragstow.scheduling.kubelet.hints import ANY, Hint
from ragstow.scheduling.kubelet.memory import MemoryManager
from ragstow.scheduling.kubelet.model import (
    AdmissionRefused,
    Call,
    ContainerAsk,
    Device,
    KubeletCrash,
    NumaNode,
    Pick,
    Plugin,
    PodAsk,
    Settings,
)
from ragstow.scheduling.kubelet.picking import FirstPicker, Picker
from ragstow.scheduling.kubelet.policy import start

TOPOLOGY_TEXT = "Resources cannot be allocated with Topology locality"


@dataclass(frozen=True, slots=True)
class Admission:
    """What happened to a pod. `reason` and `message` are the event's; in the pod's status the message is prefixed with
    "Pod was rejected: ". `panic` is set where the kubelet process would end."""

    admitted: bool
    reason: str = ""
    message: str = ""
    panic: str = ""
    devices: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None
    hints: Mapping[str, Hint] | None = None
    cpus: Mapping[str, tuple[int, ...]] | None = None
    memory: Mapping[str, tuple[int, int]] | None = None
    """Container -> (NUMA mask, bytes)."""
    calls: tuple[Call, ...] = ()
    picks: tuple[Pick, ...] = ()


class Kubelet:
    """A node after its start.

    Args:
        numa: the machine's NUMA nodes; one without CPUs and memory will do where only devices matter.
        settings: the kubelet's configuration.

    Raises:
        DoesNotStart: the configuration is refused.
    """

    def __init__(self, numa: Sequence[NumaNode], settings: Settings) -> None:
        self.numa = tuple(numa)
        self.settings = settings
        self.policy = start(settings, numa)
        self.now = 0
        self.devices = DeviceManager(node.id for node in numa)
        self.cpus = CpuManager(numa, static=settings.cpu_policy == "static", reserved=settings.reserved_cpus)
        self.memory = MemoryManager(
            numa, static=settings.memory_policy == "Static", reserved_bytes=settings.reserved_memory_bytes
        )
        self.known: dict[str, PodAsk] = {}
        self.active: dict[str, PodAsk] = {}
        self.hints: dict[tuple[str, str], Hint] = {}
        self.running: frozenset[tuple[str, str]] = frozenset()
        self.ready = True
        self.capacity: dict[str, int] = {}
        self.allocatable: dict[str, int] = {}
        self.others: dict[str, int] = {}
        """Allocatable that no plugin reports (cpu, memory, ephemeral-storage), where it is not to follow from the hardware."""

    def copy(self) -> Kubelet:
        """The same node, to try something on."""
        return copy.deepcopy(self)

    def register(self, resource: str, plugin: Plugin) -> None:
        """A plugin registers and lists its devices."""
        self.devices.register(resource, plugin)

    def list_devices(self, resource: str, devices: tuple[Device, ...]) -> None:
        """The running plugin reports a new list (health changes); what it offers stays as registered."""
        self.devices.register(resource, replace(self.devices.endpoints[resource].plugin, devices=devices))

    def disconnect(self, resource: str) -> None:
        """A plugin goes away."""
        self.devices.disconnect(resource, self.now)

    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.now += seconds

    def sync_node(self) -> None:
        """The status loop: the node object gets the extended resources that the device manager reports (nodestatus)."""
        capacity, allocatable, gone = self.devices.report(self.now)
        self.capacity.update(capacity)
        self.capacity.update(dict.fromkeys(gone, 0))
        self.allocatable = {**self.capacity, **allocatable}

    def remove(self, pod: str) -> None:
        """The pod has ended; its devices come back when the managers next collect."""
        self.active.pop(pod, None)

    def restart(self, running: Iterable[tuple[str, str]]) -> None:
        """The kubelet starts anew from its checkpoints; plugins are gone and nothing is collected before `sources_ready`.

        Args:
            running: (pod, container) that the runtime reports as running.
        """
        self.devices = DeviceManager((node.id for node in self.numa), self.devices.checkpoint, self.now)
        self.cpus.reusable_of = self.memory.reusable_of = None
        self.hints = {}
        self.active = {}
        self.running = frozenset(running)
        self.ready = False

    def sources_ready(self) -> None:
        """From here on the kubelet knows all pods, and may collect."""
        self.ready = True

    def readmit(self, pod: str, picker: Picker | None = None) -> Admission:
        """A pod known before a restart is admitted again."""
        return self.admit(self.known[pod], picker)

    def admit(self, pod: PodAsk, picker: Picker | None = None) -> Admission:
        """A pod arrives."""
        journal = Journal(picker or FirstPicker())
        self.known[pod.name] = pod
        self.active[pod.name] = pod
        reason = message = panic = ""
        try:
            if self._align(pod, journal):
                others = [other for other in self.active.values() if other is not pod]
                refusal = predicates.check(self, pod, others, journal.picker, len(journal.calls))
                if refusal is not None:
                    reason, message = refusal
            else:
                reason, message = "TopologyAffinityError", TOPOLOGY_TEXT
        except AdmissionRefused as error:
            reason, message = "UnexpectedAdmissionError", f"Allocate failed due to {error}, which is unexpected"
        except KubeletCrash as error:
            panic = str(error)
        if reason:
            del self.active[pod.name]
        names = {container.name for container in pod.containers}
        return Admission(
            admitted=not reason and not panic,
            reason=reason,
            message=message,
            panic=panic,
            devices={name: dict(held) for name, held in sorted(self.devices.held_by(pod.name).items())},
            hints={name: hint for (owner, name), hint in self.hints.items() if owner == pod.name and name in names},
            cpus={name: tuple(sorted(cpus)) for name, cpus in self.cpus.held.get(pod.name, {}).items()},
            memory={name: (block.mask, block.size_bytes) for name, block in self.memory.blocks.get(pod.name, {}).items()},
            calls=tuple(journal.calls),
            picks=tuple(journal.picks),
        )

    def _align(self, pod: PodAsk, journal: Journal) -> bool:
        """Hints, check and allocation; False where the policy refuses."""
        whole: Hint | None = None
        if self.policy.scope == "pod":
            self.collect()
            totals = predicates.pod_devices(pod)
            lists = [*self.devices.pod_hints(pod, totals), *(self.cpus.pod_hints(pod) or [ANY])]
            whole, fits = self.policy.decide([*lists, *(self.memory.pod_hints(pod) or [ANY])])
            if not fits:
                return False
        for container in pod.containers:
            hint = whole
            if self.policy.scope == "container":
                self.collect()
                lists = [*self.devices.container_hints(pod, container), *(self.cpus.container_hints(pod, container) or [ANY])]
                hint, fits = self.policy.decide([*lists, *(self.memory.container_hints(pod, container) or [ANY])])
                if not fits:
                    return False
            if hint is not None:
                self.hints[pod.name, container.name] = hint
            self._allocate(pod, container, hint, journal)
        return True

    def _allocate(self, pod: PodAsk, container: ContainerAsk, hint: Hint | None, journal: Journal) -> None:
        running = not self.ready and (pod.name, container.name) in self.running
        self.devices.allocate(pod, container, hint, journal, running=running, active=tuple(self.active) if self.ready else None)
        if self.ready:
            self.cpus.collect(self.active)
        self.cpus.allocate(pod, container, hint)
        if self.ready:
            self.memory.collect(self.active)
        self.memory.allocate(pod, container, hint)

    def collect(self) -> None:
        """Take back what pods hold that have ended; nothing while the kubelet does not know all pods yet."""
        if self.ready:
            self.devices.collect(self.active)
            self.cpus.collect(self.active)
            self.memory.collect(self.active)
