"""SchedulingGates: a pod with gates stays out of the queue (plugins/schedulinggates)."""

from __future__ import annotations

from ragstow.scheduling.framework import PreEnqueuePlugin, Status, unresolvable
from ragstow.scheduling.podinfo import PodInfo


class SchedulingGates(PreEnqueuePlugin):
    """See the module."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Refused while any gate is left."""
        return unresolvable(f"waiting for scheduling gates: [{' '.join(pod.gates)}]") if pod.gates else None
