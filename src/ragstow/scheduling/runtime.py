"""One profile's plugins, made and called in order: the extension points as kube-scheduler runs them.

Source: pkg/scheduler/framework/runtime/framework.go. It runs plugins and merges what they say; which nodes are looked at, and
what is done with the answer, is `cycle`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragstow.scheduling.framework import (
    MAX_NODE_SCORE,
    Code,
    CycleState,
    FilterPlugin,
    Handle,
    NodeNames,
    Plugin,
    PostFilterPlugin,
    PostFilterResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
    Status,
    Statuses,
    failure,
    unresolvable,
)
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.profile import Profile
from ragstow.scheduling.registry import make
from ragstow.scheduling.release import Release
from ragstow.scheduling.world import World


@dataclass(frozen=True, slots=True)
class PreFiltered:
    """What all pre-filters said: the node names left (None: all), the plugins that named some, or a refusal.

    `unasked` are the plugins after the one that ended it.
    """

    names: frozenset[str] | None
    limiting: tuple[str, ...]
    status: Status | None = None
    unasked: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Scored:
    """Weighted scores by plugin, each a list in the order of the nodes; or the error that ended scoring."""

    by_plugin: Mapping[str, Sequence[int]]
    error: Status | None = None


class Framework:
    """See the module. One per profile and world; its plugins may keep state between cycles."""

    def __init__(self, profile: Profile, world: World, release: Release) -> None:
        self.profile = profile
        self.world = world
        self.release = release
        self.handle = Handle(world, release, self)
        self.nominated: Callable[[str], Sequence[PodInfo]] = lambda _node: ()
        self.nominated_nodes: Callable[[], Sequence[str]] = tuple
        self._made: dict[str, Plugin] = {}
        at = self._plugins_at
        self.pre_enqueue_plugins = [plugin for plugin in at("preEnqueue") if isinstance(plugin, PreEnqueuePlugin)]
        self.pre_filter_plugins = [plugin for plugin in at("preFilter") if isinstance(plugin, PreFilterPlugin)]
        self.filter_plugins = [plugin for plugin in at("filter") if isinstance(plugin, FilterPlugin)]
        self.post_filter_plugins = [plugin for plugin in at("postFilter") if isinstance(plugin, PostFilterPlugin)]
        self.pre_score_plugins = [plugin for plugin in at("preScore") if isinstance(plugin, PreScorePlugin)]
        scorers = [plugin for plugin in at("score") if isinstance(plugin, ScorePlugin)]
        self.score_plugins = [plugin for plugin in scorers if self.weight(plugin.name) > 0]
        self.reserve_plugins = [plugin for plugin in at("reserve") if isinstance(plugin, ReservePlugin)]
        self.listeners = [plugin for plugin in self._made.values() if _listens(plugin)]

    def _plugins_at(self, point: str) -> list[Plugin]:
        """The profile's plugins of a point in order; each is made once for all its points."""
        found: list[Plugin] = []
        for name in self.profile.enabled.get(point, ()):
            if name not in self._made:
                plugin = make(name, self.handle, self.profile.args.get(name) or {})
                if plugin is not None:
                    self._made[name] = plugin
            if name in self._made:
                found.append(self._made[name])
        return found

    def weight(self, name: str) -> int:
        """The weight of a scorer in this profile (1 where none is given)."""
        return self.profile.weights.get(name, 1)

    @property
    def plugins(self) -> Sequence[Plugin]:
        """All plugins that were made."""
        return tuple(self._made.values())

    # --- before the nodes ---

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """The first plugin that keeps the pod out of the queue, or None."""
        for plugin in self.pre_enqueue_plugins:
            status = plugin.pre_enqueue(pod)
            if status is not None:
                return status.by(plugin.name)
        return None

    def pre_filter(self, state: CycleState, pod: PodInfo, without: frozenset[str] = frozenset()) -> PreFiltered:
        """Run all pre-filters (but `without`); an Unschedulable one lets the rest run, any other refusal ends them."""
        names: frozenset[str] | None = None
        limiting: list[str] = []
        skipped: list[str] = []
        refused: Status | None = None
        for index, plugin in enumerate(self.pre_filter_plugins):
            if plugin.name in without:
                continue
            said = plugin.pre_filter(state, pod, self.world.nodes)
            if said is None:
                continue
            if isinstance(said, NodeNames):
                limiting.append(plugin.name)
                names = said.names if names is None else names & said.names
                if not names:
                    listed = sorted(limiting)
                    text = (
                        f"node(s) didn't satisfy plugin {listed[0]}"
                        if len(listed) == 1
                        else f"node(s) didn't satisfy plugin(s) [{' '.join(listed)}] simultaneously"
                    )
                    return PreFiltered(names, tuple(listed), unresolvable(text), self._after(index))
            elif said.code is Code.SKIP:
                skipped.append(plugin.name)
            elif said.code is Code.UNRESOLVABLE:
                return PreFiltered(None, (), said.by(plugin.name), self._after(index))
            elif said.code is Code.UNSCHEDULABLE:
                refused = said.by(plugin.name)
            else:
                text = f'running PreFilter plugin "{plugin.name}": {said.message}'
                return PreFiltered(None, (), failure(text).by(plugin.name))
        state.skip_filter = frozenset(skipped)
        return PreFiltered(names, tuple(limiting), refused)

    def _after(self, index: int) -> frozenset[str]:
        return frozenset(plugin.name for plugin in self.pre_filter_plugins[index + 1 :])

    # --- one node ---

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """The first refusal or error, None where all filters pass."""
        skip = state.skip_filter
        for plugin in self.filter_plugins:
            if plugin.name in skip:
                continue
            status = plugin.filter(state, pod, node)
            if status is not None:
                if not status.rejected:
                    status = failure(f'running "{plugin.name}" filter plugin: {status.message}')
                return status.by(plugin.name)
        return None

    def filter_with_nominated(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """The filters with the pods nominated to the node added (equal or higher priority), then without them."""
        added = [other for other in self.nominated(node.name) if other.priority >= pod.priority and other.key != pod.key]
        if added:
            with_state, with_node = state.clone(), node.clone()
            for other in added:
                with_node.add(other)
                self.add_pod(with_state, pod, other, with_node)
            status = self.filter(with_state, pod, with_node)
            if status is not None:
                return status
        return self.filter(state, pod, node)

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """PreFilterExtensions of all plugins that were not skipped."""
        for plugin in self.pre_filter_plugins:
            if plugin.name not in state.skip_filter:
                plugin.add_pod(state, pod, added, node)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """PreFilterExtensions of all plugins that were not skipped."""
        for plugin in self.pre_filter_plugins:
            if plugin.name not in state.skip_filter:
                plugin.remove_pod(state, pod, removed, node)

    # --- after the filters ---

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Statuses, absent: Status
    ) -> tuple[PostFilterResult | None, Status]:
        """Run the post-filters until one succeeds."""
        result: PostFilterResult | None = None
        texts: list[str] = []
        rejector = ""
        for plugin in self.post_filter_plugins:
            made, status = plugin.post_filter(state, pod, statuses, absent)
            if status.code is Code.SUCCESS:
                return made, status
            if status.code is not Code.UNSCHEDULABLE:
                return made if status.rejected else None, status.by(plugin.name)
            result = made or result
            texts.extend(status.texts)
            rejector = rejector or plugin.name
        return result, Status(Code.UNSCHEDULABLE, tuple(texts), rejector)

    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], only: frozenset[str] | None = None) -> Scored:
        """PreScore, Score and NormalizeScore of all scorers (or `only` these), weighted."""
        skipped: list[str] = []
        for plugin in self.pre_score_plugins:
            if only is not None and plugin.name not in only:
                continue
            status = plugin.pre_score(state, pod, nodes)
            if status is None:
                continue
            if status.code is not Code.SKIP:
                return Scored({}, failure(f'running PreScore plugin "{plugin.name}": {status.message}').by(plugin.name))
            skipped.append(plugin.name)
        state.skip_score = frozenset(skipped)
        by_plugin: dict[str, Sequence[int]] = {}
        for scorer in self.score_plugins:
            if scorer.name in state.skip_score or (only is not None and scorer.name not in only):
                continue
            raw: list[int] = []
            for node in nodes:
                value = scorer.score(state, pod, node)
                if isinstance(value, Status):
                    text = f'running Score plugins: plugin "{scorer.name}" failed with: {value.message}'
                    return Scored({}, failure(text).by(scorer.name))
                raw.append(value)
            wrong = scorer.normalize(state, pod, nodes, raw)
            if wrong is not None:
                text = f'running Normalize on Score plugins: plugin "{scorer.name}" failed with: {wrong.message}'
                return Scored({}, failure(text).by(scorer.name))
            weight = self.weight(scorer.name)
            for value in raw:
                if not 0 <= value <= MAX_NODE_SCORE:
                    text = (
                        f'plugin "{scorer.name}" returns an invalid score {value}, '
                        f"it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
                    )
                    return Scored({}, failure(f"applying score defaultWeights on Score plugins: {text}").by(scorer.name))
            by_plugin[scorer.name] = [value * weight for value in raw]
        return Scored(by_plugin)

    def reserve(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[Mapping[str, Any], Status | None]:
        """Book volumes and devices; (what was booked, the first failure)."""
        booked: dict[str, Any] = {}
        for plugin in self.reserve_plugins:
            status = plugin.reserve(state, pod, node)
            if status is not None:
                return booked, status.by(plugin.name)
        for plugin in self.reserve_plugins:
            booked.update(plugin.outcome(state, pod, node))
        return booked, None


def _listens(plugin: Plugin) -> bool:
    """Whether a plugin keeps books on pods that come and go."""
    kind = type(plugin)
    return kind.pod_added is not Plugin.pod_added or kind.pod_removed is not Plugin.pod_removed
