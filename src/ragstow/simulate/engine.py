"""One pod after the other through the scheduler: cycles, bookings, preemption and second attempts.

The engine owns the order of events and the working copy of the cluster; every decision is `scheduling`'s. There is no clock:
an evicted pod is gone at once, and a preemptor's second attempt follows its first. Where that differs from a live cluster
(grace periods, backoff, bindings that fail, batching) the answer's assumptions say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ragstow.cluster.objects import Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.scheduling import behaviours
from ragstow.scheduling.cycle import Cycle, Sampling
from ragstow.scheduling.decision import Decision
from ragstow.scheduling.framework import Code, Status
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.profile import Configuration, configuration
from ragstow.scheduling.release import Release
from ragstow.scheduling.runtime import Framework
from ragstow.scheduling.ties import ByName, Seeded, TieBreaker
from ragstow.scheduling.world import World
from ragstow.simulate.nominations import Nominations
from ragstow.simulate.vector.cycle import VectorCycle

Order = Literal["queue", "list"]

GATED = "SchedulingGates"

_SEARCHED_WHOLE = 100
"""Up to so many nodes the search for victims sees every one of them, wherever it starts."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to play. The defaults are those of the command line.

    Args:
        release: decides which rules hold.
        order: "queue" sorts by priority, then creation, then as given; "list" keeps the order given.
        preemption: whether post-filters run.
        sampling: "all" or "adaptive" (then the profile's percentageOfNodesToScore counts).
        ties: "name", or a seed.
        policy: a KubeSchedulerConfiguration document, or None for the default profile.
        detail: keep refusals by node, and scores, of every attempt.
        explain: put refusals into words for pods that fit nowhere.
        one_by_one: ask every plugin about every node, without columns; the same answers, slowly.
    """

    release: Release
    order: Order = "queue"
    preemption: bool = True
    sampling: Sampling = "all"
    ties: Literal["name"] | int = "name"
    policy: Mapping[str, Any] | None = None
    detail: bool = False
    explain: bool = False
    one_by_one: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One pod's turn. `pre_enqueue` is why it did not enter the queue; `message` is the event's text, "" when placed."""

    pod: PodInfo
    number: int
    decision: Decision
    pre_enqueue: Status | None = None
    post_filter: Status | None = None
    nominated_node: str = ""
    nominated_ties: tuple[str, ...] = ()
    victims: tuple[PodInfo, ...] = ()
    booked: Mapping[str, Any] = field(default_factory=dict)

    @property
    def node(self) -> str | None:
        """Where it was placed."""
        return self.decision.node

    @property
    def message(self) -> str:
        """The event's text with what the post-filters added."""
        text = self.decision.message
        added = self.post_filter.message if self.post_filter else ""
        return f"{text} {added}" if text and added else text


class Engine:
    """See the module.

    Args:
        snapshot: the cluster. Its pods with a node run there.
        pods: the arrivals, in order.
        options: how to play.
        known: a world of an earlier snapshot.
    """

    def __init__(self, snapshot: Snapshot, pods: Iterable[Pod], options: Options, known: World | None = None) -> None:
        self.options = options
        self.release = options.release
        self.world = World(snapshot, options.release, known)
        self.configuration: Configuration = configuration(options.policy, options.release)
        self._notes: dict[str, None] = {}
        self.nominations = Nominations()
        ties: TieBreaker = ByName() if options.ties == "name" else Seeded(options.ties)
        self.frameworks: dict[str, Framework] = {}
        self.cycles: dict[str, Cycle] = {}
        for name, profile in self.configuration.profiles.items():
            framework = Framework(profile, self.world, options.release)
            framework.nominated = self.nominations.on
            framework.nominated_nodes = self.nominations.nodes
            self.frameworks[name] = framework
            self.cycles[name] = self.make_cycle(framework, ties)
        self.arrivals = [self.world.pod_info(pod) for pod in pods]
        if options.order == "queue":
            self.arrivals.sort(key=lambda pod: (-pod.priority, pod.pod.created or ""))
        for pod in self.arrivals:
            counts = not pod.gates or behaviours.GATED_NOMINATIONS.at(options.release)
            if pod.nominated_node and counts:
                self.nominations.put(pod, pod.nominated_node)

    def make_cycle(self, framework: Framework, ties: TieBreaker) -> Cycle:
        """The cycle to decide with."""
        kind = Cycle if self.options.one_by_one else VectorCycle
        return kind(framework, self.options.sampling, ties)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the answers rest on, for the reader; what came up while playing is part of it."""
        plugins = (plugin for framework in self.frameworks.values() for plugin in framework.plugins)
        said = dict.fromkeys(text for plugin in plugins for text in plugin.assumptions())
        known = (*behaviours.assumptions(self.release), *self.configuration.assumptions, *self._batching())
        return (*known, *self._notes, *said)

    def _batching(self) -> Iterator[str]:
        """Batching works only where nothing spreads by default; then scores may be some milliseconds old."""
        for profile in self.configuration.profiles.values():
            spread = profile.args.get("PodTopologySpread") or {}
            nothing = spread.get("defaultingType") == "List" and not spread.get("defaultConstraints")
            if nothing and behaviours.BATCHING.at(self.release):
                yield (
                    f"profile {profile.scheduler_name}: kube-scheduler may reuse the scores of the pod before "
                    "(OpportunisticBatching); here every pod is scored anew"
                )

    def run(self) -> Iterator[Attempt]:
        """All attempts in the order decided."""
        for pod in self.arrivals:
            yield from self.schedule(pod)

    def schedule(self, pod: PodInfo) -> Iterator[Attempt]:
        """The attempts of one pod: one, or two where it preempts."""
        cycle = self.cycles.get(pod.pod.scheduler)
        if cycle is None:
            decision = Decision(
                pod, message=f"no profile is called {pod.pod.scheduler}: another scheduler decides about this pod"
            )
            yield Attempt(pod, 1, decision)
            return
        first = self.attempt(pod, cycle, 1)
        yield first
        if first.victims and first.nominated_node:
            yield self.attempt(pod, cycle, 2)

    def attempt(self, pod: PodInfo, cycle: Cycle, number: int) -> Attempt:
        """One cycle and what follows from it."""
        framework = cycle.framework
        held = framework.pre_enqueue(pod)
        if held is not None and held.plugin == GATED:
            return Attempt(pod, number, Decision(pod), held)
        decision = cycle.decide(pod, detail=self.options.detail, explain=self.options.explain)
        if decision.node is not None:
            return Attempt(pod, number, decision, held, booked=self.place(pod, decision, framework))
        if not self.options.preemption or decision.error is not None or decision.absent is None or held is not None:
            return Attempt(pod, number, decision, held)
        result, status = framework.post_filter(decision.state, pod, decision.statuses, decision.absent)
        if result is None:
            return Attempt(pod, number, decision, held, status)
        if not result.node or status.code is not Code.SUCCESS:
            self.nominations.drop(pod.key)
            pod.nominated_node = ""
            return Attempt(pod, number, decision, held, status)
        decision.explained = cycle.explain(decision)  # afterwards the nodes would be told as they are without the victims
        self.evict(pod, result.node, result.victims)
        return Attempt(pod, number, decision, held, status, result.node, result.tied, result.victims)

    def place(self, pod: PodInfo, decision: Decision, framework: Framework) -> Mapping[str, Any]:
        """Book the pod on the node decided."""
        node = self.world.node(decision.node or "")
        assert node is not None
        booked, failed = framework.reserve(decision.state, pod, node)
        if failed is not None:
            decision.node, decision.error, decision.message = None, failed, failed.message
            return booked
        self.nominations.drop(pod.key)
        self.world.add(pod, node.name)
        for plugin in framework.listeners:
            plugin.pod_added(pod, node.name)
        return booked

    def take(self, pod: PodInfo, node: str) -> None:
        """A pod is on a node without a decision of the scheduler's."""
        self.world.add(pod, node)
        for framework in self.frameworks.values():
            for plugin in framework.listeners:
                plugin.pod_added(pod, node)

    def evict(self, pod: PodInfo, node: str, victims: Sequence[PodInfo]) -> None:
        """Remove the victims, nominate the preemptor, and end less important nominations on the node (prepareCandidate)."""
        self._notes["evicted pods are gone at once, and the pod they made room for is tried again before any other"] = None
        if len(self.world.nodes) > _SEARCHED_WHOLE:
            self._notes[
                "the original searches victims from a random node on, here from the first: another node may be chosen"
            ] = None
        for victim in victims:
            self.remove(victim.key)
        for other in self.nominations.on(node):
            if other.priority < pod.priority:
                self.nominations.drop(other.key)
                other.nominated_node = ""
        self.nominations.put(pod, node)
        pod.nominated_node = node

    def remove(self, key: str) -> PodInfo:
        """Take a pod out of the cluster; KeyError if it is on no node."""
        pod, node = self.world.remove(key)
        for framework in self.frameworks.values():
            for plugin in framework.listeners:
                plugin.pod_removed(pod, node.name)
        return pod

    def final(self) -> dict[str, str]:
        """Where each arrival ended, by pod key; those without a node are left out."""
        found = ((pod.key, self.world.located(pod.key)) for pod in self.arrivals)
        return {key: located[1].name for key, located in found if located is not None}
