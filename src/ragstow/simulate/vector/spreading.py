"""PodTopologySpread over columns, for one shape of pods."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ragstow.scheduling.framework import MAX_NODE_SCORE
from ragstow.scheduling.plugins.node_affinity import required_matches
from ragstow.scheduling.plugins.pod_topology_spread import MISSING_LABEL, SKEW, PodTopologySpread
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.spread import HARD, HOSTNAME, SOFT, Constraint
from ragstow.scheduling.taints import first_untolerated
from ragstow.simulate.vector.arrays import Bools, Domains, Floats, Ints, NodeArrays
from ragstow.simulate.vector.podindex import Matcher, PodIndex
from ragstow.simulate.vector.resources import rounded

STATUSES = (MISSING_LABEL, SKEW)
"""What the codes 1 and 2 of `HardSpread.codes` stand for."""


@dataclass(slots=True)
class _Part:
    """A constraint with the nodes that take part in its counts."""

    constraint: Constraint
    domains: Domains
    pods: Ints
    included: Bools


def _parts(
    constraints: tuple[Constraint, ...], pod: PodInfo, arrays: NodeArrays, index: PodIndex, *, all_keys: bool
) -> list[_Part]:
    domains = [arrays.domains(constraint.topology_key) for constraint in constraints]
    keys = np.ones(arrays.count, dtype=np.bool_)
    for one in domains if all_keys else ():
        keys &= one.present
    fits: Bools | None = None
    tolerated: Bools | None = None
    made = []
    for constraint, one in zip(constraints, domains, strict=True):
        included = keys.copy()
        if constraint.honor_affinity and (pod.node_selector is not None or pod.required_nodes is not None):
            if fits is None:
                fits = np.array([required_matches(pod, node) for node in arrays.nodes], dtype=np.bool_)
            included &= fits
        if constraint.honor_taints:
            if tolerated is None:
                free = (first_untolerated(node.node.taints, pod.pod.tolerations) is None for node in arrays.nodes)
                tolerated = np.fromiter(free, dtype=np.bool_, count=arrays.count)
            included &= tolerated
        if constraint.selector.empty:
            pods = np.zeros(arrays.count, dtype=np.int64)
        else:
            pods = index.counts(Matcher(frozenset({pod.namespace}), constraint.selector, running=True))
        made.append(_Part(constraint, one, pods, included))
    return made


class HardSpread:
    """The filter. `codes` gives 0 where the pod may go, else the number of a status."""

    def __init__(self, plugin: PodTopologySpread, pod: PodInfo, arrays: NodeArrays, index: PodIndex) -> None:
        self.parts = _parts(plugin.constraints(pod, HARD), pod, arrays, index, all_keys=True)
        self.own = [int(part.constraint.selector.matches(pod.labels)) for part in self.parts]
        self.exists = [np.bincount(part.domains.ids[part.included], minlength=part.domains.count) > 0 for part in self.parts]

    def codes(self) -> Ints | None:
        """The codes now, None without constraints."""
        codes: Ints | None = None
        for part, own, exists in zip(self.parts, self.own, self.exists, strict=True):
            counts = part.domains.sums(part.pods, part.included)
            number = int(np.count_nonzero(exists))
            least = 0 if number < part.constraint.min_domains else int(counts[exists].min())
            too_many = counts + own - least > part.constraint.max_skew
            present = part.domains.present
            code = np.where(present, np.where(too_many[part.domains.ids], 2, 0), 1)
            codes = code if codes is None else np.where(codes == 0, code, codes)
        return codes


class SoftSpread:
    """The score; None where the plugin is skipped."""

    def __init__(self, plugin: PodTopologySpread, pod: PodInfo, arrays: NodeArrays, index: PodIndex) -> None:
        self.all_keys = plugin.requires_all_keys(pod)
        self.parts = _parts(plugin.constraints(pod, SOFT), pod, arrays, index, all_keys=self.all_keys)
        self.takes_part = np.ones(arrays.count, dtype=np.bool_)
        for part in self.parts if self.all_keys else ():
            self.takes_part &= part.domains.present

    def scores(self, nodes: Ints) -> Ints | None:
        """Normalised scores of the feasible nodes."""
        if not self.parts:
            return None
        counted = self.takes_part[nodes]
        total: Floats = np.zeros(len(nodes))
        for part in self.parts:
            constraint, domains = part.constraint, part.domains
            if constraint.topology_key == HOSTNAME:
                size = int(np.count_nonzero(counted))
                pods = part.pods[nodes]
            else:
                here = domains.or_empty[nodes]
                size = int(np.count_nonzero(np.bincount(here[counted], minlength=domains.count)))
                included = part.included
                sums = np.bincount(domains.or_empty[included], weights=part.pods[included], minlength=domains.count)
                pods = sums.astype(np.int64)[here]
            added = pods.astype(np.float64) * math.log(size + 2) + float(constraint.max_skew - 1)
            total = total + np.where(domains.present[nodes], added, 0.0)
        raw = rounded(total)
        taking = raw[counted]
        largest = max(0, int(taking.max())) if len(taking) else 0
        if largest == 0:
            points = np.full(len(nodes), MAX_NODE_SCORE, dtype=np.int64)
        else:
            points = MAX_NODE_SCORE * (largest + int(taking.min()) - raw) // largest
        return np.where(counted, points, 0)
