"""The Static memory manager: NUMA nodes for the memory of Guaranteed pods (cm/memorymanager/policy_static.go, KEP-1769).

A NUMA node serves either containers that fit on it alone or one group of nodes, never both; `cells` says which. What init
containers held is reused within the pod, by equal node sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragstow.scheduling.kubelet.hints import Hint, bits, mask_of, submasks
from ragstow.scheduling.kubelet.model import AdmissionRefused, ContainerAsk, NumaNode, PodAsk

_PREFIX = "[memorymanager] "


@dataclass(slots=True)
class Cell:
    """One NUMA node's books, in bytes: `group` is the mask of nodes it is used together with."""

    allocatable: int
    free: int
    reserved: int
    group: int
    assignments: int = 0


@dataclass(slots=True)
class Block:
    """Memory of one container over a set of NUMA nodes."""

    mask: int
    size_bytes: int


class MemoryManager:
    """Memory of one node by NUMA node. Without `static` it hands out nothing and has no opinion.

    Args:
        numa: the machine's NUMA nodes with their memory.
        static: whether the policy is Static.
        reserved_bytes: what is kept for the system, by NUMA node id.
    """

    def __init__(self, numa: Sequence[NumaNode], *, static: bool, reserved_bytes: Mapping[int, int]) -> None:
        self.static = static
        self.cells: dict[int, Cell] = {}
        for node in numa:
            allocatable = node.memory_bytes - reserved_bytes.get(node.id, 0)
            self.cells[node.id] = Cell(allocatable, allocatable, 0, 1 << node.id)
        self.blocks: dict[str, dict[str, Block]] = {}
        self.reusable: dict[int, int] = {}
        self.reusable_of: str | None = None

    def collect(self, active: Iterable[str]) -> None:
        """Take back what pods hold that are not active any more."""
        for pod in [name for name in self.blocks if name not in set(active)]:
            for block in self.blocks.pop(pod).values():
                self._release(block)

    def container_hints(self, pod: PodAsk, container: ContainerAsk) -> list[tuple[Hint, ...]]:
        """The hints for the container's memory; none where nothing fits, which counts as no preference."""
        if not self._serves(pod) or not container.memory_bytes:
            return []
        block = self.blocks.get(pod.name, {}).get(container.name)
        if block is not None:
            return [(Hint(block.mask, True),)]
        hints = self._hints(pod, container.memory_bytes)
        return [hints] if hints else []

    def pod_hints(self, pod: PodAsk) -> list[tuple[Hint, ...]]:
        """The hints for the memory of the whole pod: what runs at once, or an init container with the sidecars before it."""
        if not self._serves(pod):
            return []
        for container in pod.containers:
            block = self.blocks.get(pod.name, {}).get(container.name)
            if block is not None:
                return [(Hint(block.mask, True),)]
        sidecars = before = apps = 0
        for container in pod.containers:
            if container.sidecar:
                sidecars += container.memory_bytes
            elif container.init:
                before = max(before, sidecars + container.memory_bytes)
            else:
                apps += container.memory_bytes
        hints = self._hints(pod, max(before, sidecars + apps))
        return [hints] if hints else []

    def allocate(self, pod: PodAsk, container: ContainerAsk, hint: Hint | None) -> None:
        """Give the container its memory.

        Raises:
            AdmissionRefused: no set of NUMA nodes serves it.
        """
        if not self._serves(pod) or not container.memory_bytes:
            return
        own = self.blocks.get(pod.name, {}).get(container.name)
        if own is not None:
            self._reuse(pod, container, own)
            return
        size = container.memory_bytes
        chosen = hint or Hint(None, True)
        if chosen.mask is None:
            hints = self._hints(pod, size)
            if not hints:
                raise AdmissionRefused(
                    f"{_PREFIX}failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
                )
            best = _best(hints)
            if not best.preferred and chosen.preferred:
                raise AdmissionRefused(f"{_PREFIX}failed to find the default preferred hint")
            chosen = best
        mask = chosen.mask or 0
        if sum(self.cells[node].free for node in bits(mask)) < size:
            wider = tuple(one for one in self._hints(pod, size) if one.mask is not None and one.mask & mask == mask)
            if not wider:
                raise AdmissionRefused(f"{_PREFIX}failed to find NUMA nodes to extend the current topology hint")
            best = _best(wider)
            if not best.preferred and chosen.preferred:
                raise AdmissionRefused(f"{_PREFIX}failed to find the extended preferred hint")
            mask = best.mask or 0
        if self._violates(mask):
            raise AdmissionRefused(f"{_PREFIX}preferred hint violates NUMA node allocation")
        reusable = self._reusable(pod).get(mask, 0)
        self._charge(mask, max(size - reusable, 0))
        block = Block(mask, size)
        self._reuse(pod, container, block)
        self.blocks.setdefault(pod.name, {})[container.name] = block
        self._shrink_init(pod, container, block)

    def _serves(self, pod: PodAsk) -> bool:
        return self.static and pod.guaranteed

    def _reusable(self, pod: PodAsk) -> dict[int, int]:
        return self.reusable if self.reusable_of == pod.name else {}

    def _hints(self, pod: PodAsk, size: int) -> tuple[Hint, ...]:
        """Every set of NUMA nodes that could serve `size` bytes (calculateHints)."""
        narrowest = len(self.cells)
        masks: list[int] = []
        for mask in sorted(submasks(mask_of(self.cells)), key=lambda one: (one.bit_count(), one)):
            cells = [self.cells[node] for node in bits(mask)]
            if sum(cell.allocatable for cell in cells) < size:
                continue
            narrowest = min(narrowest, len(cells))
            if len(cells) == 1 and cells[0].group.bit_count() > 1:
                continue
            if self._violates(mask):
                continue
            if sum(cell.free for cell in cells) + self._reusable(pod).get(mask, 0) < size:
                continue
            masks.append(mask)
        return tuple(Hint(mask, mask.bit_count() == narrowest) for mask in masks)

    def _violates(self, mask: int) -> bool:
        """Whether a set of several nodes touches one that is used alone or in another group."""
        return mask.bit_count() > 1 and any(
            self.cells[node].assignments and self.cells[node].group != mask for node in bits(mask)
        )

    def _charge(self, mask: int, size: int) -> None:
        for node in bits(mask):
            cell = self.cells[node]
            cell.assignments += 1
            cell.group = mask
            part = min(size, cell.free)
            cell.reserved += part
            cell.free -= part
            size -= part

    def _release(self, block: Block) -> None:
        size = block.size_bytes
        for node in bits(block.mask):
            cell = self.cells[node]
            cell.assignments -= 1
            if cell.assignments == 0:
                cell.group = 1 << node
            part = min(size, cell.reserved)
            cell.reserved -= part
            cell.free += part
            size -= part

    def _reuse(self, pod: PodAsk, container: ContainerAsk, block: Block) -> None:
        """Book what later containers of the pod may reuse (updatePodReusableMemory)."""
        if self.reusable_of != pod.name:
            self.reusable_of, self.reusable = pod.name, {}
        before = self.reusable.get(block.mask, 0)
        if container.init and not container.sidecar:
            self.reusable[block.mask] = max(before, block.size_bytes)
        elif before:
            self.reusable[block.mask] = max(before - block.size_bytes, 0)

    def _shrink_init(self, pod: PodAsk, container: ContainerAsk, block: Block) -> None:
        """Earlier init containers give up what this one reuses, so that the pod's blocks add up."""
        left = block.size_bytes
        for earlier in pod.containers:
            if not earlier.init or earlier.name == container.name or left == 0:
                break
            given = self.blocks.get(pod.name, {}).get(earlier.name)
            if earlier.sidecar or given is None or given.mask != block.mask:
                continue
            part = min(given.size_bytes, left)
            given.size_bytes -= part
            left -= part


def _best(hints: Sequence[Hint]) -> Hint:
    """Preferred first, then the narrowest, then lower bits (findBestHint)."""
    return min(hints, key=lambda hint: (not hint.preferred, (hint.mask or 0).bit_count(), hint.mask or 0))
