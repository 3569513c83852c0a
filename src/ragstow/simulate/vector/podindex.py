"""How many pods of a kind run on each node, without looking at every pod again and again.

Pods with the same namespace, labels and state of termination are one group. A matcher (namespaces and a selector) is asked
about groups once; its column is then kept up to date from the world's events.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ragstow.scheduling.podinfo import AffinityTerm, PodInfo
from ragstow.scheduling.selectors import Selector
from ragstow.scheduling.world import World
from ragstow.simulate.vector.arrays import Ints

_Group = tuple[str, bool, frozenset[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Matcher:
    """Pods of some namespaces (None: all) that a selector names; `running` leaves terminating ones out."""

    namespaces: frozenset[str] | None
    selector: Selector
    running: bool = False

    @classmethod
    def of_term(cls, term: AffinityTerm) -> Matcher:
        """Who a term with resolved namespaces speaks of."""
        return cls(None if term.namespace_selector.empty else term.namespaces, term.selector)

    def matches(self, pod: PodInfo) -> bool:
        """Whether it speaks of the pod."""
        if self.running and pod.terminating:
            return False
        return (self.namespaces is None or pod.namespace in self.namespaces) and self.selector.matches(pod.labels)


class PodIndex:
    """See the module. `counts` gives live columns: read them, do not change them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._size = len(world.nodes)
        self._members: dict[_Group, tuple[PodInfo, dict[int, int]]] = {}
        self._columns: dict[tuple[Matcher, ...], Ints] = {}
        self._watching: dict[_Group, list[Ints]] = {}
        self._seen = len(world.events)
        for pod, node in world.placed:
            self._count(pod, node.index, 1)

    def _count(self, pod: PodInfo, node: int, delta: int) -> _Group:
        group = (pod.namespace, pod.terminating, frozenset(pod.labels.items()))
        known = self._members.get(group)
        if known is None:
            known = self._members[group] = (pod, {})
            self._watching[group] = [
                column for matchers, column in self._columns.items() if all(matcher.matches(pod) for matcher in matchers)
            ]
        known[1][node] = known[1].get(node, 0) + delta
        return group

    def refresh(self) -> None:
        """Bring groups and columns up to date with the world."""
        events = self.world.events
        for event in events[self._seen :] if self._seen < len(events) else ():
            group = self._count(event.pod, event.node, event.delta)
            for column in self._watching[group]:
                column[event.node] += event.delta
        self._seen = len(events)

    def counts(self, *matchers: Matcher) -> Ints:
        """Pods per node that all matchers speak of."""
        column = self._columns.get(matchers)
        if column is None:
            self.refresh()
            column = self._columns[matchers] = np.zeros(self._size, dtype=np.int64)
            for group, (pod, nodes) in self._members.items():
                if all(matcher.matches(pod) for matcher in matchers):
                    self._watching[group].append(column)
                    for node, number in nodes.items():
                        column[node] += number
        return column
