"""A scheduling cycle that asks all nodes at once; its answers are those of `scheduling.cycle`, to which it falls back."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np

from ragstow.scheduling.cycle import Cycle, Sampling
from ragstow.scheduling.decision import OUTSIDE, Decision, Later
from ragstow.scheduling.fit_error import fit_error
from ragstow.scheduling.framework import CycleState, PreScorePlugin, Status, unresolvable
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.runtime import Framework, PreFiltered
from ragstow.scheduling.ties import ByName, TieBreaker
from ragstow.simulate.vector.arrays import Ints, NodeArrays
from ragstow.simulate.vector.entry import OWN_WAY, Entry, Views
from ragstow.simulate.vector.kept import Kept
from ragstow.simulate.vector.podindex import PodIndex
from ragstow.simulate.vector.search import LateStatuses, Search
from ragstow.simulate.vector.shape import needs_objects, shape_of
from ragstow.simulate.vector.termindex import TermIndex
from ragstow.simulate.vector.walk import Ask, Walker, walk

_ROWS_KEPT = 1_500_000
"""Shapes are remembered for so many nodes in all: about a quarter of a gigabyte."""
_UNSEEN = unresolvable()


class VectorCycle(Cycle):
    """See the module."""

    def __init__(self, framework: Framework, sampling: Sampling, ties: TieBreaker) -> None:
        super().__init__(framework, sampling, ties)
        arrays = NodeArrays(self.world)
        self.arrays = arrays
        self.views = Views(arrays, PodIndex(self.world), TermIndex(self.world, arrays))
        self.everyone: Ints = np.arange(arrays.count, dtype=np.int64)
        self.shapes: Kept[bytes, Entry] = Kept(min(4096, max(64, _ROWS_KEPT // max(arrays.count, 1))))
        self.order = [plugin.name for plugin in framework.filter_plugins]
        self.own_way = frozenset(plugin.name for plugin in framework.plugins if isinstance(plugin, OWN_WAY))
        self.others = frozenset(plugin.name for plugin in framework.plugins) - self.own_way

    def decide(self, pod: PodInfo, *, detail: bool = True, explain: bool = False) -> Decision:
        """Decide where `pod` goes; see `Cycle.decide`."""
        extended = self.framework.handle.extended
        if not self.world.nodes or (extended is not None and any(extended.backs(name) for name in pod.sums.plain)):
            return super().decide(pod, detail=detail, explain=explain)
        self.views.refresh()
        keeps = not needs_objects(pod)
        entry = self.shapes.get(shape_of(pod), lambda: Entry(self.framework, pod, self.views, keeps=keeps))
        entry.refresh()
        made = Decision(pod)
        pre = entry.pre_filtered(made.state, pod, self.own_way)
        made.state.late = partial(self._complete, pod)
        if pre.status is not None:
            made.state.unasked = pre.unasked
            self._refused_before(made, pre.status)
            return made
        self._decide(made, entry, pre, detail=detail)
        if explain and made.node is None:
            made.explained = self.explain(made)
        return made

    def _complete(self, pod: PodInfo, state: CycleState) -> None:
        """Run the pre-filters of the plugins that are kept as columns, as the reference does from the start."""
        skipped = state.skip_filter
        self.framework.pre_filter(state, pod, self.others)
        state.skip_filter |= skipped

    # --- filters ---

    def _decide(self, made: Decision, entry: Entry, pre: PreFiltered, *, detail: bool) -> None:
        pod, arrays = made.pod, self.arrays
        said: dict[str, Status] = {}
        limiting = set(pre.limiting)
        first = self._nominated(made.state.settle(), pod, said, limiting) if pod.nominated_node else None
        absent = _UNSEEN
        allowed = self.everyone
        if pre.names is not None:
            absent = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(limiting))}]").by(OUTSIDE)
            allowed = np.array([i for i in self.everyone if arrays.names[i] in pre.names], dtype=np.int64)
        if first is not None and self.sampling == "adaptive":
            found = Search(arrays.names, self.order, np.array([first.index]), np.array([first.index]))
        else:
            found = self._search(entry, made.state, pod, allowed)
        made.absent = absent
        made.feasible_seen = len(found.feasible)
        if detail or not len(found.feasible):
            made.statuses = LateStatuses(found, said)
        if self.sampling == "adaptive" and first is None:
            names = {arrays.names[i] for i in found.looked_at} if said else ()
            extra = sum(1 for name in said if name not in names)
            self.next_start = (self.next_start + len(found.looked_at) + extra) % arrays.count
        if detail:
            made.rejected = self._rejected(found, pre, absent)
        if detail or not len(found.feasible):
            made.reasons = found.reasons(arrays.count - len(allowed), absent)
        if first is not None:
            made.node, made.feasible, made.evaluated, made.by_nomination = first.name, 1, 1, True
            made.tied, made.tie_count = (first.name,), 1
        elif found.error is not None:
            made.error, made.message = found.error, found.error.message
        elif not len(found.feasible):
            reasons = made.reasons
            if said:
                counts = Counter(text for status in made.statuses.values() for text in status.texts)
                counts.update({text: arrays.count - len(made.statuses) for text in absent.texts})
                reasons = +counts
            made.message = fit_error(arrays.count, reasons)
        else:
            rejected = len(found.looked_at) - len(found.feasible)
            made.evaluated = len(found.feasible) + rejected + sum(1 for name in said if name not in self._names(found))
            made.feasible = len(found.feasible)
            self._take(made, entry, found.feasible, detail=detail)

    def _names(self, found: Search) -> set[str]:
        return {self.arrays.names[i] for i in found.looked_at}

    def _search(self, entry: Entry, state: CycleState, pod: PodInfo, allowed: Ints) -> Search:
        """Ask the allowed nodes, from where the last search ended, until enough are found."""
        order = allowed
        wanted = self.wanted(len(allowed))
        if self.sampling == "adaptive" and len(allowed):
            order = np.roll(allowed, -(self.next_start % len(allowed)))
        refusals = entry.refusals()
        expected = self._expected(pod)
        if entry.one_by_one or expected:
            slow = frozenset(plugin.name for plugin in entry.one_by_one)
            walker = Walker(state, pod, self.framework.filter_plugins, slow, refusals, self.arrays.count)
            found = Search(self.arrays.names, self.order, order[:0], order, refusals)
            walk(found, self.world.nodes, walker, expected, wanted, stop=self.sampling == "adaptive")
            return found
        passes = entry.passes(refusals)
        if order is self.everyone:
            return Search(self.arrays.names, self.order, np.flatnonzero(passes), order, refusals)
        positions = np.flatnonzero(passes[order])
        seen = order[: positions[wanted]] if len(positions) > wanted else order
        return Search(self.arrays.names, self.order, order[positions[:wanted]], seen, refusals)

    def _expected(self, pod: PodInfo) -> dict[int, Ask]:
        """How to ask the nodes to which other pods of the same or a higher priority are nominated: as the reference does."""
        found: dict[int, Ask] = {}
        state: CycleState | None = None

        def ask(node: NodeInfo) -> Status | None:
            nonlocal state
            if state is None:
                state = CycleState()
                self.framework.pre_filter(state, pod)
            return self.framework.filter_with_nominated(state, pod, node)

        for name in self.framework.nominated_nodes():
            node = self.world.node(name)
            others = self.framework.nominated(name)
            if node is not None and any(other.priority >= pod.priority and other.key != pod.key for other in others):
                found[node.index] = ask
        return found

    def _rejected(self, found: Search, pre: PreFiltered, absent: Status) -> dict[str, Status]:
        statuses = found.statuses()
        if pre.names is None:
            return statuses
        names = [name for name in self.arrays.names if name in statuses or name not in pre.names]
        return {name: statuses.get(name, absent) for name in names}

    # --- scores ---

    def _take(self, made: Decision, entry: Entry, nodes: Ints, *, detail: bool) -> None:
        names = self.arrays.names
        if detail:
            made.sample = [names[i] for i in nodes.tolist()]
        if len(nodes) == 1 and not detail:
            name = names[int(nodes[0])]
            made.node, made.tied, made.tie_count = name, (name,), 1
            return
        if not detail and entry.sums_do:
            totals = entry.sums[nodes]
            for name, weight in entry.varying:
                points = entry.points(name, nodes)
                if points is not None:
                    totals = totals + points * weight
            self._pick(made, nodes, totals)
            return
        by_plugin, error = self._scores(made, entry, nodes)
        if error is not None:
            made.score_error = error
            if len(nodes) > 1:
                made.error, made.message, made.feasible, made.evaluated = error, error.message, 0, 0
            else:
                made.node, made.tied, made.tie_count = names[int(nodes[0])], (names[int(nodes[0])],), 1
            return
        totals = np.zeros(len(nodes), dtype=np.int64)
        for values in by_plugin.values():
            totals = totals + values
        self._pick(made, nodes, totals)
        if detail:
            made.scores = {name: values.tolist() for name, values in by_plugin.items()}

    def _pick(self, made: Decision, nodes: Ints, totals: Ints) -> None:
        names = self.arrays.names
        made.total = int(totals.max())
        best = nodes[totals == made.total].astype(np.int32)
        made.tie_count = len(best)
        made.tied = Later(lambda: tuple(sorted(names[i] for i in best.tolist())))
        made.node = (
            names[int(best[self.arrays.rank[best].argmin()])] if isinstance(self.ties, ByName) else self.ties.pick(made.ties)
        )

    def _scores(self, made: Decision, entry: Entry, nodes: Ints) -> tuple[dict[str, Ints], Status | None]:
        """Weighted scores of the feasible nodes by plugin, without the skipped ones."""
        found: dict[str, Ints] = {}
        slow = []
        for scorer in self.framework.score_plugins:
            name, weight = scorer.name, self.framework.weight(scorer.name)
            if name in entry.adapted:
                points = entry.points(name, nodes)
                if points is not None:
                    found[name] = points * weight
            elif scorer.zero_without_filter and name in made.state.skip_filter:
                if not (isinstance(scorer, PreScorePlugin) and scorer.pre_score(CycleState(), made.pod, ())):
                    found[name] = np.zeros(len(nodes), dtype=np.int64)
            else:
                found[name] = np.zeros(0, dtype=np.int64)
                slow.append(name)
        if slow:
            scored = self.framework.score(made.state, made.pod, [self.world.nodes[i] for i in nodes.tolist()], frozenset(slow))
            if scored.error is not None:
                return {}, scored.error
            for name in slow:
                if name in scored.by_plugin:
                    found[name] = np.array(scored.by_plugin[name], dtype=np.int64)
                else:
                    del found[name]
        return found, None
