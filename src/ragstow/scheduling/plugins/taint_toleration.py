"""TaintToleration: hard taints refuse, soft ones cost points (plugins/tainttoleration)."""

from __future__ import annotations

from collections.abc import Sequence

from ragstow.cluster.objects import Taint, Toleration
from ragstow.errors import Reason
from ragstow.scheduling.behaviours import TAINT_TEXT_SHORT
from ragstow.scheduling.framework import CycleState, FilterPlugin, PreScorePlugin, ScorePlugin, StateKey, Status, unresolvable
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.normalize import default_normalize
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.taints import CONDITION_PREFIX, CORDON_KEY, first_untolerated, tolerated

_SOFT: StateKey[tuple[Toleration, ...]] = StateKey("TaintToleration/soft")
_SHORT = unresolvable("node(s) had untolerated taint(s)")


class TaintToleration(FilterPlugin, PreScorePlugin, ScorePlugin):
    """See the module."""

    name = "TaintToleration"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refused by the first NoSchedule or NoExecute taint that is not tolerated."""
        if not node.node.taints:
            return None
        taint = first_untolerated(node.node.taints, pod.pod.tolerations)
        if taint is None:
            return None
        if TAINT_TEXT_SHORT.at(self.handle.release):
            return _SHORT
        return unresolvable(f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}")

    def explain(self, state: CycleState, pod: PodInfo, node: NodeInfo, status: Status) -> tuple[Reason, ...]:
        """The taint, also where the event does not name it."""
        taint = first_untolerated(node.node.taints, pod.pod.tolerations)
        if taint is None:
            return super().explain(state, pod, node, status)
        written = f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
        return (
            Reason(
                "taint-untolerated",
                f"{node.name} has taint {written}, which {pod.key} does not tolerate",
                _remedy(taint, node.name),
            ),
        )

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """Only tolerations of soft taints count for the score."""
        state.write(_SOFT, tuple(item for item in pod.pod.tolerations if item.effect in ("", "PreferNoSchedule")))
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """The number of PreferNoSchedule taints that are not tolerated."""
        if not node.node.taints:
            return 0
        soft = state.read(_SOFT)
        return sum(1 for taint in node.node.taints if taint.effect == "PreferNoSchedule" and not tolerated(taint, soft))

    def normalize(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], scores: list[int]) -> None:
        """Fewer is better."""
        default_normalize(scores, reverse=True)


def _remedy(taint: Taint, node: str) -> str:
    """What helps: a toleration, but not of what the control plane says about a node that takes no pods now."""
    if taint.key == CORDON_KEY:
        return f"kubectl uncordon {node}"
    if taint.key.startswith(CONDITION_PREFIX):
        return f"mend the node, do not tolerate it: kubectl describe node {node}"
    return f"add a toleration of key {taint.key}, effect {taint.effect}"
