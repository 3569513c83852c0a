"""NodeResourcesBalancedAllocation: nodes whose resources are used evenly score higher.

Source: plugins/noderesources/balanced_allocation.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragstow.scheduling.amounts import is_scalar
from ragstow.scheduling.behaviours import BALANCED_DELTA
from ragstow.scheduling.framework import SKIP, CycleState, Handle, PreScorePlugin, ScorePlugin, Status
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.strategies import Entry, balance, resources_of


class BalancedAllocation(PreScorePlugin, ScorePlugin):
    """See the module. Argument: resources."""

    name = "NodeResourcesBalancedAllocation"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self.resources = resources_of(args.get("resources"))
        self.delta = BALANCED_DELTA.at(handle.release)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """Skip for a pod that asks for none of the listed resources."""
        return None if any(pod.sums.plain.get(resource.name, 0) for resource in self.resources) else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """How even the node is with the pod; since 1.36 against how even it is without."""
        after: list[Entry] = []
        before: list[Entry] = []
        for resource in self.resources:
            name, asked = resource.name, pod.sums.plain.get(resource.name, 0)
            if asked == 0 and is_scalar(name):
                continue
            allocatable, requested = node.allocatable.get(name, 0), node.requested.get(name, 0)
            extended = self.handle.extended
            if allocatable == 0 and extended is not None and extended.backs(name):
                allocatable, requested = extended.capacity(node, name)
            if allocatable:
                after.append((resource.weight, requested + asked, allocatable))
                before.append((resource.weight, requested, allocatable))
        with_pod = balance(after)
        if not self.delta:
            return with_pod
        return 50 + (50 + with_pod - balance(before)) // 2
