"""InterPodAffinity: pods that want to be near or away from other pods (plugins/interpodaffinity/{filtering,scoring}.go).

matchLabelKeys and mismatchLabelKeys are merged into the selector by the API server when the pod is created, so the scheduler
reads the selector only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ragstow.errors import Reason
from ragstow.scheduling.framework import (
    MAX_NODE_SCORE,
    SKIP,
    CycleState,
    FilterPlugin,
    Handle,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    StateKey,
    Status,
    unresolvable,
    unschedulable,
)
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import AffinityTerm, PodInfo
from ragstow.scheduling.selectors import NOTHING

AFFINITY = unresolvable("node(s) didn't match pod affinity rules")
ANTI_AFFINITY = unschedulable("node(s) didn't match pod anti-affinity rules")
EXISTING = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")

Pair = tuple[str, str]
"""(topology key, value)."""


class Counts(dict[Pair, int]):
    """Matching terms per topology pair; a pair that falls to 0 is gone."""

    def change(self, node: NodeInfo, key: str, delta: int) -> None:
        """Count `delta` for the node's value of the key, if it has one."""
        value = node.labels.get(key)
        if value is None:
            return
        pair = (key, value)
        left = self.get(pair, 0) + delta
        if left:
            self[pair] = left
        else:
            self.pop(pair, None)


@dataclass(slots=True)
class FilterState:
    """The pod's own terms, with namespace selectors resolved, and what they and other pods' terms count."""

    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    namespace_labels: Mapping[str, str]
    existing: Counts
    matched: Counts
    avoided: Counts

    def clone(self) -> FilterState:
        """A copy with counts of its own."""
        return replace(self, existing=Counts(self.existing), matched=Counts(self.matched), avoided=Counts(self.avoided))


FILTER_STATE: StateKey[FilterState] = StateKey("InterPodAffinity/filter")
SCORE_STATE: StateKey[dict[str, dict[str, int]]] = StateKey("InterPodAffinity/score")


def matches_all(terms: Sequence[AffinityTerm], pod: PodInfo) -> bool:
    """Whether a pod is one that every term speaks of; no terms: no."""
    return bool(terms) and all(term.matches(pod, None) for term in terms)


class InterPodAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """See the module. Arguments: hardPodAffinityWeight (1), ignorePreferredTermsOfExistingPods."""

    name = "InterPodAffinity"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        weight = args.get("hardPodAffinityWeight")
        self.hard_weight = 1 if weight is None else int(weight)
        self.ignore_existing = args.get("ignorePreferredTermsOfExistingPods") is True

    def resolved(self, terms: Iterable[AffinityTerm]) -> tuple[AffinityTerm, ...]:
        """Terms with the namespaces of their namespaceSelector listed; an empty selector stays: it means all namespaces."""
        made = []
        for term in terms:
            selector = term.namespace_selector
            if not selector.empty and not selector.nothing:
                found = {name for name, labels in self.handle.world.namespaces.items() if selector.matches(labels)}
                term = replace(term, namespaces=term.namespaces | found, namespace_selector=NOTHING)
            made.append(term)
        return tuple(made)

    # --- filter ---

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """Count, per topology pair, the existing pods whose anti-affinity the pod breaks and those that its terms speak of."""
        labels = self.handle.world.namespaces.get(pod.namespace, {})
        made = FilterState(
            self.resolved(pod.required_affinity),
            self.resolved(pod.required_anti_affinity),
            labels,
            Counts(),
            Counts(),
            Counts(),
        )
        for node in nodes:
            for other in node.anti_affinity_pods:
                _count_terms(made.existing, other.required_anti_affinity, pod, labels, node, 1)
        if made.affinity or made.anti_affinity:
            for node in nodes:
                for other in node.pods:
                    self._count_own(made, other, node, 1)
        if not made.existing and not made.affinity and not made.anti_affinity:
            return SKIP
        state.write(FILTER_STATE, made)
        return None

    @staticmethod
    def _count_own(made: FilterState, other: PodInfo, node: NodeInfo, delta: int) -> None:
        if matches_all(made.affinity, other):
            for term in made.affinity:
                made.matched.change(node, term.topology_key, delta)
        _count_terms(made.avoided, made.anti_affinity, other, None, node, delta)

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Count one more pod."""
        self._update(state, pod, added, node, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Count one pod less."""
        self._update(state, pod, removed, node, -1)

    def _update(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo, delta: int) -> None:
        made = state.find(FILTER_STATE)
        if made is not None:
            _count_terms(made.existing, other.required_anti_affinity, pod, made.namespace_labels, node, delta)
            self._count_own(made, other, node, delta)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Own affinity, own anti-affinity, then that of the pods that run already."""
        made = state.read(FILTER_STATE)
        if not self._near(made, pod, node):
            return AFFINITY
        if made.avoided and any(_at(made.avoided, term, node) > 0 for term in made.anti_affinity):
            return ANTI_AFFINITY
        if made.existing and any(made.existing.get(pair, 0) > 0 for pair in node.labels.items()):
            return EXISTING
        return None

    @staticmethod
    def _near(made: FilterState, pod: PodInfo, node: NodeInfo) -> bool:
        """Every term's domain has a pod; or none has anywhere and the pod is the first of a group that wants itself."""
        missing = False
        for term in made.affinity:
            if term.topology_key not in node.labels:
                return False
            missing = missing or _at(made.matched, term, node) <= 0
        return not missing or (not made.matched and matches_all(made.affinity, pod))

    def explain(self, state: CycleState, pod: PodInfo, node: NodeInfo, status: Status) -> tuple[Reason, ...]:
        """The term and the domain, and for anti-affinity a pod that it is about."""
        made = state.read(FILTER_STATE)
        if status.texts == AFFINITY.texts:
            for term in made.affinity:
                value = node.labels.get(term.topology_key)
                if value is None:
                    return (Reason("affinity-label-missing", f"{node.name} has no label {term.topology_key}"),)
                if _at(made.matched, term, node) <= 0:
                    return (
                        Reason(
                            "affinity-unmet",
                            f"{node.name}: no pod that {pod.key} wants near runs in {term.topology_key}={value}",
                        ),
                    )
        if status.texts == ANTI_AFFINITY.texts:
            for term in made.anti_affinity:
                if _at(made.avoided, term, node) > 0:
                    domain = f"{term.topology_key}={node.labels[term.topology_key]}"
                    who = self._found(domain, partial(_matches, term))
                    return (Reason("anti-affinity", f"{node.name}: {who} runs in {domain}, {pod.key} must not be near it"),)
        for key, value in node.labels.items():
            if made.existing.get((key, value), 0) > 0:

                def against(other: PodInfo, key: str = key) -> bool:
                    terms = other.required_anti_affinity
                    return any(term.topology_key == key and term.matches(pod, made.namespace_labels) for term in terms)

                who = self._found(f"{key}={value}", against)
                return (
                    Reason("anti-affinity-existing", f"{node.name}: {who} in {key}={value} does not want {pod.key} near it"),
                )
        return super().explain(state, pod, node, status)

    def _found(self, domain: str, wanted: Callable[[PodInfo], bool]) -> str:
        key, _, value = domain.partition("=")
        for node in self.handle.world.nodes:
            if node.labels.get(key) == value:
                for other in node.pods:
                    if wanted(other):
                        return other.key
        return "a pod"

    # --- score ---

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """Sum, per topology pair, what the preferences of the pod and of existing pods give; skip where nothing matched."""
        near, away = self.resolved(pod.preferred_affinity), self.resolved(pod.preferred_anti_affinity)
        own = bool(near or away)
        if not own and self.ignore_existing:
            return SKIP
        labels = self.handle.world.namespaces.get(pod.namespace, {})
        sums: dict[str, dict[str, int]] = {}
        for node in self.handle.world.nodes:
            for other in node.pods if own else node.affinity_pods:
                for term in near:
                    _give(sums, term, term.weight, other, None, node)
                for term in away:
                    _give(sums, term, -term.weight, other, None, node)
                if not other.has_affinity:
                    continue
                if self.hard_weight > 0:
                    for term in other.required_affinity:
                        _give(sums, term, self.hard_weight, pod, labels, node)
                for term in other.preferred_affinity:
                    _give(sums, term, term.weight, pod, labels, node)
                for term in other.preferred_anti_affinity:
                    _give(sums, term, -term.weight, pod, labels, node)
        if not sums:
            return SKIP
        state.write(SCORE_STATE, sums)
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """The sums of the node's topology pairs."""
        total = 0
        for key, values in state.read(SCORE_STATE).items():
            value = node.labels.get(key)
            if value is not None:
                total += values.get(value, 0)
        return total

    def normalize(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], scores: list[int]) -> None:
        """The smallest becomes 0, the largest 100; all 0 where they are equal."""
        smallest, largest = min(scores, default=0), max(scores, default=0)
        span = largest - smallest
        for i, score in enumerate(scores):
            scores[i] = int(float(MAX_NODE_SCORE) * (float(score - smallest) / float(span))) if span > 0 else 0


def _matches(term: AffinityTerm, pod: PodInfo) -> bool:
    return term.matches(pod, None)


def _count_terms(
    counts: Counts, terms: Iterable[AffinityTerm], pod: PodInfo, labels: Mapping[str, str] | None, node: NodeInfo, delta: int
) -> None:
    for term in terms:
        if term.matches(pod, labels):
            counts.change(node, term.topology_key, delta)


def _at(counts: Counts, term: AffinityTerm, node: NodeInfo) -> int:
    value = node.labels.get(term.topology_key)
    return 0 if value is None else counts.get((term.topology_key, value), 0)


def _give(
    sums: dict[str, dict[str, int]],
    term: AffinityTerm,
    amount: int,
    pod: PodInfo,
    labels: Mapping[str, str] | None,
    node: NodeInfo,
) -> None:
    value = node.labels.get(term.topology_key)
    if value is not None and term.matches(pod, labels):
        values = sums.setdefault(term.topology_key, {})
        values[value] = values.get(value, 0) + amount
