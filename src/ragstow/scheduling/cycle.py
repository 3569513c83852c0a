"""One scheduling cycle after the other: which nodes pass, what they score, which is taken (pkg/scheduler/schedule_one.go).

This is the reference: it asks every plugin about every node, one by one. `simulate` has a faster way to the same answers. A
cycle places nothing; the engine does that with the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ragstow.errors import Reason
from ragstow.scheduling.decision import OUTSIDE, Decision
from ragstow.scheduling.fit_error import fit_error, histogram
from ragstow.scheduling.framework import CycleState, FilterPlugin, Status, Statuses, unresolvable
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.runtime import Framework, PreFiltered
from ragstow.scheduling.ties import TieBreaker

Sampling = Literal["all", "adaptive"]

_MIN_NODES_TO_FIND = 100
_MIN_PERCENTAGE_TO_FIND = 5
_UNSEEN = unresolvable()
"""What a node counts as that was never looked at (NodeToStatus without an entry)."""


@dataclass(slots=True)
class Found:
    """Nodes that passed, in the order found, and what the others were refused with."""

    nodes: list[NodeInfo] = field(default_factory=list)
    statuses: dict[str, Status] = field(default_factory=dict)
    error: Status | None = None


def nodes_to_find(nodes: int, percentage: int) -> int:
    """How many feasible nodes end the search under adaptive sampling (numFeasibleNodesToFind).

    Args:
        nodes: how many there are.
        percentage: percentageOfNodesToScore, 0 for adaptive.
    """
    if nodes < _MIN_NODES_TO_FIND or percentage >= 100:
        return nodes
    share = percentage or max(50 - nodes // 125, _MIN_PERCENTAGE_TO_FIND)
    return max(nodes * share // 100, _MIN_NODES_TO_FIND)


class Cycle:
    """Cycles of one profile.

    Args:
        framework: the profile's plugins over a world.
        sampling: "all" looks at every node; "adaptive" stops early as the original does, going round from where it stopped.
        ties: tells equal nodes apart.
    """

    def __init__(self, framework: Framework, sampling: Sampling, ties: TieBreaker) -> None:
        self.framework = framework
        self.world = framework.world
        self.sampling = sampling
        self.ties = ties
        self.next_start = 0

    def decide(self, pod: PodInfo, *, detail: bool = True, explain: bool = False) -> Decision:
        """Decide where `pod` goes.

        Args:
            pod: not on a node yet.
            detail: fill in `rejected`, `sample` and `scores`, and score a single feasible node too.
            explain: fill in `explained` where the pod fits nowhere.
        """
        state = CycleState()
        made = Decision(pod, state=state)
        if not self.world.nodes:
            made.message = "no nodes available to schedule pods"
            return made
        pre = self.framework.pre_filter(state, pod)
        if pre.status is not None:
            made.state.unasked = pre.unasked
            self._refused_before(made, pre.status)
            return made
        self._over_nodes(made, pre, detail=detail)
        if explain and made.node is None:
            made.explained = self.explain(made)
        return made

    def _refused_before(self, made: Decision, status: Status) -> None:
        if status.rejected:
            made.pre_filter = made.absent = status
            made.reasons = {f"prefilter: {text}": 1 for text in (status.message,)}
            made.message = fit_error(len(self.world.nodes), {}, status.message)
        else:
            made.error = status
            made.message = status.message

    # --- filters ---

    def _over_nodes(self, made: Decision, pre: PreFiltered, *, detail: bool) -> None:
        state, pod, nodes = made.state, made.pod, self.world.nodes
        said: dict[str, Status] = {}
        limiting = set(pre.limiting)
        first = self._nominated(state, pod, said, limiting)
        allowed = nodes if pre.names is None else [node for node in nodes if node.name in pre.names]
        absent = _UNSEEN
        if pre.names is not None:
            absent = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(limiting))}]").by(OUTSIDE)
        alone = first is not None and self.sampling == "adaptive"
        found = Found([first]) if first is not None and alone else self.find(state, pod, allowed)
        statuses = {**said, **found.statuses}
        if self.sampling == "adaptive" and not alone:
            self.next_start = (self.next_start + len(found.nodes) + len(statuses)) % len(nodes)
        made.feasible_seen = len(found.nodes)
        made.statuses, made.absent = Statuses(statuses), absent
        rejected = found.statuses
        if pre.names is not None:
            rejected = {
                node.name: found.statuses.get(node.name, absent)
                for node in nodes
                if node.name in found.statuses or node.name not in pre.names
            }
        made.reasons = histogram(len(rejected), rejected, absent)
        if detail:
            made.rejected = rejected
        if first is not None:
            made.node, made.feasible, made.evaluated, made.by_nomination = first.name, 1, 1, True
            made.tied, made.tie_count = (first.name,), 1
        elif found.error is not None:
            made.error = found.error
            made.message = found.error.message
        elif not found.nodes:
            made.message = fit_error(len(nodes), histogram(len(nodes), statuses, absent))
        else:
            made.evaluated = len(found.nodes) + len(statuses)
            made.feasible = len(found.nodes)
            self._choose(made, found.nodes, detail=detail)

    def _nominated(self, state: CycleState, pod: PodInfo, said: dict[str, Status], limiting: set[str]) -> NodeInfo | None:
        """The nominated node if it passes; else its refusal is noted, and its plugin joins the event's list."""
        node = self.world.node(pod.nominated_node) if pod.nominated_node else None
        if node is None:
            return None
        status = self.framework.filter_with_nominated(state, pod, node)
        if status is None:
            return node
        if status.rejected:
            said[node.name] = status
            limiting.add(status.plugin)
        return None

    def find(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Found:
        """Run the filters over `nodes`, from where the last search ended, until enough are found."""
        found = Found()
        count = len(nodes)
        wanted = self.wanted(count)
        start = self.next_start if self.sampling == "adaptive" else 0
        for number in range(count):
            node = nodes[(start + number) % count]
            status = self.framework.filter_with_nominated(state, pod, node)
            if status is None:
                if len(found.nodes) == wanted:
                    break
                found.nodes.append(node)
                continue
            found.statuses[node.name] = status
            if not status.rejected:
                found.error = found.error or status
                if self.sampling == "adaptive":
                    break
        return found

    def wanted(self, nodes: int) -> int:
        """How many feasible nodes the search needs."""
        if self.sampling == "all":
            return nodes
        return nodes_to_find(nodes, self.framework.profile.percentage) if self.framework.score_plugins else 1

    # --- scores ---

    def _choose(self, made: Decision, nodes: Sequence[NodeInfo], *, detail: bool) -> None:
        names = [node.name for node in nodes]
        if detail:
            made.sample = names
        if len(nodes) == 1 and not detail:
            made.node, made.tied, made.tie_count = names[0], (names[0],), 1
            return
        scored = self.framework.score(made.state, made.pod, nodes)
        if scored.error is not None:
            made.score_error = scored.error
            if len(nodes) > 1:
                made.error, made.message, made.feasible, made.evaluated = scored.error, scored.error.message, 0, 0
                return
            made.node, made.tied, made.tie_count = names[0], (names[0],), 1
            return
        totals = [sum(parts) for parts in zip(*scored.by_plugin.values(), strict=True)] or [0] * len(nodes)
        made.total = max(totals)
        made.tied = tuple(sorted(name for name, total in zip(names, totals, strict=True) if total == made.total))
        made.tie_count = len(made.tied)
        made.node = self.ties.pick(made.tied)
        if detail:
            made.scores = scored.by_plugin

    # --- words ---

    def explain(self, made: Decision) -> dict[str, tuple[Reason, ...]]:
        """Every refusal of a node in words, in node order; to be asked before the world changes."""
        if made.explained:
            return dict(made.explained)
        state, pod = made.state.settle(), made.pod
        by_name = {plugin.name: plugin for plugin in self.framework.plugins if isinstance(plugin, FilterPlugin)}
        words: dict[str, tuple[Reason, ...]] = {}
        for node in self.world.nodes:
            status = made.statuses.get(node.name)
            if status is None:
                if made.absent is not None and made.absent.plugin == OUTSIDE:
                    words[node.name] = (Reason("outside-names", f"{node.name} is not one of the nodes that {pod.key} names"),)
                continue
            plugin = by_name.get(status.plugin)
            if plugin is None or not status.rejected:
                words[node.name] = (Reason("error", f"{node.name}: {status.message}"),)
            else:
                words[node.name] = plugin.explain(state, pod, node, status)
        return words
