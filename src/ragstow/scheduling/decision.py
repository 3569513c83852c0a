"""What one scheduling cycle of one pod came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ragstow.errors import Reason
from ragstow.scheduling.framework import CycleState, Status
from ragstow.scheduling.podinfo import PodInfo

OUTSIDE = "PreFilterResult"
"""The plugin name under which nodes are listed that a pre-filter's node names left out."""


@dataclass(slots=True)
class Decision:
    """See the module.

    `node` is None where the pod fits nowhere; then `message` is the event's text without what the post-filters add, and
    `feasible` and `evaluated` are 0. `reasons` counts refusal texts over the nodes looked at. `ties` are the names that share
    the top total, sorted. The rest is filled in on demand: `rejected` (node -> status), `sample` (feasible nodes in the order
    found), `scores` (plugin -> weighted scores in the order of `sample`), `explained` (node -> reasons in words).
    """

    pod: PodInfo
    node: str | None = None
    feasible: int = 0
    evaluated: int = 0
    ties: tuple[str, ...] = ()
    total: int | None = None
    reasons: Mapping[str, int] = field(default_factory=dict)
    message: str = ""
    pre_filter: Status | None = None
    error: Status | None = None
    score_error: Status | None = None
    by_nomination: bool = False
    feasible_seen: int = 0
    rejected: Mapping[str, Status] = field(default_factory=dict)
    sample: Sequence[str] = ()
    scores: Mapping[str, Sequence[int]] = field(default_factory=dict)
    explained: Mapping[str, tuple[Reason, ...]] = field(default_factory=dict)
    state: CycleState = field(default_factory=CycleState, repr=False)
    statuses: Mapping[str, Status] = field(default_factory=dict, repr=False)
    absent: Status | None = field(default=None, repr=False)

    def scores_of(self, node: str) -> dict[str, int]:
        """Weighted scores of a feasible node by plugin; empty where none were asked for."""
        if node not in self.sample:
            return {}
        position = list(self.sample).index(node)
        return {plugin: values[position] for plugin, values in self.scores.items()}
