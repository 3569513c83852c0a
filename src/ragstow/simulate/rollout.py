"""Rolling updates played step by step against what is free: does it go through, and how few pods are ready on the way?

The controllers' rules: deployment (rolling.go: NewRSNewReplicas, reconcileOldReplicaSets), statefulset (highest ordinal first,
one at a time), daemon (update.go). There is no clock: a pod that is placed is ready at once, a pod that is deleted is gone at
once; so a rollout that stands still here stands still in a cluster, while one that goes through may be slow.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ragstow.cluster.objects import Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import Reason
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.release import Release
from ragstow.simulate.admission import Admission, forbidden
from ragstow.simulate.arrivals import Arrival
from ragstow.simulate.claims import ClaimMaker
from ragstow.simulate.controllers import by_scale_down, daemon_runs_on
from ragstow.simulate.model import Rollout, RolloutStep
from ragstow.simulate.play import Play
from ragstow.simulate.quota import Quotas
from ragstow.simulate.workload import Workload, controlling_set, made, pod_from_template, volume_claims

_REMEDY = (0, 1)
_RESTARTED = "kubectl.kubernetes.io/restartedAt"


@dataclass(frozen=True, slots=True)
class Plan:
    """A rollout to play: the workload with its new template, its old pods in the order they are deleted, the new pods in order
    of creation, and the cluster with every object the new pods need."""

    snapshot: Snapshot
    workload: Workload
    old: tuple[Pod, ...]
    new: tuple[Arrival, ...]
    assumptions: tuple[str, ...] = ()
    quotas: Quotas | None = None
    """What the old pods and all others use of the quotas; None: as the snapshot says."""


def restarted(workload: Workload) -> Workload:
    """The workload after `kubectl rollout restart`: the same template with one more annotation."""
    template = dict(workload.template)
    meta: Mapping[str, Any] = template.get("metadata") or {}
    template["metadata"] = {**meta, "annotations": {**(meta.get("annotations") or {}), _RESTARTED: "simulated"}}
    return Workload(made({**workload.object.raw, "spec": {**workload.spec, "template": template}}))


def prepare(
    snapshot: Snapshot,
    workload: Workload,
    old: Sequence[Pod],
    release: Release,
    *,
    extended_toleration: bool = False,
    quotas: Quotas | None = None,
) -> Plan:
    """Make the new pods of a rollout, as the API server admits them beside the old ones.

    Args:
        snapshot: the cluster with the old pods where they are.
        workload: with its new template.
        old: its pods now.
        release: the release to decide as.
        extended_toleration: whether the API server adds tolerations for extended resources.
        quotas: what is used of the quotas; None: as the snapshot says.
    """
    claims = ClaimMaker(snapshot)
    owned = controlling_set(workload)
    if owned is not None:
        claims.put(owned)
    numbers = tuple(number for number in (release.major, release.minor, release.patch) if number is not None)
    admission = Admission(claims.snapshot, numbers, extended_toleration=extended_toleration)
    taken = {pod.key for pod in snapshot.pods}
    new: list[Arrival] = []
    for raw in _new_pods(claims, workload, release, taken):
        admitted = admission.admit(raw, quota=False)
        if admitted.refusal is not None:
            new.append(Arrival(admitted.pod, workload, admitted.refusal))
            continue
        pod = made(claims.for_pod(dict(admitted.pod.raw)))
        assert isinstance(pod, Pod)
        new.append(Arrival(pod, workload))
    return Plan(claims.snapshot, workload, tuple(by_scale_down(old)), tuple(new), tuple(claims.assumptions), quotas)


def _new_pods(claims: ClaimMaker, workload: Workload, release: Release, taken: set[str]) -> Sequence[dict[str, Any]]:
    if workload.kind == "DaemonSet":
        nodes = [node for node in claims.snapshot.nodes if daemon_runs_on(workload, NodeInfo(node), release)]
        return [
            pod_from_template(workload, 0, node.name, name=f"{workload.name}-{node.name}-{workload.revision[:5]}")
            for node in nodes
        ]
    if workload.kind == "StatefulSet":
        made_pods = []
        for number in range(workload.first_ordinal, workload.first_ordinal + workload.replicas):
            for claim in volume_claims(workload, number):
                if claims.snapshot.get("PersistentVolumeClaim", claim["metadata"]["name"], workload.namespace) is None:
                    claims.put(made(claim))
            made_pods.append(pod_from_template(workload, number))
        return made_pods
    found: list[dict[str, Any]] = []
    number = 0
    while len(found) < workload.replicas:
        name = f"{workload.name}-{workload.revision[:5]}-{number}"
        if f"{workload.namespace}/{name}" not in taken:
            found.append(pod_from_template(workload, number, name=name))
        number += 1
    return found


@dataclass(slots=True)
class _State:
    play: Play
    plan: Plan
    old: list[str]
    quotas: Quotas
    new: list[Arrival] = field(default_factory=list)
    refused: dict[str, Reason] = field(default_factory=dict)
    """New pods that are not created now, and why."""
    created: set[str] = field(default_factory=set)
    steps: list[RolloutStep] = field(default_factory=list)
    least: int | None = None

    def ready(self) -> int:
        keys = dict.fromkeys([*self.old, *(item.pod.key for item in self.new)])
        return sum(1 for key in keys if self.play.node_of(key) is not None)

    def create(self, arrival: Arrival) -> bool:
        self.new.append(arrival)
        return self.try_place(arrival, first=True)

    def try_place(self, arrival: Arrival, *, first: bool = False) -> bool:
        key = arrival.pod.key
        refusal = arrival.refusal
        if refusal is None and key not in self.created:
            over = self.quotas.refusal(arrival.pod)
            refusal = forbidden(arrival.pod, over) if over is not None else None
        if refusal is not None:
            self.refused[key] = refusal
            if first:
                self._note("create", key, None, refusal.text)
            return False
        if key not in self.created:
            self.created.add(key)
            self.quotas.created(arrival.pod)
            self.refused.pop(key, None)
        node = self.play.arrive(arrival.pod, arrival)
        if first or node is not None:
            self._note("create", key, node, "" if node is not None else self.play.entries[-1].message)
        return node is not None

    def delete(self, key: str) -> None:
        node = self.play.remove(key)
        if key in self.old:
            self.old.remove(key)
            self.quotas.removed(next(pod for pod in self.plan.old if pod.key == key))
        self._note("delete", key, node, "")

    def _note(self, action: Literal["create", "delete"], pod: str, node: str | None, message: str) -> None:
        ready = self.ready()
        self.least = ready if self.least is None else min(self.least, ready)
        self.steps.append(RolloutStep(action, pod, node, ready, message))

    def retry(self) -> None:
        for item in self.pending():
            self.try_place(item)

    def pending(self) -> list[Arrival]:
        return [item for item in self.new if self.play.node_of(item.pod.key) is None]


@dataclass(frozen=True, slots=True)
class Played:
    """A rollout, and the play and quotas that it left behind (None where it stands still: then nothing was changed)."""

    rollout: Rollout
    play: Play | None
    quotas: Quotas | None = None


def play_rollout(plan: Plan, start: Callable[[Snapshot], Play]) -> Played:
    """Play one rollout; where it stands still, other strategies are tried in its place.

    Args:
        plan: what to roll.
        start: makes a play of a snapshot, with the options of this simulation.
    """
    workload = plan.workload
    if workload.kind == "Deployment" and workload.strategy != "Recreate":
        surge, unavailable = workload.surge()
        made_it = _run(plan, start, _rolling(surge, unavailable), "RollingUpdate", surge, unavailable)
        if made_it.play is not None:
            return made_it
        return Played(replace(made_it.rollout, remedy=_tried(plan, start)), None)
    if workload.kind == "StatefulSet":
        return _run(plan, start, _ordinals, workload.strategy, 0, 1)
    if workload.kind == "DaemonSet":
        surge = 1 if workload.rolling.get("maxSurge") not in (None, 0, "0", "0%") else 0
        return _run(plan, start, _daemons(surge), workload.strategy, surge, 0 if surge else 1)
    strategy = "Recreate" if workload.kind == "Deployment" else "none"
    return _run(plan, start, _recreate, strategy, 0, workload.replicas)


def _tried(plan: Plan, start: Callable[[Snapshot], Play]) -> str:
    """A strategy that goes through where the one asked for does not; "" where none was found."""
    surge, unavailable = _REMEDY
    if _run(plan, start, _rolling(surge, unavailable), "RollingUpdate", surge, unavailable).play is not None:
        cost = (
            "one replica is missing while it runs" if plan.workload.replicas > unavailable else "nothing serves while it runs"
        )
        return f"strategy.rollingUpdate maxSurge: {surge}, maxUnavailable: {unavailable} goes through ({cost})"
    if _run(plan, start, _recreate, "Recreate", 0, plan.workload.replicas).play is not None:
        return "strategy Recreate goes through (nothing serves while it runs)"
    return ""


def _run(
    plan: Plan,
    start: Callable[[Snapshot], Play],
    how: Callable[[_State], str],
    strategy: str,
    surge: int,
    unavailable: int,
) -> Played:
    play = start(plan.snapshot)
    quotas = copy.deepcopy(plan.quotas) if plan.quotas is not None else Quotas(plan.snapshot)
    state = _State(play, plan, [pod.key for pod in plan.old], quotas)
    before = state.ready()
    deadlock = how(state)
    rollout = Rollout(
        workload=plan.workload.ref,
        strategy=strategy,
        surge=surge,
        unavailable=unavailable,
        replicas=len(plan.new),
        done=not deadlock,
        least_ready=before if state.least is None else min(before, state.least),
        steps=tuple(state.steps),
        deadlock=deadlock,
    )
    return Played(rollout, play, quotas) if not deadlock else Played(rollout, None)


def _rolling(surge: int, unavailable: int) -> Callable[[_State], str]:
    def how(state: _State) -> str:
        wanted = len(state.plan.new)
        least = wanted - unavailable
        while state.old or len(state.new) < wanted or state.pending():
            moved = False
            room = min(wanted + surge - len(state.old) - len(state.new), wanted - len(state.new))
            for item in state.plan.new[len(state.new) : len(state.new) + max(room, 0)]:
                state.create(item)
                moved = True
            may_go = len(state.old) + len(state.new) - least - len(state.pending())
            for key in [key for key in state.old if state.play.node_of(key) is None][: max(may_go, 0)]:
                state.delete(key)
                moved = True
                may_go -= 1
            may_go = min(may_go, state.ready() - least)
            for key in list(state.old)[: max(may_go, 0)]:
                state.delete(key)
                moved = True
            if moved:
                state.retry()
                continue
            return _stands_still(state, f"maxSurge {surge}, maxUnavailable {unavailable} let no old pod go first")
        return ""

    return how


def _recreate(state: _State) -> str:
    for key in list(state.old):
        state.delete(key)
    for item in state.plan.new:
        state.create(item)
    return _stands_still(state, "all old pods are gone already") if state.pending() else ""


def _ordinals(state: _State) -> str:
    """A StatefulSet: from the highest ordinal down, each pod deleted and made again before the next."""
    if state.plan.workload.strategy == "OnDelete":
        return ""
    partition = state.plan.workload.rolling.get("partition") or 0
    by_key = {item.pod.key: item for item in state.plan.new}
    for key in sorted(by_key, key=_ordinal, reverse=True):
        if _ordinal(key) < partition:
            break
        if key in state.old:
            state.delete(key)
        if not state.create(by_key[key]):
            return _stands_still(state, "a StatefulSet goes on only when this pod is ready")
    return ""


def _ordinal(key: str) -> int:
    number = key.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def _daemons(surge: int) -> Callable[[_State], str]:
    def how(state: _State) -> str:
        if state.plan.workload.strategy == "OnDelete":
            return ""
        old = {state.play.node_of(key): key for key in state.old}
        for item in state.plan.new:
            before = old.get(_pinned(item.pod))
            if not surge and before is not None:
                state.delete(before)
            if not state.create(item):
                return _stands_still(state, "a DaemonSet goes on only when this pod is ready")
            if surge and before is not None:
                state.delete(before)
        return ""

    return how


def _pinned(pod: Pod) -> str | None:
    """The node that a DaemonSet's pod names."""
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ():
        for item in term.get("matchFields") or ():
            if item.get("key") == "metadata.name":
                return str((item.get("values") or [""])[0])
    return None


def _stands_still(state: _State, rule: str) -> str:
    waiting: Sequence[Arrival] = state.pending()
    first = waiting[0]
    refusal = state.refused.get(first.pod.key)
    if refusal is not None:
        why = refusal.text
    else:
        miss = state.play.near_misses([first.pod.key]).get(first.pod.key)
        why = miss.text if miss is not None else state.play.entries[-1].message
    more = f" (and {len(waiting) - 1} more)" if len(waiting) > 1 else ""
    held = f", {len(state.old)} old pod(s) keep what they hold" if state.old else ""
    fails = "is not created" if refusal is not None else "finds no place"
    return f"{first.pod.key}{more} {fails}: {why}{held}; {rule}"
