"""InterPodAffinity over columns, for one shape of pods."""

from __future__ import annotations

import numpy as np

from ragstow.scheduling.framework import MAX_NODE_SCORE
from ragstow.scheduling.plugins.inter_pod_affinity import AFFINITY, ANTI_AFFINITY, EXISTING, InterPodAffinity, matches_all
from ragstow.scheduling.podinfo import PodInfo
from ragstow.simulate.vector.arrays import Bools, Ints, NodeArrays
from ragstow.simulate.vector.podindex import Matcher, PodIndex
from ragstow.simulate.vector.termindex import Matched, TermIndex

STATUSES = (AFFINITY, ANTI_AFFINITY, EXISTING)
"""What the codes 1, 2 and 3 of `PodAffinity.codes` stand for."""


class PodAffinity:
    """Filter and score."""

    def __init__(self, plugin: InterPodAffinity, pod: PodInfo, arrays: NodeArrays, index: PodIndex, terms: TermIndex) -> None:
        self.plugin, self.pod, self.arrays, self.index, self.terms = plugin, pod, arrays, index, terms
        self.near = plugin.resolved(pod.required_affinity)
        self.away = plugin.resolved(pod.required_anti_affinity)
        self.first_of_group = matches_all(self.near, pod)
        self.near_pods = index.counts(*(Matcher.of_term(term) for term in self.near)) if self.near else None
        self.away_pods = [index.counts(Matcher.of_term(term)) for term in self.away]
        self.liked = [(term, term.weight) for term in plugin.resolved(pod.preferred_affinity)]
        self.liked += [(term, -term.weight) for term in plugin.resolved(pod.preferred_anti_affinity)]
        self.liked_pods = [index.counts(Matcher.of_term(term)) for term, _ in self.liked]
        self._required_anti = Matched()
        self._required, self._preferred, self._preferred_anti = Matched(), Matched(), Matched()

    # --- filter ---

    def codes(self) -> Ints | None:
        """0 where the pod may go, else the number of a status; None where nothing can refuse it."""
        existing = self.terms.matching("required_anti_affinity", self.pod, self._required_anti)
        if not existing and not self.near and not self.away:
            return None
        codes = np.zeros(self.arrays.count, dtype=np.int64)
        for term, counts in existing:
            codes[self._at(counts, term.topology_key) > 0] = 3
        for term, pods in zip(self.away, self.away_pods, strict=True):
            sums = self.arrays.domains(term.topology_key).sums(pods)
            codes[self._at(sums, term.topology_key) > 0] = 2
        if self.near:
            codes[~self._is_near()] = 1
        return codes

    def _is_near(self) -> Bools:
        """Every term's domain holds a pod that all terms speak of; or none is anywhere and the pod starts its own group."""
        assert self.near_pods is not None
        has_keys = np.ones(self.arrays.count, dtype=np.bool_)
        met = np.ones(self.arrays.count, dtype=np.bool_)
        anywhere = False
        for term in self.near:
            domains = self.arrays.domains(term.topology_key)
            sums = domains.sums(self.near_pods)
            has_keys &= domains.present
            met &= self._at(sums, term.topology_key) > 0
            anywhere = anywhere or bool(sums.any())
        return has_keys if not anywhere and self.first_of_group else has_keys & met

    def _at(self, sums: Ints, key: str) -> Ints:
        """The sum of the node's domain, 0 where it has none."""
        domains = self.arrays.domains(key)
        return np.where(domains.present, sums[domains.ids], 0)

    # --- score ---

    def scores(self, nodes: Ints) -> Ints | None:
        """Normalised scores of the feasible nodes; None where the plugin is skipped."""
        plugin = self.plugin
        if plugin.ignore_existing and not self.liked:
            return None
        total: Ints | None = None
        for (term, weight), pods in zip(self.liked, self.liked_pods, strict=True):
            total = self._give(total, term.topology_key, self.arrays.domains(term.topology_key).sums(pods), weight)
        if plugin.hard_weight > 0:
            for term, counts in self.terms.matching("required_affinity", self.pod, self._required):
                total = self._give(total, term.topology_key, counts, plugin.hard_weight)
        for term, counts in self.terms.matching("preferred_affinity", self.pod, self._preferred):
            total = self._give(total, term.topology_key, counts, term.weight)
        for term, counts in self.terms.matching("preferred_anti_affinity", self.pod, self._preferred_anti):
            total = self._give(total, term.topology_key, counts, -term.weight)
        if total is None:
            return None
        raw = total[nodes]
        smallest, largest = int(raw.min()), int(raw.max())
        if largest == smallest:
            return np.zeros(len(nodes), dtype=np.int64)
        share = (raw - smallest).astype(np.float64) / float(largest - smallest)
        return (float(MAX_NODE_SCORE) * share).astype(np.int64)

    def _give(self, total: Ints | None, key: str, counts: Ints, weight: int) -> Ints | None:
        """Add a term's weight per pod; a term that no pod in any domain meets does not count as a match."""
        if not counts.any():
            return total
        given = self._at(counts, key) * weight
        return given if total is None else total + given
