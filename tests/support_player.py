"""The plugins of the default profile, played one pod at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragstow.cluster.build import build
from ragstow.scheduling.framework import CycleState, Status, Statuses, unschedulable
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.profile import default_profile
from ragstow.scheduling.release import Release
from ragstow.scheduling.runtime import Framework
from ragstow.scheduling.world import World


class Player:
    """Plays pods one after the other with the default profile of a release."""

    def __init__(self, objects: Sequence[Mapping[str, Any]], release: str = "1.37.2") -> None:
        parsed = Release.parse(release)
        self.world = World(build(objects), parsed)
        self.framework = Framework(default_profile(parsed), self.world, parsed)
        self.state = CycleState()

    def info(self, raw: Mapping[str, Any]) -> PodInfo:
        """A pod as the scheduler sees it."""
        return self.world.pod_info(build([raw]).pods[0])

    def queued(self, raw: Mapping[str, Any]) -> Status | None:
        """What keeps the pod out of the queue."""
        return self.framework.pre_enqueue(self.info(raw))

    def before(self, raw: Mapping[str, Any]) -> Status | None:
        """What the pre-filters say."""
        self.state = CycleState()
        return self.framework.pre_filter(self.state, self.info(raw)).status

    def refusals(self, raw: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        """Node -> texts of the refusal; nodes that pass are left out."""
        assert self.before(raw) is None
        said = {one.name: self.framework.filter(self.state, self.info(raw), one) for one in self.world.nodes}
        return {name: status.texts for name, status in said.items() if status is not None}

    def place(self, raw: Mapping[str, Any], on: str) -> Mapping[str, Any]:
        """Puts the pod on a node that passes; what was booked."""
        assert on not in self.refusals(raw)
        one = self.world.node(on)
        assert one is not None
        booked, problem = self.framework.reserve(self.state, self.info(raw), one)
        assert problem is None
        self.world.add(self.info(raw), on)
        return booked

    def scores(self, raw: Mapping[str, Any], plugin: str) -> dict[str, int]:
        """Weighted scores of one plugin on the nodes that pass."""
        refused = self.refusals(raw)
        nodes = [one for one in self.world.nodes if one.name not in refused]
        scored = self.framework.score(self.state, self.info(raw), nodes)
        return dict(zip((one.name for one in nodes), scored.by_plugin[plugin], strict=True))

    def after(self, raw: Mapping[str, Any], plugin: str) -> tuple[str, ...]:
        """What one plugin says after the pod fits nowhere."""
        assert self.before(raw) is None
        said = {one.name: self.framework.filter(self.state, self.info(raw), one) for one in self.world.nodes}
        refused = {name: status for name, status in said.items() if status is not None}
        asked = next(one for one in self.framework.post_filter_plugins if one.name == plugin)
        return asked.post_filter(self.state, self.info(raw), Statuses(refused), unschedulable())[1].texts

    def leave(self, name: str) -> None:
        """A placed pod ends."""
        info, one = self.world.remove(f"default/{name}")
        for plugin in self.framework.plugins:
            plugin.pod_removed(info, one.name)
