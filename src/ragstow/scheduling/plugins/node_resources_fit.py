"""NodeResourcesFit: enough of every resource, and a score by one of three strategies (plugins/noderesources/fit.go)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragstow.errors import InputError, Reason
from ragstow.scheduling.amounts import is_extended, is_scalar
from ragstow.scheduling.behaviours import FIT_UNRESOLVABLE
from ragstow.scheduling.framework import (
    CycleState,
    FilterPlugin,
    Handle,
    PreFilterPlugin,
    ScorePlugin,
    StateKey,
    Status,
    unresolvable,
    unschedulable,
)
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.strategies import (
    Entry,
    Strategy,
    least_allocated,
    most_allocated,
    requested_to_capacity,
    resources_of,
    shape_of,
)

_WANTED: StateKey[tuple[tuple[str, int], ...]] = StateKey("NodeResourcesFit/wanted")
TOO_MANY_PODS = "Too many pods"


class NodeResourcesFit(PreFilterPlugin, FilterPlugin, ScorePlugin):
    """See the module. Arguments: scoringStrategy, ignoredResources, ignoredResourceGroups."""

    name = "NodeResourcesFit"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        raw = args.get("scoringStrategy") or {}
        self.resources = resources_of(raw.get("resources"))
        self.kind = str(raw.get("type") or "LeastAllocated")
        self.shape = shape_of((raw.get("requestedToCapacityRatio") or {}).get("shape") or ())
        self.strategy: Strategy
        match self.kind:
            case "LeastAllocated":
                self.strategy = least_allocated
            case "MostAllocated":
                self.strategy = most_allocated
            case "RequestedToCapacityRatio" if self.shape.points:
                self.strategy = requested_to_capacity(self.shape)
            case _:
                raise InputError(
                    "policy-strategy",
                    f"scoring strategy {self.kind} is unknown or has no shape",
                    hint="LeastAllocated, MostAllocated, or RequestedToCapacityRatio with requestedToCapacityRatio.shape",
                )
        self.ignored = frozenset(str(name) for name in args.get("ignoredResources") or ())
        self.ignored_groups = frozenset(str(name) for name in args.get("ignoredResourceGroups") or ())

    # --- filter ---

    def wanted(self, pod: PodInfo) -> tuple[tuple[str, int], ...]:
        """The resources that are checked for the pod: those it asks more than 0 of, without the ignored ones."""
        return tuple((name, amount) for name, amount in pod.sums.plain.items() if amount > 0 and not self._ignores(name))

    def _ignores(self, name: str) -> bool:
        return is_extended(name) and (name in self.ignored or name.partition("/")[0] in self.ignored_groups)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> None:
        """What to check, once for all nodes."""
        state.write(_WANTED, self.wanted(pod))

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refused with every resource that is short; more than the node's whole allocatable cannot be cured there."""
        allocatable, requested = node.allocatable, node.requested
        texts: list[str] | None = None
        hopeless = False
        if len(node.pods) + 1 > node.max_pods:
            texts = [TOO_MANY_PODS]
        for name, amount in state.read(_WANTED):
            capacity = allocatable.get(name, 0)
            if amount > capacity - requested.get(name, 0):
                if capacity == 0 and self._left_to_claims(name):
                    continue
                texts = texts or []
                texts.append(f"Insufficient {name}")
                hopeless = hopeless or amount > capacity
        if texts is None:
            return None
        return unresolvable(*texts) if hopeless and FIT_UNRESOLVABLE.at(self.handle.release) else unschedulable(*texts)

    def _left_to_claims(self, name: str) -> bool:
        extended = self.handle.extended
        return extended is not None and extended.backs(name)

    def explain(self, state: CycleState, pod: PodInfo, node: NodeInfo, status: Status) -> tuple[Reason, ...]:
        """What is asked, what the node has, what is left."""
        found = []
        for text in status.texts:
            if text == TOO_MANY_PODS:
                found.append(Reason("too-many-pods", f"{node.name} runs {len(node.pods)} pods of {node.max_pods} allowed"))
                continue
            name = text.removeprefix("Insufficient ")
            asked, has = pod.sums.plain.get(name, 0), node.allocatable.get(name, 0)
            if has == 0:
                said, code = f"{node.name} has no {name}", "resource-absent"
            elif asked > has:
                said, code = (
                    f"{node.name} has {shown(name, has)} of {name} in all, {pod.key} asks for {shown(name, asked)}",
                    "resource-too-small",
                )
            else:
                free = shown(name, node.free(name))
                said = f"{node.name} has {free} of {shown(name, has)} {name} free, {pod.key} asks for {shown(name, asked)}"
                code = "resource-short"
            found.append(Reason(code, said))
        return tuple(found)

    # --- score ---

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """The strategy over the listed resources, with the pod on the node."""
        return self.strategy(self.entries(pod, node))

    def entries(self, pod: PodInfo, node: NodeInfo) -> list[Entry]:
        """(weight, requested with the pod, allocatable) of the resources that count for pod and node."""
        made: list[Entry] = []
        for resource in self.resources:
            name, asked = resource.name, pod.sums.scored.get(resource.name, 0)
            if asked == 0 and is_scalar(name):
                continue
            allocatable = node.allocatable.get(name, 0)
            if name == "cpu":
                requested = node.non_zero_cpu_milli
            elif name == "memory":
                requested = node.non_zero_memory_bytes
            else:
                requested = node.requested.get(name, 0)
            if allocatable == 0 and self._left_to_claims(name) and self.handle.extended is not None:
                allocatable, requested = self.handle.extended.capacity(node, name)
            if allocatable:
                made.append((resource.weight, requested + asked, allocatable))
        return made


def shown(name: str, amount: int) -> str:
    """An amount for people: cores for cpu, GiB or MiB for memory and storage, the number else."""
    if name == "cpu":
        return f"{amount / 1000:g} cores"
    if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-"):
        return f"{amount / 2**30:.4g} GiB" if amount >= 2**30 else f"{amount / 2**20:.4g} MiB"
    return str(amount)
