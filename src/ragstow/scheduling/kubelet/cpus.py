"""The static CPU manager: exclusive CPUs for containers of Guaranteed pods with whole CPUs (cm/cpumanager/policy_static.go,
cpu_assignment.go, KEP-3570).

CPUs are taken whole NUMA nodes first, then whole cores, then single threads; the fullest place that still has something goes
first. Siblings of a core come from `NumaNode.cores`; without it neighbouring ids are taken for siblings, two a core.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragstow.scheduling.kubelet.hints import IMPOSSIBLE, Hint, mask_of, submasks
from ragstow.scheduling.kubelet.model import AdmissionRefused, ContainerAsk, NumaNode, PodAsk


class CpuManager:
    """Exclusive CPUs of one node. Without `static` it hands out nothing and has no opinion.

    Args:
        numa: the machine's NUMA nodes with their CPUs.
        static: whether the policy is static.
        reserved: how many CPUs are kept for the system, whole ones from the lowest ids.
    """

    def __init__(self, numa: Sequence[NumaNode], *, static: bool, reserved: int) -> None:
        self.static = static
        self.numa = {node.id: tuple(sorted(node.cpus)) for node in numa}
        self.node_of = {cpu: node.id for node in numa for cpu in node.cpus}
        self.cores = [core for node in numa for core in (node.cores or _pairs(node.cpus))]
        self.reserved = frozenset(sorted(self.node_of)[:reserved])
        self.held: dict[str, dict[str, frozenset[int]]] = {}
        self.reusable: frozenset[int] = frozenset()
        self.reusable_of: str | None = None

    def collect(self, active: Iterable[str]) -> None:
        """Take back what pods hold that are not active any more."""
        for pod in set(self.held) - set(active):
            del self.held[pod]

    def wanted(self, pod: PodAsk, container: ContainerAsk) -> int:
        """Exclusive CPUs the container is due: whole ones of a Guaranteed pod, else 0."""
        if not self.static or not pod.guaranteed or container.cpu_milli % 1000:
            return 0
        return container.cpu_milli // 1000

    def container_hints(self, pod: PodAsk, container: ContainerAsk) -> list[tuple[Hint, ...]]:
        """The hints for the container's CPUs; none where it gets no exclusive ones."""
        count = self.wanted(pod, container)
        if count == 0:
            return []
        held = self.held.get(pod.name, {}).get(container.name)
        if held is not None:
            return [self._generate(held, frozenset(), count) if len(held) == count else IMPOSSIBLE]
        return [self._generate(self._free(), self._reusable(pod), count)]

    def pod_hints(self, pod: PodAsk) -> list[tuple[Hint, ...]]:
        """The hints for the CPUs of the whole pod: what runs at once, or an init container with the sidecars before it."""
        sidecars = before = 0
        apps = 0
        held: set[int] = set()
        for container in pod.containers:
            count = self.wanted(pod, container)
            has = self.held.get(pod.name, {}).get(container.name)
            if has is not None:
                if len(has) != count:
                    return [IMPOSSIBLE]
                held |= has
            if container.sidecar:
                sidecars += count
            elif container.init:
                before = max(before, sidecars + count)
            else:
                apps += count
        total = max(before, sidecars + apps)
        if total == 0:
            return []
        if len(held) == total:
            return [self._generate(frozenset(held), frozenset(), total)]
        return [self._generate(self._free(), self._reusable(pod), total)]

    def allocate(self, pod: PodAsk, container: ContainerAsk, hint: Hint | None) -> None:
        """Give the container its CPUs, those inside the hint first.

        Raises:
            AdmissionRefused: there are not enough.
        """
        count = self.wanted(pod, container)
        if count == 0:
            return
        held = self.held.setdefault(pod.name, {})
        cpus = held.get(container.name)
        if cpus is None:
            free = self._free() | self._reusable(pod)
            taken: frozenset[int] = frozenset()
            if hint is not None and hint.mask is not None:
                aligned = frozenset(cpu for cpu in free if hint.mask >> self.node_of[cpu] & 1)
                taken = self._take(aligned, min(count, len(aligned)))
            cpus = taken | self._take(free - taken, count - len(taken))
            held[container.name] = cpus
        reusable = self._reusable(pod)
        self.reusable_of = pod.name
        self.reusable = reusable | cpus if container.init and not container.sidecar else reusable - cpus

    def _reusable(self, pod: PodAsk) -> frozenset[int]:
        return self.reusable if self.reusable_of == pod.name else frozenset()

    def _free(self) -> frozenset[int]:
        used = frozenset(cpu for containers in self.held.values() for cpus in containers.values() for cpu in cpus)
        return frozenset(self.node_of) - self.reserved - used

    def _generate(self, available: frozenset[int], reusable: frozenset[int], count: int) -> tuple[Hint, ...]:
        everything = mask_of(self.numa)
        narrowest = everything.bit_count()
        free = {node: sum(1 for cpu in cpus if cpu in available and cpu not in reusable) for node, cpus in self.numa.items()}
        kept = mask_of({self.node_of[cpu] for cpu in reusable})
        masks: list[int] = []
        for mask in submasks(everything):
            inside = [node for node in self.numa if mask >> node & 1]
            if len(inside) < narrowest and sum(len(self.numa[node]) for node in inside) >= count:
                narrowest = len(inside)
            if not kept & ~mask and len(reusable) + sum(free[node] for node in inside) >= count:
                masks.append(mask)
        return tuple(Hint(mask, mask.bit_count() == narrowest) for mask in masks) or IMPOSSIBLE

    def _take(self, free: frozenset[int], count: int) -> frozenset[int]:
        """`count` of the free CPUs: whole NUMA nodes, whole cores, threads (takeByTopologyNUMAPacked)."""
        if count > len(free):
            raise AdmissionRefused(f"not enough cpus available to satisfy request: requested={count}, available={len(free)}")
        left = set(free)
        taken: set[int] = set()
        for places in (self._nodes, self._cores):
            for place in places(left):
                if left.issuperset(place) and count - len(taken) >= len(place):
                    taken.update(place)
                    left.difference_update(place)
        for core in self._cores(left):
            for cpu in sorted(set(core) & left):
                if len(taken) < count:
                    taken.add(cpu)
        return frozenset(taken)

    def _nodes(self, left: set[int]) -> list[tuple[int, ...]]:
        """NUMA nodes with something left, fewest free CPUs first."""
        ranked = sorted((sum(cpu in left for cpu in cpus), node) for node, cpus in self.numa.items())
        return [self.numa[node] for free, node in ranked if free]

    def _cores(self, left: set[int]) -> list[tuple[int, ...]]:
        """Cores with something left: by NUMA node as above, in it fewest free threads first, then lowest id."""
        order: list[tuple[int, ...]] = []
        for cpus in self._nodes(left):
            inside = [core for core in self.cores if core[0] in cpus and any(cpu in left for cpu in core)]
            order += sorted(inside, key=lambda core: (sum(cpu in left for cpu in core), core))
        return order


def _pairs(cpus: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    ordered = sorted(cpus)
    return tuple(tuple(ordered[i : i + 2]) for i in range(0, len(ordered), 2))
