"""Who loses a GPU while nodes are configured anew, one after the other: where pods go, who waits, which budgets hold them.

Each node is cordoned, its GPU pods are evicted within their budgets, it comes back as its layout says, and what could not be
placed meanwhile is tried again. Played with the scheduler's own rules; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ragstow.cluster.build import RawObject, make
from ragstow.cluster.objects import Node, Pod
from ragstow.cluster.owners import Owners
from ragstow.cluster.snapshot import Snapshot
from ragstow.plan.layouts import with_changes
from ragstow.plan.model import NodeLayout
from ragstow.plan.situation import SERVICE_LABEL
from ragstow.scheduling.release import Release
from ragstow.simulate.arrivals import Arrival
from ragstow.simulate.budgets import Ready, budgets_of
from ragstow.simulate.disruption import Prepared, play_disruption, prepare
from ragstow.simulate.engine import Options
from ragstow.simulate.freeze import freeze
from ragstow.simulate.model import Moved
from ragstow.simulate.play import Play

Outcome = Literal["moves", "returns", "waits", "lost", "blocked", "stays"]
Verdict = Literal["allows", "delays", "blocks"]


@dataclass(frozen=True, slots=True)
class Evicted:
    """A pod that loses its GPU.

    `outcome`: "moves" (to another node at once), "returns" (finds a place, `to`, when the node is back), "waits" (its
    controller's new pod stays Pending, `message` is the scheduler's), "lost" (nobody makes it again), "blocked" (a budget never
    lets it go), "stays" (a DaemonSet's or static pod: it comes back to the same node at once).
    """

    pod: str
    node: str
    workload: str
    own: bool
    """Whether it belongs to the service itself; its new version then comes where the plan says."""
    outcome: Outcome
    to: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class BudgetEffect:
    """What a PodDisruptionBudget does to the evictions of one node: `allowed` pods may go at once."""

    budget: str
    node: str
    pods: tuple[str, ...]
    allowed: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Evictions:
    """All of them, in the order in which nodes are configured. `preempted` are pods that new pods of evicted ones push out."""

    pods: tuple[Evicted, ...] = ()
    budgets: tuple[BudgetEffect, ...] = ()
    preempted: tuple[str, ...] = ()
    stopped_at: str | None = None
    """The node at which pods that cannot leave end it; the nodes after it are not reached."""


_OUTCOMES: Mapping[str, Outcome] = {
    "moved": "moves",
    "pending": "waits",
    "blocked": "blocked",
    "lost": "lost",
    "stays": "stays",
}


def evictions(
    snapshot: Snapshot,
    layouts: Sequence[NodeLayout],
    holders: Mapping[str, Sequence[str]],
    *,
    service: str,
    namespace: str,
    release: str,
) -> Evictions:
    """Play the configuration of nodes.

    Args:
        snapshot: the cluster as it is.
        layouts: the nodes that are emptied, in order, and what each becomes.
        holders: node -> pods ("namespace/name") that hold a GPU there.
        service: name of the service, whose own pods are told apart.
        namespace: its namespace.
        release: Kubernetes release to decide as.
    """
    return _Played(snapshot, service, namespace, Options(Release.parse(release))).run(layouts, holders)


class _Played:
    """The cluster over the nodes' configuration; `now` is how it stands."""

    def __init__(self, snapshot: Snapshot, service: str, namespace: str, options: Options) -> None:
        self.now = snapshot
        self.service, self.namespace, self.options = service, namespace, options
        self.owners = Owners(snapshot)
        self.first: dict[str, Pod] = {}
        """New pod -> the pod of the start that it came from: a pod may have to move more than once."""
        self.waiting: dict[str, Arrival] = {}
        """Pod of the start -> its new pod that found no place so far."""
        self.found: dict[str, Evicted] = {}
        self.effects: list[BudgetEffect] = []
        self.preempted: dict[str, None] = {}

    def run(self, layouts: Sequence[NodeLayout], holders: Mapping[str, Sequence[str]]) -> Evictions:
        # The service's own pods go whatever its own budgets say (live.apply), so those hold nothing up.
        self.now = self.now.replace(
            remove=[
                item
                for item in self.now.of("PodDisruptionBudget", "policy")
                if item.namespace == self.namespace and item.labels.get(SERVICE_LABEL) == self.service
            ]
        )
        for layout in layouts:
            node = self.now.get("Node", layout.node)
            if not isinstance(node, Node):
                continue
            held = {*holders.get(layout.node, ()), *self.first}
            here = {pod.key for pod in self.now.pods if pod.node == layout.node and not pod.finished and pod.key in held}
            if here and not self._empty(node.name, here):
                return self._answer(layout.node)
            self._back(node, layout)
        return self._answer(None)

    def _answer(self, stopped_at: str | None) -> Evictions:
        return Evictions(tuple(self.found.values()), tuple(self.effects), tuple(self.preempted), stopped_at)

    def _empty(self, node: str, here: set[str]) -> bool:
        """Evict pods of a node; False where a budget, or a DaemonSet that brings them back, keeps some of them there."""
        prepared = prepare(self.now, "drain", node, only=here)
        play = Play(prepared.snapshot, self.options)
        outcomes = {moved.pod: moved for moved in play_disruption(play, prepared).moved}
        self.effects += _effects(self.now, node, prepared, outcomes)
        arrived: list[Pod] = []
        for pod, arrival in (*prepared.leaving, *((pod, None) for pod in prepared.staying)):
            moved, start = outcomes[pod.key], self.first.get(pod.key, pod)
            if arrival is not None and moved.outcome in ("moved", "pending"):
                arrived.append(arrival.pod)
                self.first[arrival.pod.key] = start
                if moved.outcome == "pending":
                    self.waiting[start.key] = arrival
            self.found[start.key] = self._evicted(start, moved)
        self.now = freeze(play, prepared.snapshot, arrived)
        self._pushed(play)
        return not any(moved.outcome in ("blocked", "stays") for moved in outcomes.values())

    def _back(self, node: Node, layout: NodeLayout) -> None:
        """The node comes back with its layout, and pods that wait try again."""
        self.now = self.now.replace(put=[make(RawObject(with_changes(node, layout)))])
        if not self.waiting:
            return
        play = Play(self.now, self.options)
        for key, arrival in self.waiting.items():
            at = play.arrive(arrival.pod, arrival)
            before = self.found[key]
            self.found[key] = (
                replace(before, outcome="returns", to=at, message="")
                if at is not None
                else replace(before, message=play.entries[-1].message)
            )
        self.now = freeze(play, self.now, [arrival.pod for arrival in self.waiting.values()])
        self.waiting = {key: item for key, item in self.waiting.items() if play.node_of(item.pod.key) is None}
        self._pushed(play)

    def _pushed(self, play: Play) -> None:
        self.preempted.update((victim.key, None) for victim, _ in play.victims)

    def _evicted(self, pod: Pod, moved: Moved) -> Evicted:
        own = pod.namespace == self.namespace and pod.labels.get(SERVICE_LABEL) == self.service
        workload = self.owners.workload(pod).ref if pod.controller is not None else ""
        return Evicted(pod.key, pod.node or "", workload, own, _OUTCOMES[moved.outcome], moved.node, moved.message)


def _effects(snapshot: Snapshot, node: str, prepared: Prepared, outcomes: Mapping[str, Moved]) -> Iterable[BudgetEffect]:
    """What each budget that speaks of a leaving pod does: it lets all go at once, one after another, or never."""
    ready = Ready(pod for pod in snapshot.pods if pod.node is not None and not pod.finished)
    for budget in budgets_of(snapshot):
        covered = [pod for pod, _ in prepared.leaving if budget.covers(pod)]
        if not covered:
            continue
        allowed = budget.allowed(ready)
        verdict: Verdict = "delays" if sum(ready.has(pod) for pod in covered) > allowed else "allows"
        if any(outcomes[pod.key].outcome == "blocked" for pod in covered):
            verdict = "blocks"
        keys = tuple(pod.key for pod in covered)
        yield BudgetEffect(f"{budget.namespace}/{budget.name}", node, keys, allowed, verdict)
