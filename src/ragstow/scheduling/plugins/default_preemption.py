"""DefaultPreemption as a post-filter; the search for victims is `preemption`'s (plugins/defaultpreemption)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstow.scheduling.framework import Code, CycleState, Handle, PostFilterPlugin, PostFilterResult, Status, Statuses
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.preemption import Preemption, budget_group


class DefaultPreemption(PostFilterPlugin):
    """See the module. Arguments: minCandidateNodesPercentage (10), minCandidateNodesAbsolute (100)."""

    name = "DefaultPreemption"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        percentage, absolute = args.get("minCandidateNodesPercentage"), args.get("minCandidateNodesAbsolute")
        self.evaluator = Preemption(
            handle, 10 if percentage is None else int(percentage), 100 if absolute is None else int(absolute)
        )

    def pod_added(self, pod: PodInfo, node: str) -> None:
        """One more that may be healthy."""
        self.evaluator.changes[budget_group(pod)] += 1

    def pod_removed(self, pod: PodInfo, node: str) -> None:
        """One healthy pod less for the budgets that cover it."""
        self.evaluator.changes[budget_group(pod)] -= 1

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Statuses, absent: Status
    ) -> tuple[PostFilterResult | None, Status]:
        """Nominate a node and name the victims, or say why that does not help."""
        result, status = self.evaluator.preempt(state, pod, statuses, absent)
        if status.message:
            return result, Status(status.code, (f"preemption: {status.message}",), status.plugin)
        return result, Status(Code.SUCCESS) if status.code is Code.SUCCESS else status
