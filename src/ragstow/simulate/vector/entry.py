"""What is known of one shape of pods: which nodes refuse it and why, and what the nodes score, brought up to date on use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ragstow.scheduling.framework import MAX_NODE_SCORE, CycleState, FilterPlugin, Plugin, ScorePlugin, Status
from ragstow.scheduling.plugins.balanced_allocation import BalancedAllocation
from ragstow.scheduling.plugins.image_locality import ImageLocality
from ragstow.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from ragstow.scheduling.plugins.node_affinity import NodeAffinity
from ragstow.scheduling.plugins.node_declared_features import NodeDeclaredFeatures
from ragstow.scheduling.plugins.node_name import NodeName
from ragstow.scheduling.plugins.node_ports import NodePorts
from ragstow.scheduling.plugins.node_resources_fit import NodeResourcesFit
from ragstow.scheduling.plugins.node_unschedulable import NodeUnschedulable
from ragstow.scheduling.plugins.pod_topology_spread import PodTopologySpread
from ragstow.scheduling.plugins.taint_toleration import TaintToleration
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.runtime import Framework, PreFiltered
from ragstow.simulate.vector import affinity, spreading
from ragstow.simulate.vector.affinity import PodAffinity
from ragstow.simulate.vector.arrays import Bools, Ints, NodeArrays
from ragstow.simulate.vector.kept import Kept
from ragstow.simulate.vector.podindex import PodIndex
from ragstow.simulate.vector.resources import EVERYWHERE, BalanceScore, Before, FitFilter, FitScore, Where, counted
from ragstow.simulate.vector.spreading import HardSpread, SoftSpread
from ragstow.simulate.vector.termindex import TermIndex

STATIC_FILTERS: tuple[type[FilterPlugin], ...] = (
    NodeName,
    NodeUnschedulable,
    TaintToleration,
    NodeAffinity,
    NodeDeclaredFeatures,
)
"""Filters whose answer depends on the pod's shape and the node object only."""

OWN_WAY = (PodTopologySpread, InterPodAffinity, NodeResourcesFit)
"""Plugins whose pre-filter only prepares what is kept here in another form."""

_ANSWERS_KEPT = 1024


@dataclass(slots=True)
class Views:
    """The shared views of a world, and answers of static plugins that several shapes have in common."""

    arrays: NodeArrays
    pods: PodIndex
    terms: TermIndex
    static: Kept[tuple[str, object], tuple[Ints, list[Status]]] = field(default_factory=lambda: Kept(_ANSWERS_KEPT))
    before: Kept[tuple[str, ...], Before] = field(default_factory=lambda: Kept(_ANSWERS_KEPT))
    raw: Kept[tuple[str, object], Ints] = field(default_factory=lambda: Kept(_ANSWERS_KEPT))

    def refresh(self) -> None:
        """Bring all views up to date."""
        self.arrays.refresh()
        self.pods.refresh()
        self.terms.refresh()


@dataclass(slots=True)
class Refusals:
    """A filter's answers: a number per node, 0 where it passes, and what a number stands for."""

    made: Ints | Callable[[], Ints]
    status: Callable[[int], Status]

    @property
    def codes(self) -> Ints:
        """The numbers."""
        return self.made() if callable(self.made) else self.made


class Ports:
    """NodePorts: asked node by node, again where pods came or went."""

    def __init__(self, plugin: NodePorts, pod: PodInfo, arrays: NodeArrays) -> None:
        self.plugin, self.pod, self.arrays, self.state = plugin, pod, arrays, CycleState()
        self.codes: Ints = np.zeros(arrays.count, dtype=np.int64)
        self.update(EVERYWHERE)

    def update(self, where: Where) -> None:
        """Ask the nodes in question again."""
        numbers = range(self.arrays.count) if isinstance(where, slice) else where
        for i in numbers:
            self.codes[i] = self.plugin.filter(self.state, self.pod, self.arrays.nodes[i]) is not None

    def status(self, code: int) -> Status:
        """The one refusal there is."""
        node = self.arrays.nodes[int(np.argmax(self.codes == code))]
        status = self.plugin.filter(self.state, self.pod, node)
        assert status is not None
        return status


class Entry:
    """See the module.

    Args:
        framework: the profile's plugins.
        pod: any pod of the shape.
        views: the shared views of the world.
        keeps: whether the pre-filters' answers hold for every pod of the shape.
    """

    def __init__(self, framework: Framework, pod: PodInfo, views: Views, *, keeps: bool) -> None:
        self.framework, self.pod, self.views, self.keeps = framework, pod, views, keeps
        self.pre: PreFiltered | None = None
        self.skipped: frozenset[str] = frozenset()
        self.static_passes: Bools = np.zeros(0, dtype=np.bool_)
        self.steady: dict[str, Refusals] = {}
        self.one_by_one: list[FilterPlugin] = []
        self.sums_do = False
        arrays = views.arrays
        self.seen = arrays.seen
        self.by_name: dict[str, Plugin] = {plugin.name: plugin for plugin in framework.plugins}
        self.static: dict[str, Refusals] = {}
        self.ports: Ports | None = None
        self.fit: FitFilter | None = None
        self.hard: HardSpread | None = None
        for plugin in framework.filter_plugins:
            if isinstance(plugin, STATIC_FILTERS):
                self.static[plugin.name] = self._static(plugin)
            elif isinstance(plugin, NodePorts) and pod.host_ports:
                self.ports = Ports(plugin, pod, arrays)
            elif isinstance(plugin, NodeResourcesFit):
                self.fit = FitFilter(plugin, pod, arrays)
            elif isinstance(plugin, PodTopologySpread):
                self.hard = HardSpread(plugin, pod, arrays, views.pods)
        inter = self.by_name.get("InterPodAffinity")
        self.affinity: PodAffinity | None = None
        if isinstance(inter, InterPodAffinity):
            self.affinity = PodAffinity(inter, pod, arrays, views.pods, views.terms)
        self.fit_score: FitScore | None = None
        self.balance: BalanceScore | None = None
        self.soft: SoftSpread | None = None
        self.raw: dict[str, Ints] = {}
        for scorer in framework.score_plugins:
            if isinstance(scorer, NodeResourcesFit):
                self.fit_score = FitScore(scorer, pod, arrays)
            elif isinstance(scorer, BalancedAllocation):
                if scorer.pre_score(CycleState(), pod, ()) is None:
                    names = counted(scorer, pod)
                    before = views.before.get(names, partial(Before, names, arrays)) if scorer.delta else None
                    self.balance = BalanceScore(scorer, pod, arrays, before)
            elif isinstance(scorer, PodTopologySpread):
                self.soft = SoftSpread(scorer, pod, arrays, views.pods)
            elif isinstance(scorer, TaintToleration | NodeAffinity | ImageLocality):
                self._raw(scorer)
        self._same: Ints = np.zeros(arrays.count, dtype=np.int64)
        self._summed: list[tuple[int, Ints]] = []
        self.varying: list[tuple[str, int]] = []
        for scorer in framework.score_plugins:
            self._sort_in(scorer.name, framework.weight(scorer.name))
        self.sums: Ints = np.zeros(arrays.count, dtype=np.int64)
        self._sum_up(EVERYWHERE)
        self.adapted = frozenset(
            plugin.name
            for plugin in framework.plugins
            if isinstance(plugin, (*STATIC_FILTERS, *OWN_WAY, NodePorts, BalancedAllocation, ImageLocality))
        )

    # --- what is asked once ---

    def _static(self, plugin: FilterPlugin) -> Refusals:
        codes, statuses = self.views.static.get((plugin.name, _reads(plugin, self.pod)), lambda: self._ask(plugin))
        return Refusals(codes, lambda code: statuses[code - 1])

    def _ask(self, plugin: FilterPlugin) -> tuple[Ints, list[Status]]:
        state, statuses = CycleState(), list[Status]()
        numbers: dict[Status, int] = {}
        codes = np.zeros(self.views.arrays.count, dtype=np.int64)
        for i, node in enumerate(self.views.arrays.nodes):
            status = plugin.filter(state, self.pod, node)
            if status is not None:
                if status not in numbers:
                    numbers[status] = len(numbers) + 1
                    statuses.append(status)
                codes[i] = numbers[status]
        return codes, statuses

    def _raw(self, plugin: ScorePlugin) -> None:
        """Raw scores of a scorer that looks at the node object only; nothing where it is skipped."""
        state = CycleState()
        if isinstance(plugin, TaintToleration | NodeAffinity):
            status = plugin.pre_score(state, self.pod, self.views.arrays.nodes)
            if status is not None:
                return

        def ask() -> Ints:
            values = (plugin.score(state, self.pod, node) for node in self.views.arrays.nodes)
            return np.fromiter((value if isinstance(value, int) else 0 for value in values), np.int64, self.views.arrays.count)

        self.raw[plugin.name] = self.views.raw.get((plugin.name, _reads(plugin, self.pod)), ask)

    def _sort_in(self, name: str, weight: int) -> None:
        """Decide whether a scorer's points can be summed up beforehand or vary with the nodes that are feasible."""
        raw = self.raw.get(name)
        if name == "NodeResourcesFit" and self.fit_score is not None:
            self._summed.append((weight, self.fit_score.scores))
        elif name == "NodeResourcesBalancedAllocation":
            if self.balance is not None:
                self._summed.append((weight, self.balance.scores))
        elif name == "ImageLocality" and raw is not None:
            self._same += raw * weight
        elif name in ("TaintToleration", "NodeAffinity"):
            if raw is not None and raw.any():
                self.varying.append((name, weight))
            elif raw is not None and name == "TaintToleration":
                self._same += MAX_NODE_SCORE * weight
        elif (name == "PodTopologySpread" and self.soft is not None and self.soft.parts) or name == "InterPodAffinity":
            self.varying.append((name, weight))

    # --- what is asked again ---

    def refresh(self) -> None:
        """Ask the nodes that changed since the last use again."""
        where = self.views.arrays.changed_since(self.seen)
        if where is None:
            return
        self.seen = self.views.arrays.seen
        for part in (self.ports, self.fit, self.fit_score, self.balance):
            if part is not None:
                part.update(where)
        self._sum_up(where)

    def _sum_up(self, where: Where) -> None:
        """The weighted sum of the scorers that need no normalisation, and of those that are the same everywhere."""
        total = self._same[where]
        for weight, scores in self._summed:
            total = total + scores[where] * weight if weight != 1 else total + scores[where]
        self.sums[where] = total

    def pre_filtered(self, state: CycleState, pod: PodInfo, without: frozenset[str]) -> PreFiltered:
        """What the pre-filters say, those of `without` left out; asked once where the answer holds for the shape."""
        if self.pre is None or not self.keeps:
            self.pre = self.framework.pre_filter(state, pod, without)
            self.skipped = state.skip_filter
            self._settle()
        state.skip_filter = self.skipped
        return self.pre

    def _settle(self) -> None:
        """Sort the filters into those with columns and those to be asked node by node, now that the skipped ones are known."""
        self.steady = {name: said for name, said in self.static.items() if name not in self.skipped}
        self.static_passes = np.ones(self.views.arrays.count, dtype=np.bool_)
        for said in self.steady.values():
            self.static_passes &= said.codes == 0
        if self.ports is not None:
            self.steady["NodePorts"] = Refusals(self.ports.codes, self.ports.status)
        if self.fit is not None:
            self.steady["NodeResourcesFit"] = Refusals(self.fit.short, self.fit.status)
        self.one_by_one = [
            plugin
            for plugin in self.framework.filter_plugins
            if plugin.name not in self.adapted and plugin.name not in self.skipped
        ]
        self.sums_do = all(
            scorer.zero_without_filter and scorer.name in self.skipped
            for scorer in self.framework.score_plugins
            if scorer.name not in self.adapted
        )

    def refusals(self) -> Mapping[str, Refusals]:
        """The answers of all adapted filters now, by plugin; those that pass everywhere for this shape are left out."""
        hard = self.hard.codes() if self.hard is not None else None
        codes = self.affinity.codes() if self.affinity is not None else None
        if hard is None and codes is None:
            return self.steady
        found = dict(self.steady)
        if hard is not None:
            found["PodTopologySpread"] = Refusals(hard, _listed(spreading.STATUSES))
        if codes is not None:
            found["InterPodAffinity"] = Refusals(codes, _listed(affinity.STATUSES))
        return found

    def passes(self, refusals: Mapping[str, Refusals]) -> Bools:
        """Where no adapted filter refuses."""
        passes = self.static_passes if self.fit is None else self.static_passes & self.fit.passes
        if refusals is not self.steady or self.ports is not None:
            for name, said in refusals.items():
                if name not in self.static and name != "NodeResourcesFit":
                    passes = passes & (said.codes == 0)
        return passes

    def points(self, name: str, nodes: Ints) -> Ints | None:
        """Normalised scores of an adapted scorer on the feasible nodes; None where it is skipped for this shape."""
        match name:
            case "NodeResourcesFit":
                return None if self.fit_score is None else self.fit_score.scores[nodes]
            case "NodeResourcesBalancedAllocation":
                return None if self.balance is None else self.balance.scores[nodes]
            case "PodTopologySpread":
                return None if self.soft is None else self.soft.scores(nodes)
            case "InterPodAffinity":
                return None if self.affinity is None else self.affinity.scores(nodes)
        raw = self.raw.get(name)
        if raw is None:
            return None
        points = raw[nodes]
        if name == "ImageLocality":
            return points
        return normalized(points, reverse=name == "TaintToleration")


def normalized(points: Ints, *, reverse: bool) -> Ints:
    """`default_normalize` over a column."""
    largest = int(points.max())
    if largest <= 0:
        return np.full(len(points), MAX_NODE_SCORE, dtype=np.int64) if reverse else points
    scaled = MAX_NODE_SCORE * points // largest
    return MAX_NODE_SCORE - scaled if reverse else scaled


def _listed(statuses: Sequence[Status]) -> Callable[[int], Status]:
    return lambda code: statuses[code - 1]


def _reads(plugin: Plugin, pod: PodInfo) -> object:
    """What a static plugin reads of a pod, so that shapes that agree in it share the answer."""
    match plugin:
        case TaintToleration() | NodeUnschedulable():
            return pod.pod.tolerations
        case NodeAffinity():
            return (pod.node_selector, pod.required_nodes, pod.preferred_nodes)
        case NodeName():
            return pod.pod.node
        case ImageLocality():
            return plugin.images_of(pod)
        case NodeDeclaredFeatures():
            return bool(plugin.pre_filter(CycleState(), pod, ()) is None)
    return pod.key
