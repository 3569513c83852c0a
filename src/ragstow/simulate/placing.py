"""Where a set of pods lands: the one question that the planner asks of the simulation.

It answers with a node for each pod (ties by name) and with the set of nodes that are possible for it over every way the
scheduler may break a tie. It changes nothing and prints nothing; what it had to assume stands in the answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragstow.cluster.objects import Pod
from ragstow.cluster.release import detect
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import Reason
from ragstow.scheduling.behaviours import NEWEST
from ragstow.scheduling.decision import Decision
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.release import Release
from ragstow.simulate.claims import ClaimMaker
from ragstow.simulate.defaulting import is_new, with_defaults
from ragstow.simulate.engine import GATED, Engine, Options
from ragstow.simulate.symmetry import classes
from ragstow.simulate.workload import made


@dataclass(frozen=True, slots=True)
class Placed:
    """One pod. `node` is None where it fits nowhere (then `message` is the event's text and `reasons` say why in words);
    `nodes` is the possible set in name order: every node that some order of breaking ties gives it."""

    pod: str
    node: str | None
    nodes: tuple[str, ...]
    message: str = ""
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class Placing:
    """All pods in the order given. `complete` says that the possible sets are whole: every tie was followed within the
    budget; else they are what was seen, and a pod may also land elsewhere. `may_fail` names pods that some way of breaking
    ties leaves without a node although the answer by name places them."""

    pods: tuple[Placed, ...]
    complete: bool
    may_fail: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()


def place(
    snapshot: Snapshot,
    pods: Sequence[Pod],
    *,
    release: str | None = None,
    policy: Mapping[str, Any] | None = None,
    budget: int = 2000,
) -> Placing:
    """Place `pods`, in the order given, into the cluster of `snapshot`, without preemption.

    Args:
        snapshot: the cluster; pods with a node in it hold what they ask for, other pods of it are left aside.
        pods: the arrivals, not part of the snapshot; API-server defaults are filled in here, claims from templates made.
        release: Kubernetes release to decide as ("1.34" or "1.34.1"); default: the snapshot's.
        policy: a KubeSchedulerConfiguration document; default: the release's default profile.
        budget: how many scheduling cycles are spent at most on the possible sets; 0 asks for the answer by name only.

    Raises:
        InputError: `release` is no release; the policy cannot be followed (InputErrors).
    """
    decided_as = Release.parse(detect(snapshot, newest_recorded=str(NEWEST), asked=release).version)
    claims = ClaimMaker(snapshot)
    arriving = [_prepared(pod, claims, decided_as) for pod in pods]
    options = Options(decided_as, order="list", preemption=False, policy=policy, explain=True)
    engine = Engine(claims.snapshot, arriving, options)
    search = _Search(engine, budget)
    by_name = search.by_name()
    search.follow_ties(by_name)
    placed = []
    for number, decision in enumerate(by_name):
        seen = search.nodes[number]
        placed.append(
            Placed(decision.pod.key, decision.node, tuple(sorted(seen)), _message(decision), _first_reasons(decision))
        )
    may_fail = tuple(
        decision.pod.key for number, decision in enumerate(by_name) if decision.node is not None and number in search.failing
    )
    return Placing(tuple(placed), search.complete, may_fail, (*engine.assumptions, *claims.assumptions))


def _prepared(pod: Pod, claims: ClaimMaker, release: Release) -> Pod:
    if not is_new(pod.raw):
        return pod
    numbers = (release.major, release.minor)
    ready = made(claims.for_pod(with_defaults(pod.raw, numbers)))
    assert isinstance(ready, Pod)
    return ready


def _message(decision: Decision) -> str:
    return "" if decision.node is not None else decision.message


def _first_reasons(decision: Decision) -> tuple[Reason, ...]:
    return tuple(reasons[0] for reasons in decision.explained.values() if reasons)


@dataclass(slots=True)
class _Search:
    """Follows every way of breaking ties, depth first, with a pod placed and taken back at every step.

    Two ways that put the same kinds of pods on nodes of the same looks go on alike, so only the first of them is followed; what
    is possible for a node is then possible for every node that looked like it at the start.
    """

    engine: Engine
    budget: int
    complete: bool = True
    spent: int = 0
    nodes: dict[int, set[str]] = field(default_factory=dict)
    failing: set[int] = field(default_factory=set)
    _seen: set[tuple[int, tuple[tuple[int, tuple[int, ...]], ...]]] = field(default_factory=set)
    _shapes: list[int] = field(default_factory=list)
    _classes: dict[str, int] = field(default_factory=dict)
    _on: dict[str, list[int]] = field(default_factory=dict)

    def by_name(self) -> list[Decision]:
        """The answer with ties by name; the pods are taken back afterwards."""
        made: list[Decision] = []
        shapes: dict[str, int] = {}
        for number, pod in enumerate(self.engine.arrivals):
            shape = _shape(pod)
            self._shapes.append(shapes.setdefault(shape, len(shapes)))
            decision = self._decide(pod)
            self.nodes[number] = set()
            if decision.node is not None:
                self.nodes[number].add(decision.node)
                self.engine.place(pod, decision, self._framework(pod))
            made.append(decision)
        for decision in reversed(made):
            if decision.node is not None:
                self.engine.remove(decision.pod.key)
        return made

    def follow_ties(self, by_name: Sequence[Decision]) -> None:
        """Fill `nodes` and `failing` over all ways, as far as the budget goes."""
        if all(len(decision.ties) <= 1 for decision in by_name):
            return
        if self.budget <= 0:
            self.complete = False
            return
        self._classes = classes(self.engine.world, self.engine.arrivals)
        self._from(0)
        members: dict[int, set[str]] = {}
        for node, number in self._classes.items():
            members.setdefault(number, set()).add(node)
        for number, nodes in self.nodes.items():
            self.nodes[number] = {name for node in nodes for name in members[self._classes[node]]}

    def _from(self, number: int) -> None:
        if number == len(self.engine.arrivals):
            return
        state = (
            number,
            tuple(sorted((self._classes[node], tuple(sorted(shapes))) for node, shapes in self._on.items() if shapes)),
        )
        if state in self._seen:
            return
        self._seen.add(state)
        if self.spent >= self.budget:
            self.complete = False
            return
        self.spent += 1
        pod = self.engine.arrivals[number]
        decision = self._decide(pod)
        if decision.node is None:
            self.failing.add(number)
            self._from(number + 1)
            return
        followed: set[tuple[int, tuple[int, ...]]] = set()
        for node in decision.ties:
            self.nodes[number].add(node)
            looks = (self._classes[node], tuple(sorted(self._on.get(node, ()))))
            if looks in followed:
                continue
            followed.add(looks)
            decision.node = node
            self.engine.place(pod, decision, self._framework(pod))
            self._on.setdefault(node, []).append(self._shapes[number])
            self._from(number + 1)
            self._on[node].pop()
            self.engine.remove(pod.key)

    def _decide(self, pod: PodInfo) -> Decision:
        cycle = self.engine.cycles.get(pod.pod.scheduler)
        if cycle is None:
            return Decision(pod, message=f"no profile is called {pod.pod.scheduler}: another scheduler decides about this pod")
        held = cycle.framework.pre_enqueue(pod)
        if held is not None and held.plugin == GATED:
            return Decision(pod, message=held.message)
        return cycle.decide(pod, detail=False, explain=self.spent == 0)

    def _framework(self, pod: PodInfo) -> Any:
        return self.engine.frameworks[pod.pod.scheduler]


def _shape(pod: PodInfo) -> str:
    """Pods of equal shape are interchangeable; one with volumes or claims of its own is like no other."""
    spec = pod.pod.spec
    if spec.get("resourceClaims") or any(
        volume.get("persistentVolumeClaim") or volume.get("ephemeral") for volume in spec.get("volumes") or ()
    ):
        return pod.key
    owner = pod.pod.controller
    return json.dumps([pod.namespace, dict(pod.labels), spec, owner.name if owner else ""], sort_keys=True, default=str)
