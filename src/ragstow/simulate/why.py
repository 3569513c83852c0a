"""Why a pod fits nowhere: every filter plugin asked about every node, not just up to the first that refuses.

The scheduler itself stops at a node's first refusal; a person wants to know all that stands in the way. The first entry of a
node is the one that the scheduler's event counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ragstow.cluster.objects import Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.scheduling.fit_error import fit_error
from ragstow.scheduling.framework import Code, CycleState, Status
from ragstow.scheduling.profile import default_profile
from ragstow.scheduling.release import Release
from ragstow.scheduling.runtime import Framework
from ragstow.scheduling.world import World


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One plugin's refusal on one node: the upstream texts, the same in words, and whether evicting pods could cure it."""

    plugin: str
    texts: tuple[str, ...]
    words: tuple[str, ...]
    curable: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """All obstacles by node (a node that takes the pod is absent); or what a pre-filter or pre-enqueue said about the pod."""

    obstacles: Mapping[str, tuple[Obstacle, ...]]
    feasible: tuple[str, ...]
    message: str
    before: str = ""


class Explainer:
    """Asks about many pods of one snapshot; pods of the same shape are asked once by the caller."""

    def __init__(self, snapshot: Snapshot, release: Release) -> None:
        self._framework = Framework(default_profile(release), World(snapshot, release), release)

    def explain(self, pod: Pod) -> Verdict:
        """Every obstacle of a pod that waits for a node."""
        framework = self._framework
        info = framework.world.pod_info(pod)
        gate = framework.pre_enqueue(info)
        if gate is not None:
            return Verdict({}, (), gate.message, gate.message)
        state = CycleState()
        filtered = framework.pre_filter(state, info)
        if filtered.status is not None:
            text = fit_error(len(framework.world.nodes), {}, filtered.status.message)
            return Verdict({}, (), text, filtered.status.message)
        obstacles: dict[str, tuple[Obstacle, ...]] = {}
        feasible: list[str] = []
        first: dict[str, Status] = {}
        for node in framework.world.nodes:
            found: list[Obstacle] = []
            if filtered.names is not None and node.name not in filtered.names:
                found.append(Obstacle(", ".join(filtered.limiting), (), ("a pre-filter leaves this node out",), False))
            for plugin in framework.filter_plugins:
                if plugin.name in state.skip_filter:
                    continue
                status = plugin.filter(state, info, node)
                if status is not None:
                    first.setdefault(node.name, status)
                    words = tuple(str(reason) for reason in plugin.explain(state, info, node, status))
                    found.append(Obstacle(plugin.name, status.texts, words, status.code is Code.UNSCHEDULABLE))
            if found:
                obstacles[node.name] = tuple(found)
            else:
                feasible.append(node.name)
        counts = Counter(text for status in first.values() for text in status.texts)
        return Verdict(obstacles, tuple(feasible), fit_error(len(framework.world.nodes), counts) if not feasible else "")
