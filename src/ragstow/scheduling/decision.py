"""What one scheduling cycle of one pod came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from ragstow.errors import Reason
from ragstow.scheduling.framework import CycleState, Status, Statuses
from ragstow.scheduling.podinfo import PodInfo

OUTSIDE = "PreFilterResult"
"""The plugin name under which nodes are listed that a pre-filter's node names left out."""


_NO_STATUS = Statuses({})
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def _nothing() -> Mapping[str, Any]:
    return _NOTHING


def _no_status() -> Statuses:
    return _NO_STATUS


T = TypeVar("T")


class Later(Generic[T]):
    """A value that is made when first read; for parts of a decision that few readers want. Read it before the world changes."""

    __slots__ = ("_made", "_maker")

    def __init__(self, maker: Callable[[], T]) -> None:
        self._maker = maker
        self._made: T | None = None

    def get(self) -> T:
        """The value."""
        if self._made is None:
            self._made = self._maker()
        return self._made


@dataclass(slots=True)
class Decision:
    """See the module.

    `node` is None where the pod fits nowhere; then `message` is the event's text without what the post-filters add, and
    `feasible` and `evaluated` are 0. `reasons` counts refusal texts over the nodes looked at; `tie_count` nodes share the top
    total. The rest is filled in on demand: `rejected` (node -> status), `sample` (feasible nodes in the order found), `scores`
    (plugin -> weighted scores in the order of `sample`), `explained` (node -> reasons in words). `statuses` and `absent` are
    for the post-filters: the refusals by node, and what all other nodes count as.
    """

    pod: PodInfo
    node: str | None = None
    feasible: int = 0
    evaluated: int = 0
    tied: tuple[str, ...] | Later[tuple[str, ...]] = ()
    tie_count: int = 0
    total: int | None = None
    reasons: Mapping[str, int] = field(default_factory=_nothing)
    message: str = ""
    pre_filter: Status | None = None
    error: Status | None = None
    score_error: Status | None = None
    by_nomination: bool = False
    feasible_seen: int = 0
    rejected: Mapping[str, Status] = field(default_factory=_nothing)
    sample: Sequence[str] = ()
    scores: Mapping[str, Sequence[int]] = field(default_factory=_nothing)
    explained: Mapping[str, tuple[Reason, ...]] = field(default_factory=_nothing)
    state: CycleState = field(default_factory=CycleState, repr=False)
    statuses: Statuses = field(default_factory=_no_status, repr=False)
    absent: Status | None = field(default=None, repr=False)

    @property
    def ties(self) -> tuple[str, ...]:
        """The names that share the top total, sorted."""
        return self.tied.get() if isinstance(self.tied, Later) else self.tied

    def scores_of(self, node: str) -> dict[str, int]:
        """Weighted scores of a feasible node by plugin; empty where none were asked for."""
        if node not in self.sample:
            return {}
        position = list(self.sample).index(node)
        return {plugin: values[position] for plugin, values in self.scores.items()}
