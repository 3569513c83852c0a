"""A scheduling cycle that asks all nodes at once; its answers are those of `scheduling.cycle`, to which it falls back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ragstow.scheduling.cycle import Cycle, Sampling
from ragstow.scheduling.decision import OUTSIDE, Decision, Later
from ragstow.scheduling.fit_error import fit_error
from ragstow.scheduling.framework import Code, CycleState, FilterPlugin, PreScorePlugin, Status, Statuses, failure, unresolvable
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.runtime import Framework, PreFiltered
from ragstow.scheduling.ties import ByName, TieBreaker
from ragstow.simulate.vector.arrays import Bools, Ints, NodeArrays
from ragstow.simulate.vector.entry import OWN_WAY, Entry, Refusals, Views
from ragstow.simulate.vector.kept import Kept
from ragstow.simulate.vector.podindex import PodIndex
from ragstow.simulate.vector.shape import needs_objects, shape_of
from ragstow.simulate.vector.termindex import TermIndex

_ROWS_KEPT = 1_500_000
"""Shapes are remembered for so many nodes in all: about a quarter of a gigabyte."""
_UNSEEN = unresolvable()


@dataclass(slots=True)
class _Search:
    """What the filters said: feasible nodes and all nodes looked at, in the order of the search; single refusals by number."""

    feasible: Ints
    looked_at: Ints
    refusals: Mapping[str, Refusals]
    single: dict[int, Status] = field(default_factory=dict)
    error: Status | None = None


class _LateStatuses(Statuses):
    """Refusals by node that are spelt out when somebody asks for a node; to be asked before the world changes."""

    def __init__(self, cycle: VectorCycle, found: _Search, said: Mapping[str, Status]) -> None:
        super().__init__({})
        self._cycle, self._search, self._said = cycle, found, said
        self._whole: Mapping[str, Status] | None = None

    def _all(self) -> Mapping[str, Status]:
        if self._whole is None:
            self._whole = self._found = {**self._said, **self._cycle.statuses_of(self._search)}
        return self._whole

    def __getitem__(self, node: str) -> Status:
        return self._all()[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        if self._said or self._whole is not None:
            return len(self._all())
        return len(self._search.looked_at) - len(self._search.feasible)

    def number(self, code: Code) -> int:
        """How many nodes have a status with this code, without spelling them out."""
        if self._said or self._whole is not None:
            return super().number(code)
        return sum(number for status, number in self._cycle.tally_of(self._search) if status.code is code)


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
            found = _Search(np.array([first.index]), np.array([first.index]), {})
        else:
            found = self._search(entry, made.state, pod, allowed)
        made.absent = absent
        made.feasible_seen = len(found.feasible)
        if detail or not len(found.feasible):
            made.statuses = _LateStatuses(self, found, said)
        if self.sampling == "adaptive" and first is None:
            names = {arrays.names[i] for i in found.looked_at} if said else ()
            extra = sum(1 for name in said if name not in names)
            self.next_start = (self.next_start + len(found.looked_at) + extra) % arrays.count
        if detail:
            made.rejected = self._rejected(found, pre, absent)
        if detail or not len(found.feasible):
            made.reasons = self._reasons(found, arrays.count - len(allowed), absent)
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

    def _names(self, found: _Search) -> set[str]:
        return {self.arrays.names[i] for i in found.looked_at}

    def _search(self, entry: Entry, state: CycleState, pod: PodInfo, allowed: Ints) -> _Search:
        """Ask the allowed nodes, from where the last search ended, until enough are found."""
        order = allowed
        wanted = self.wanted(len(allowed))
        if self.sampling == "adaptive" and len(allowed):
            order = np.roll(allowed, -(self.next_start % len(allowed)))
        refusals = entry.refusals()
        expected = self._expected(pod)
        if entry.one_by_one or expected:
            return self._walk(state, pod, order, wanted, refusals, entry.one_by_one, expected)
        passes = entry.passes(refusals)
        if order is self.everyone:
            return _Search(np.flatnonzero(passes), order, refusals)
        positions = np.flatnonzero(passes[order])
        if len(positions) > wanted:
            return _Search(order[positions[:wanted]], order[: positions[wanted]], refusals)
        return _Search(order[positions], order, refusals)

    def _expected(self, pod: PodInfo) -> frozenset[int]:
        """Numbers of nodes to which other pods of the same or a higher priority are nominated."""
        names = self.framework.nominated_nodes()
        if not names:
            return frozenset()
        found = set()
        for name in names:
            node = self.world.node(name)
            others = self.framework.nominated(name)
            if node is not None and any(other.priority >= pod.priority and other.key != pod.key for other in others):
                found.add(node.index)
        return frozenset(found)

    def _walk(
        self,
        state: CycleState,
        pod: PodInfo,
        order: Ints,
        wanted: int,
        refusals: Mapping[str, Refusals],
        others: Sequence[FilterPlugin],
        expected: frozenset[int],
    ) -> _Search:
        """Node by node where some filter must be asked itself: the rest of the filters come from the columns."""
        slow = {plugin.name for plugin in others}
        start = min((self.order.index(name) for name in slow), default=len(self.order))
        before = [refusals[name] for name in self.order[:start] if name in refusals]
        after = [plugin for plugin in self.framework.filter_plugins[start:] if plugin.name in slow or plugin.name in refusals]
        open_ = _passes([said.codes for said in before], self.arrays.count)
        reference: CycleState | None = None
        feasible: list[int] = []
        single: dict[int, Status] = {}
        error: Status | None = None
        looked_at = len(order)
        for position, number in enumerate(order.tolist()):
            node = self.world.nodes[number]
            status: Status | None = None
            if number in expected:
                if reference is None:
                    reference = CycleState()
                    self.framework.pre_filter(reference, pod)
                status = self.framework.filter_with_nominated(reference, pod, node)
            elif not open_[number]:
                continue
            else:
                for plugin in after:
                    if plugin.name in slow:
                        status = plugin.filter(state, pod, node)
                        if status is not None and not status.rejected:
                            status = failure(f'running "{plugin.name}" filter plugin: {status.message}')
                    else:
                        said = refusals[plugin.name]
                        code = int(said.codes[number])
                        status = said.status(code) if code else None
                    if status is not None:
                        status = status.by(plugin.name)
                        break
            if status is None:
                if len(feasible) == wanted:
                    looked_at = position
                    break
                feasible.append(number)
                continue
            single[number] = status
            if not status.rejected:
                error = error or status
                if self.sampling == "adaptive":
                    looked_at = position + 1
                    break
        return _Search(np.array(feasible, dtype=np.int64), order[:looked_at], refusals, single, error)

    # --- what refused whom ---

    def _refused(self, found: _Search) -> Ints:
        """Numbers of the nodes looked at that are not feasible and have no single refusal, in the order of the search."""
        out: Bools = np.zeros(self.arrays.count, dtype=np.bool_)
        out[found.looked_at] = True
        out[found.feasible] = False
        out[list(found.single)] = False
        return found.looked_at[out[found.looked_at]]

    def statuses_of(self, found: _Search) -> dict[str, Status]:
        """The first refusal of every node looked at, by name, in the order of the search."""
        by_number = dict(found.single)
        left = self._refused(found)
        for name in self.order:
            said = found.refusals.get(name)
            if said is None or not len(left):
                continue
            codes = said.codes[left]
            hit = codes != 0
            known = {int(code): said.status(int(code)).by(name) for code in np.unique(codes[hit])}
            by_number.update(
                (number, known[code]) for number, code in zip(left[hit].tolist(), codes[hit].tolist(), strict=True)
            )
            left = left[~hit]
        return {self.arrays.names[i]: by_number[i] for i in found.looked_at.tolist() if i in by_number}

    def _rejected(self, found: _Search, pre: PreFiltered, absent: Status) -> dict[str, Status]:
        statuses = self.statuses_of(found)
        if pre.names is None:
            return statuses
        names = [name for name in self.arrays.names if name in statuses or name not in pre.names]
        return {name: statuses.get(name, absent) for name in names}

    def tally_of(self, found: _Search) -> list[tuple[Status, int]]:
        """(status, how many nodes) of all refusals; a status may come up twice."""
        made = [(status, 1) for status in found.single.values()]
        left = self._refused(found)
        for name in self.order:
            said = found.refusals.get(name)
            if said is None or not len(left):
                continue
            codes = said.codes[left]
            hit = codes != 0
            made.extend((said.status(code), number) for code, number in _tally(codes[hit]))
            left = left[~hit]
        return made

    def _reasons(self, found: _Search, outside: int, absent: Status) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for status, number in self.tally_of(found):
            for text in status.texts:
                counts[text] += number
        for text in absent.texts if outside else ():
            counts[text] += outside
        return dict(sorted(counts.items(), key=lambda item: f"{item[1]} {item[0]}"))

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


def _tally(codes: Ints) -> list[tuple[int, int]]:
    """(code, how often) of codes that are small numbers in most cases."""
    if not len(codes):
        return []
    if int(codes.max()) > 4096:
        found, numbers = np.unique(codes, return_counts=True)
        return list(zip(found.tolist(), numbers.tolist(), strict=True))
    numbers = np.bincount(codes)
    found = np.flatnonzero(numbers)
    return list(zip(found.tolist(), numbers[found].tolist(), strict=True))


def _passes(columns: Sequence[Ints], count: int) -> Bools:
    passes: Bools = np.ones(count, dtype=np.bool_)
    for codes in columns:
        passes &= codes == 0
    return passes
