"""The affinity terms of the pods that run: how many pods hold each term in every domain of its topology key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ragstow.scheduling.podinfo import AffinityTerm, PodInfo
from ragstow.scheduling.world import World
from ragstow.simulate.vector.arrays import Ints, NodeArrays

KINDS: tuple[tuple[str, Callable[[PodInfo], Sequence[AffinityTerm]]], ...] = (
    ("required_affinity", lambda pod: pod.required_affinity),
    ("required_anti_affinity", lambda pod: pod.required_anti_affinity),
    ("preferred_affinity", lambda pod: pod.preferred_affinity),
    ("preferred_anti_affinity", lambda pod: pod.preferred_anti_affinity),
)


@dataclass(slots=True)
class Matched:
    """The terms of one kind that speak of some pod, and how many terms were known when that was found out."""

    counts: list[tuple[AffinityTerm, Ints]] = field(default_factory=list)
    known: int = 0


class TermIndex:
    """See the module."""

    def __init__(self, world: World, arrays: NodeArrays) -> None:
        self.world = world
        self.arrays = arrays
        self._terms: dict[str, dict[AffinityTerm, Ints]] = {kind: {} for kind, _ in KINDS}
        self._listed: dict[str, list[tuple[AffinityTerm, Ints]]] = {kind: [] for kind, _ in KINDS}
        self._seen = len(world.events)
        for node in world.nodes:
            for pod in node.affinity_pods:
                self._count(pod, node.index, 1)

    def _count(self, pod: PodInfo, node: int, delta: int) -> None:
        for kind, terms_of in KINDS:
            for term in terms_of(pod):
                domains = self.arrays.domains(term.topology_key)
                column = self._terms[kind].get(term)
                if column is None:
                    column = self._terms[kind][term] = np.zeros(domains.count, dtype=np.int64)
                    self._listed[kind].append((term, column))
                if domains.ids[node] >= 0:
                    column[domains.ids[node]] += delta

    def refresh(self) -> None:
        """Bring the counts up to date with the world."""
        events = self.world.events
        for event in events[self._seen :] if self._seen < len(events) else ():
            if event.pod.has_affinity:
                self._count(event.pod, event.node, event.delta)
        self._seen = len(events)

    def matching(self, kind: str, pod: PodInfo, matched: Matched) -> list[tuple[AffinityTerm, Ints]]:
        """(term, pods per domain) of the terms of a kind that speak of `pod`; `matched` remembers it for pods of its shape."""
        listed = self._listed[kind]
        if matched.known < len(listed):
            labels = self.world.namespaces.get(pod.namespace, {})
            matched.counts.extend(item for item in listed[matched.known :] if item[0].matches(pod, labels))
            matched.known = len(listed)
        return matched.counts
