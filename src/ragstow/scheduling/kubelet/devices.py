"""The device manager of one node: who holds which device, which are free, and what a container gets (cm/devicemanager).

It keeps the original's two books: `pods` (what containers hold) and `allocated` (what is marked as taken), because the second
may lag behind the first (a failed preference call leaves marks that nobody owns until the next collection).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ragstow.scheduling.kubelet.hints import ANY, IMPOSSIBLE, Hint, mask_of, submasks
from ragstow.scheduling.kubelet.model import AdmissionRefused, Call, ContainerAsk, Device, KubeletCrash, Pick, Plugin, PodAsk
from ragstow.scheduling.kubelet.picking import Picker
from ragstow.scheduling.kubelet.preference import PreferenceFailed, chance, preferred

STOP_GRACE_SECONDS = 300
"""How long a resource stays known after its plugin went away (endpointStopGracePeriod)."""

Held = dict[str, dict[str, dict[str, tuple[str, ...]]]]
"""pod -> container -> resource -> ids."""


@dataclass(slots=True)
class Endpoint:
    """A plugin's connection: the plugin as it last registered, and when it went away (None: it is there)."""

    plugin: Plugin
    stopped_at: int | None = None


@dataclass(slots=True)
class Checkpoint:
    """kubelet_internal_checkpoint: held devices and the names of registered resources."""

    pods: Held = field(default_factory=dict)
    resources: tuple[str, ...] = ()


@dataclass(slots=True)
class Journal:
    """What one admission did: calls to plugins in order, and the choices that were free."""

    picker: Picker
    calls: list[Call] = field(default_factory=list)
    picks: list[Pick] = field(default_factory=list)


class DeviceManager:
    """Devices of all resources of one node.

    Args:
        numa: the ids of the machine's NUMA nodes.
        checkpoint: what an earlier kubelet wrote, None on a new node.
        now: the time in seconds (any origin).
    """

    def __init__(self, numa: Iterable[int], checkpoint: Checkpoint | None = None, now: int = 0) -> None:
        self.numa_mask = mask_of(numa)
        self.endpoints: dict[str, Endpoint] = {}
        self.devices: dict[str, dict[str, Device]] = {}
        self.healthy: dict[str, set[str]] = {}
        self.unhealthy: dict[str, set[str]] = {}
        self.pods: Held = {}
        self.checkpoint = Checkpoint()
        self.reusable: dict[str, set[str]] = {}
        self.reusable_of: str | None = None
        if checkpoint is not None:
            self.pods = _copy(checkpoint.pods)
            for resource in checkpoint.resources:
                self.healthy[resource] = set()
                self.unhealthy[resource] = set()
                self.endpoints[resource] = Endpoint(Plugin(()), now)
            self.checkpoint = Checkpoint(_copy(checkpoint.pods), checkpoint.resources)
        self.allocated = self._owned()

    # --- plugins -------------------------------------------------------------------------------------------------------

    def register(self, resource: str, plugin: Plugin) -> None:
        """The plugin of `resource` registers or lists its devices anew; its list replaces the old one."""
        self.endpoints[resource] = Endpoint(plugin)
        self.devices[resource] = {device.id: device for device in plugin.devices}
        self.healthy[resource] = {device.id for device in plugin.devices if device.healthy}
        self.unhealthy[resource] = {device.id for device in plugin.devices if not device.healthy}
        self._write()

    def disconnect(self, resource: str, now: int) -> None:
        """The plugin's socket is closed: all its devices are unhealthy at once."""
        endpoint = self.endpoints.get(resource)
        if endpoint is None or endpoint.stopped_at is not None:
            return
        endpoint.stopped_at = now
        self.unhealthy[resource] |= self.healthy[resource]
        self.healthy[resource] = set()

    def report(self, now: int) -> tuple[dict[str, int], dict[str, int], list[str]]:
        """Capacity and allocatable by resource, and the resources that are deregistered by this very call (GetCapacity)."""
        gone = [
            resource
            for resource in self.healthy
            if (endpoint := self.endpoints.get(resource)) is None
            or (endpoint.stopped_at is not None and now - endpoint.stopped_at > STOP_GRACE_SECONDS)
        ]
        for resource in gone:
            self.endpoints.pop(resource, None)
            del self.healthy[resource]
            del self.unhealthy[resource]
        if gone:
            self._write()
        capacity = {resource: len(self.healthy[resource]) + len(self.unhealthy[resource]) for resource in self.healthy}
        return capacity, {resource: len(ids) for resource, ids in self.healthy.items()}, gone

    # --- books ---------------------------------------------------------------------------------------------------------

    def known(self, resource: str) -> bool:
        """Whether a plugin serves this resource, or somebody still holds devices of it."""
        return resource in self.healthy or resource in self.allocated

    def collect(self, active: Iterable[str]) -> None:
        """Take back the devices of pods that are not active any more (UpdateAllocatedDevices)."""
        ended = set(self.pods) - set(active)
        if not ended:
            return
        for pod in ended:
            del self.pods[pod]
        self.allocated = self._owned()

    def adopt(self, pod: str, held: Mapping[str, Mapping[str, tuple[str, ...]]]) -> None:
        """Note what a running pod holds (container -> resource -> ids), as a checkpoint would tell it."""
        self.pods[pod] = {name: {r: tuple(sorted(ids)) for r, ids in resources.items()} for name, resources in held.items()}
        self.allocated = self._owned()
        self._write()

    def held_by(self, pod: str) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """Container -> resource -> ids of one pod."""
        return self.pods.get(pod, {})

    def _held(self, pod: str, container: str, resource: str) -> tuple[str, ...]:
        return self.pods.get(pod, {}).get(container, {}).get(resource, ())

    def _owned(self) -> dict[str, set[str]]:
        owned: dict[str, set[str]] = {}
        for containers in self.pods.values():
            for resources in containers.values():
                for resource, ids in resources.items():
                    owned.setdefault(resource, set()).update(ids)
        return owned

    def _write(self) -> None:
        self.checkpoint = Checkpoint(_copy(self.pods), tuple(self.healthy))

    # --- hints ---------------------------------------------------------------------------------------------------------

    def container_hints(self, pod: PodAsk, container: ContainerAsk) -> list[tuple[Hint, ...]]:
        """One list of hints for each device resource of the container."""
        lists: list[tuple[Hint, ...]] = []
        for resource, count in container.devices.items():
            if not self.known(resource):
                continue
            if not self._aligned(resource):
                lists.append(ANY)
                continue
            held = self._held(pod.name, container.name, resource)
            reusable = self.reusable.get(resource, set()) if self.reusable_of == pod.name else set()
            lists.append(self._hints(resource, count, set(held), reusable))
        return lists or [ANY]

    def pod_hints(self, pod: PodAsk, totals: Mapping[str, int]) -> list[tuple[Hint, ...]]:
        """One list of hints for each device resource of the whole pod; nothing is reused here."""
        lists: list[tuple[Hint, ...]] = []
        for resource, count in totals.items():
            if not self.known(resource):
                continue
            if not self._aligned(resource):
                lists.append(ANY)
                continue
            held = {item for resources in self.held_by(pod.name).values() for item in resources.get(resource, ())}
            lists.append(self._hints(resource, count, held, set()))
        return lists or [ANY]

    def _aligned(self, resource: str) -> bool:
        return any(device.numa for device in self.devices.get(resource, {}).values())

    def _hints(self, resource: str, count: int, held: set[str], reusable: set[str]) -> tuple[Hint, ...]:
        if held:
            return self._generate(resource, count, held, set()) if len(held) == count else IMPOSSIBLE
        available = self.healthy.get(resource, set()) - self.allocated.get(resource, set())
        if len(available | reusable) < count:
            return IMPOSSIBLE
        return self._generate(resource, count, available, reusable)

    def _generate(self, resource: str, count: int, available: set[str], reusable: set[str]) -> tuple[Hint, ...]:
        """Every combination of NUMA nodes that could serve the request (generateDeviceTopologyHints)."""
        devices = self.devices[resource]
        if any(item not in devices for item in available | reusable):
            raise KubeletCrash("runtime error: invalid memory address or nil pointer dereference")
        every = _by_mask(devices.values())
        free = _by_mask(devices[item] for item in available)
        kept = _by_mask(devices[item] for item in reusable)
        nodes = 0
        for mask in every:
            nodes |= mask
        nodes = nodes & self.numa_mask or self.numa_mask
        masks: list[int] = []
        narrowest = nodes.bit_count()
        kept_count = sum(kept.values())
        for mask in submasks(nodes):
            size = mask.bit_count()
            if size < narrowest and sum(n for touched, n in every.items() if touched & mask) >= count:
                narrowest = size
            if any(not touched & mask for touched in kept):
                continue
            if kept_count + sum(n for touched, n in free.items() if touched & mask) >= count:
                masks.append(mask)
        return tuple(Hint(mask, mask.bit_count() == narrowest) for mask in masks) or IMPOSSIBLE

    # --- allocation ----------------------------------------------------------------------------------------------------

    def allocate(
        self,
        pod: PodAsk,
        container: ContainerAsk,
        hint: Hint | None,
        journal: Journal,
        *,
        running: bool = False,
        active: Iterable[str] | None = None,
    ) -> None:
        """Give a container its devices.

        Args:
            pod, container: who asks.
            hint: what the topology manager stored, None without one.
            journal: takes the calls and free choices, and decides the latter.
            running: the container runs already and the kubelet has just been restarted: nothing is checked.
            active: pods that may keep devices; None while nothing may be collected.

        Raises:
            AdmissionRefused: with the kubelet's text.
        """
        if self.reusable_of != pod.name:
            self.reusable_of, self.reusable = pod.name, {}
        changed = False
        collected = False
        for resource in journal.picker.order(container.name, list(container.devices), len(journal.calls)):
            if not self.known(resource):
                continue
            if not collected and active is not None:
                self.collect(active)
            collected = True
            ids = self._choose(pod.name, container, resource, hint, journal, running)
            if not ids:
                continue
            endpoint = self.endpoints.get(resource)
            error = endpoint.plugin.refusal(resource, len(ids)) if endpoint is not None else None
            journal.calls.append(Call("Allocate", resource, tuple(sorted(ids)), error))
            if error is not None:
                self.allocated = self._owned()
                raise AdmissionRefused(f"rpc error: code = Unknown desc = {error}")
            self.pods.setdefault(pod.name, {}).setdefault(container.name, {})[resource] = tuple(sorted(ids))
            changed = True
        if changed:
            self._write()
        held = self.pods.get(pod.name, {}).get(container.name, {})
        for resource, owned in held.items():
            kept = self.reusable.setdefault(resource, set())
            if container.init and not container.sidecar:
                kept.update(owned)
            else:
                kept.difference_update(owned)

    def _choose(
        self, pod: str, container: ContainerAsk, resource: str, hint: Hint | None, journal: Journal, running: bool
    ) -> set[str]:
        """The devices a container gets anew; empty where it has them or needs none (devicesToAllocate)."""
        required = container.devices[resource]
        held = set(self._held(pod, container.name, resource))
        if held and len(held) != required:
            raise AdmissionRefused(
                f'pod "{pod}" container "{container.name}" changed request for resource "{resource}" '
                f"from {len(held)} to {required}"
            )
        if running:
            return set()
        healthy = self.healthy.get(resource)
        if healthy is None:
            raise AdmissionRefused(f"cannot allocate unregistered device {resource}")
        if not healthy:
            raise AdmissionRefused(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        if not held <= healthy:
            raise AdmissionRefused(
                f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
            )
        if held or required == 0:
            return set()
        taken: set[str] = set()
        marks = self.allocated.setdefault(resource, set())

        def ask(offered: set[str]) -> set[str]:
            """What the plugin prefers; where its own ties are open, that is noted as a free choice."""
            kept = frozenset(taken)
            answer = self._ask(resource, offered | taken, taken, required, journal)
            endpoint = self.endpoints.get(resource)
            if endpoint is not None and (pool := chance(endpoint.plugin, sorted(offered | kept), sorted(kept), required)):
                journal.picks.append(Pick(container.name, resource, tuple(sorted(kept)), pool, required - len(kept)))
            return answer

        def take(pool: set[str]) -> bool:
            """Take what is still needed out of the pool; whether that was enough."""
            new = pool - taken
            needed = required - len(taken)
            if len(new) > needed:
                order = [item for item in self.devices[resource] if item in new] + sorted(new - set(self.devices[resource]))
                picked = journal.picker.pick(container.name, resource, frozenset(taken), order, needed, len(journal.calls))
                journal.picks.append(Pick(container.name, resource, tuple(sorted(taken)), tuple(order), needed))
                new = set(picked)
            taken.update(new)
            marks.update(new)
            return len(taken) == required

        if take(self.reusable.get(resource, set())):
            return taken
        available = healthy - marks
        if len(available) < required - len(taken):
            raise AdmissionRefused(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {required - len(taken)}, Available: {len(available)}"
            )
        aligned, unaligned, loose = self._split(resource, available, hint)
        if required - len(taken) < len(aligned):
            if take(ask(aligned) & aligned):
                return taken
            take(aligned)
            return taken
        if take(aligned):
            return taken
        if take(ask(available) & available):
            return taken
        if not take(unaligned):
            take(loose)
        return taken

    def _split(self, resource: str, available: set[str], hint: Hint | None) -> tuple[set[str], set[str], set[str]]:
        """Available devices inside the hint, on other NUMA nodes, and without one (filterByAffinity)."""
        if hint is None or hint.mask is None or not self._aligned(resource):
            return set(), set(), set(available)
        inside: set[str] = set()
        outside: set[str] = set()
        loose: set[str] = set()
        for item in available:
            numa = self.devices[resource][item].numa
            if not numa:
                loose.add(item)
            elif mask_of(numa) & hint.mask:
                inside.add(item)
            else:
                outside.add(item)
        return inside, outside, loose

    def _ask(self, resource: str, offered: set[str], taken: set[str], size: int, journal: Journal) -> set[str]:
        """What the plugin prefers; nothing where it offers no preference."""
        endpoint = self.endpoints.get(resource)
        if endpoint is None or not endpoint.plugin.preference:
            return set()
        available, must = tuple(sorted(offered)), tuple(sorted(taken))
        try:
            ids = preferred(endpoint.plugin, available, must, size)
        except PreferenceFailed as error:
            journal.calls.append(Call("GetPreferredAllocation", resource, (), str(error), available, must, size))
            raise AdmissionRefused(
                f"device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Unknown desc = {error}"
            ) from None
        journal.calls.append(Call("GetPreferredAllocation", resource, ids, None, available, must, size))
        return set(ids)


def _by_mask(devices: Iterable[Device]) -> dict[int, int]:
    """NUMA mask -> number of devices with it; devices without NUMA node are left out."""
    counted: dict[int, int] = {}
    for device in devices:
        if device.numa is not None:
            mask = mask_of(device.numa)
            counted[mask] = counted.get(mask, 0) + 1
    return counted


def _copy(held: Held) -> Held:
    return {pod: {name: dict(resources) for name, resources in containers.items()} for pod, containers in held.items()}
