"""PodTopologySpread: pods spread evenly over the values of a node label (plugins/podtopologyspread/{filtering,scoring}.go).

Hard constraints filter, soft ones score. A pod without constraints gets the profile's defaults; the system's defaults need a
Service or a controller that tells which pods belong together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from ragstow.scheduling.plugins.node_affinity import required_matches
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.spread import (
    HARD,
    HOSTNAME,
    SOFT,
    SYSTEM_DEFAULTS,
    Constraint,
    constraints_of,
    counts_node,
    default_selector,
    has_keys,
    matching_pods,
)
from ragstow.scheduling.strategies import rounded

MISSING_LABEL = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
SKEW = unschedulable("node(s) didn't match pod topology spread constraints")


@dataclass(slots=True)
class HardState:
    """Pods per domain of every hard constraint."""

    constraints: tuple[Constraint, ...]
    self_match: tuple[int, ...]
    counts: list[dict[str, int]]

    def clone(self) -> HardState:
        """A copy with counts of its own."""
        return HardState(self.constraints, self.self_match, [dict(count) for count in self.counts])

    def minimum(self, number: int) -> int:
        """The global minimum: 0 while there are fewer domains than minDomains."""
        counts = self.counts[number]
        return 0 if len(counts) < self.constraints[number].min_domains else min(counts.values())


@dataclass(slots=True)
class SoftState:
    """Pods per domain of every soft constraint (not of host names), the weights, and nodes that take no part."""

    constraints: tuple[Constraint, ...]
    ignored: frozenset[str]
    counts: list[dict[str, int]]
    weights: list[float]


HARD_STATE: StateKey[HardState] = StateKey("PodTopologySpread/hard")
SOFT_STATE: StateKey[SoftState] = StateKey("PodTopologySpread/soft")


class PodTopologySpread(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """See the module. Arguments: defaultConstraints, defaultingType (System, List)."""

    name = "PodTopologySpread"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self.system = args.get("defaultingType") in (None, "", "System")
        self.defaults: Sequence[Mapping[str, Any]] = SYSTEM_DEFAULTS if self.system else args.get("defaultConstraints") or ()

    def constraints(self, pod: PodInfo, action: str) -> tuple[Constraint, ...]:
        """The pod's own constraints of this action, else the defaults with a deduced selector, if one can be deduced."""
        own = pod.pod.spec.get("topologySpreadConstraints") or ()
        if own:
            return constraints_of(own, action, pod.labels)
        raw = [item for item in self.defaults if item.get("whenUnsatisfiable") == action]
        if not raw:
            return ()
        selector = default_selector(pod, self.handle.world)
        if selector.empty:
            return ()
        return tuple(
            Constraint(item.max_skew, item.topology_key, selector, item.min_domains, item.honor_affinity, item.honor_taints)
            for item in constraints_of(raw, action, pod.labels)
        )

    def requires_all_keys(self, pod: PodInfo) -> bool:
        """Whether a node that lacks a topology key takes no part in scoring: not under the system's defaults."""
        return bool(pod.pod.spec.get("topologySpreadConstraints")) or not self.system

    # --- filter ---

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """Count the pods of every domain, over nodes that have all keys and that the inclusion policies let in."""
        constraints = self.constraints(pod, HARD)
        if not constraints:
            return SKIP
        counts: list[dict[str, int]] = [{} for _ in constraints]
        for node in nodes:
            if not has_keys(node.labels, constraints):
                continue
            fits = required_matches(pod, node)
            for constraint, count in zip(constraints, counts, strict=True):
                if counts_node(constraint, pod, node, fits):
                    value = node.labels[constraint.topology_key]
                    count[value] = count.get(value, 0) + matching_pods(node, constraint.selector, pod.namespace)
        own = tuple(int(constraint.selector.matches(pod.labels)) for constraint in constraints)
        state.write(HARD_STATE, HardState(constraints, own, counts))
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """One more in the node's domains."""
        self._update(state, pod, added, node, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """One less in the node's domains."""
        self._update(state, pod, removed, node, -1)

    def _update(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo, delta: int) -> None:
        hard = state.find(HARD_STATE)
        if hard is None or other.namespace != pod.namespace or not has_keys(node.labels, hard.constraints):
            return
        fits = required_matches(pod, node)
        for constraint, count in zip(hard.constraints, hard.counts, strict=True):
            if constraint.selector.matches(other.labels) and counts_node(constraint, pod, node, fits):
                value = node.labels[constraint.topology_key]
                count[value] = count.get(value, 0) + delta

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refused without a key, or where one more pod would be more than maxSkew above the global minimum."""
        hard = state.read(HARD_STATE)
        for i, constraint in enumerate(hard.constraints):
            value = node.labels.get(constraint.topology_key)
            if value is None:
                return MISSING_LABEL
            if hard.counts[i].get(value, 0) + hard.self_match[i] - hard.minimum(i) > constraint.max_skew:
                return SKEW
        return None

    def explain(self, state: CycleState, pod: PodInfo, node: NodeInfo, status: Status) -> tuple[Reason, ...]:
        """The missing key, or the counts of the domain."""
        hard = state.read(HARD_STATE)
        for i, constraint in enumerate(hard.constraints):
            value = node.labels.get(constraint.topology_key)
            if value is None:
                return (Reason("spread-label-missing", f"{node.name} has no label {constraint.topology_key} to spread over"),)
            here, least = hard.counts[i].get(value, 0), hard.minimum(i)
            if here + hard.self_match[i] - least > constraint.max_skew:
                said = f"{constraint.topology_key}={value} would have {here + hard.self_match[i]} pods, the least has {least}"
                return (Reason("spread-skew", f"{node.name}: {said}; maxSkew is {constraint.max_skew}"),)
        return super().explain(state, pod, node, status)

    # --- score ---

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """Domains among the nodes that passed, and the pods in them over all nodes."""
        constraints = self.constraints(pod, SOFT)
        if not constraints:
            return SKIP
        all_keys = self.requires_all_keys(pod)
        ignored: set[str] = set()
        counts: list[dict[str, int]] = [{} for _ in constraints]
        for node in nodes:
            if all_keys and not has_keys(node.labels, constraints):
                ignored.add(node.name)
                continue
            for constraint, count in zip(constraints, counts, strict=True):
                if constraint.topology_key != HOSTNAME:
                    count.setdefault(node.labels.get(constraint.topology_key, ""), 0)
        sizes = [
            len(nodes) - len(ignored) if constraint.topology_key == HOSTNAME else len(count)
            for constraint, count in zip(constraints, counts, strict=True)
        ]
        for node in self.handle.world.nodes:
            if all_keys and not has_keys(node.labels, constraints):
                continue
            fits = required_matches(pod, node)
            for constraint, count in zip(constraints, counts, strict=True):
                value = node.labels.get(constraint.topology_key, "")
                if value in count and counts_node(constraint, pod, node, fits):
                    count[value] += matching_pods(node, constraint.selector, pod.namespace)
        state.write(SOFT_STATE, SoftState(constraints, frozenset(ignored), counts, [math.log(size + 2) for size in sizes]))
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Weighted pods in the node's domains: fewer is better until normalised."""
        soft = state.read(SOFT_STATE)
        if node.name in soft.ignored:
            return 0
        total = 0.0
        for constraint, count, weight in zip(soft.constraints, soft.counts, soft.weights, strict=True):
            value = node.labels.get(constraint.topology_key)
            if value is None:
                continue
            if constraint.topology_key == HOSTNAME:
                pods = matching_pods(node, constraint.selector, pod.namespace)
            else:
                pods = count[value]
            total += float(pods) * weight + float(constraint.max_skew - 1)
        return rounded(total)

    def normalize(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], scores: list[int]) -> None:
        """Turned round between the smallest and the largest; nodes that take no part get 0."""
        soft = state.read(SOFT_STATE)
        counted = [score for node, score in zip(nodes, scores, strict=True) if node.name not in soft.ignored]
        largest, smallest = max([0, *counted]), min(counted, default=0)
        for i, node in enumerate(nodes):
            if node.name in soft.ignored:
                scores[i] = 0
            elif largest == 0:
                scores[i] = MAX_NODE_SCORE
            else:
                scores[i] = MAX_NODE_SCORE * (largest + smallest - scores[i]) // largest
