"""Plays arrivals: scheduler, node, and what controllers do about it; keeps what happened as entries.

A `Play` is one cluster over time. It owns the engine (the scheduler's decisions) and the kubelets (the nodes' admissions); pods
arrive, are removed, are tried again when something changed. Rollouts and drains are played on it by their own modules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragstow.cluster.objects import Pod
from ragstow.cluster.owners import Owners
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import Reason
from ragstow.scheduling.framework import Status
from ragstow.scheduling.podinfo import PodInfo
from ragstow.simulate import named
from ragstow.simulate.arrivals import Arrival
from ragstow.simulate.engine import Attempt, Engine, Options
from ragstow.simulate.kubelets import KubeletFacts, Kubelets
from ragstow.simulate.model import KubeletAnswer, Loop, NearMiss, NodeRefusal, PodEntry
from ragstow.simulate.nearest import nearest

_MOST_REJECTIONS = 5
_MOST_NEAR_MISSES = 50
_MOST_EXPLAINED = 50


class Play:
    """See the module.

    Args:
        snapshot: the cluster with every object that will be needed; its pods with a node run there.
        options: how the scheduler is played.
        kubelets: what is known about the nodes' kubelets.
        arrivals: pods that are known from the start; their nominations count, and `queue` gives them in turn.
        only_one: node -> resources of which its plugin gives a container one at most.
        packed: nodes whose plugin packs shares.
        before: a play of an earlier snapshot, whose pods need not be read again.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        options: Options,
        kubelets: KubeletFacts | None = None,
        arrivals: Sequence[Arrival] = (),
        only_one: Mapping[str, frozenset[str]] | None = None,
        packed: frozenset[str] = frozenset(),
        before: Play | None = None,
    ) -> None:
        self.options = options
        known = before.engine.world if before is not None else None
        self.engine: Engine = Engine(snapshot, [item.pod for item in arrivals if item.refusal is None], options, known)
        self.kubelets = Kubelets(kubelets, only_one, packed)
        self.entries: list[PodEntry] = []
        self.loops: list[Loop] = []
        self.warnings: list[Reason] = []
        self.victims: list[tuple[PodInfo, str]] = []
        """Evicted pods, and the key of the pod they made room for."""
        self._attempts: Counter[str] = Counter()
        self._infos: dict[str, PodInfo] = {info.key: info for info in self.engine.arrivals}
        self._owners: Owners | None = None
        self._explained: set[tuple[str, str]] = set()
        self.placed = 0
        self.freed = 0
        """Counts of placements and removals: a pod that failed is only tried again when one that may help it has moved on."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the answers rest on."""
        return (*self.engine.assumptions, *self.kubelets.assumptions)

    # --- pods -----------------------------------------------------------------------------------------------------------

    def queue(self, arrivals: Sequence[Arrival]) -> None:
        """All arrivals in the scheduler's order; in queue order, those that failed are tried again while that helps."""
        by_key = {item.pod.key: item for item in arrivals}
        refused = {item.pod.key for item in arrivals if item.refusal is not None}
        for item in arrivals:
            if item.refusal is not None and item.after not in refused:
                self._note_refused(item)
        # Pods that name their node are on it before any scheduler looks at the others.
        turn = [info.key for info in sorted(self.engine.arrivals, key=lambda info: info.pod.node is None)]
        failed: dict[str, int] = {}
        for key in turn:
            if self._must_wait(by_key[key]):
                failed[key] = -1
            elif self.arrive(by_key[key].pod, by_key[key]) is None:
                failed[key] = self._hope(key)
        while self.options.order == "queue":
            again = [key for key, seen in failed.items() if seen != self._hope(key) and not self._must_wait(by_key[key])]
            placed = [key for key in again if self._retry(by_key[key], failed)]
            for key in placed:
                failed.pop(key, None)
            if not placed:
                break
        for key in failed:
            if self._attempts[key] == 0:
                self._note_waiting(by_key[key])
        for item in arrivals:
            if item.refusal is not None and item.after in refused:
                self._note_waiting(item)

    def _hope(self, key: str) -> int:
        """What has happened so far that may help a pod that failed: pods that went, and for pods that want others near, or
        share a claim with them, pods that came (what upstream's queueing hints ask of events)."""
        info = self._infos[key]
        spec = info.pod.spec
        social = bool(info.required_affinity or spec.get("topologySpreadConstraints") or spec.get("resourceClaims"))
        return self.freed + self.placed if social else self.freed

    def _must_wait(self, arrival: Arrival) -> bool:
        return arrival.after is not None and self.node_of(arrival.after) is None

    def _retry(self, arrival: Arrival, failed: dict[str, int]) -> bool:
        key = arrival.pod.key
        shown = len(self.entries)
        placed = self.arrive(arrival.pod, arrival) is not None
        failed[key] = self._hope(key)
        if not placed and self._attempts[key] > 1:
            # The same answer as before is no news.
            del self.entries[shown:]
            self._attempts[key] -= 1
        return placed

    def arrive(self, pod: Pod, arrival: Arrival | None = None) -> str | None:
        """A pod is scheduled, and admitted by its node; the node it ends on, or None."""
        info = self._infos.get(pod.key)
        if info is None or info.pod is not pod:
            info = self._infos[pod.key] = self.engine.world.pod_info(pod)
        workload = self._owner_name(pod, arrival)
        if pod.node is not None:
            return self._come_by_name(info, workload)
        tried: set[str] = set()
        for _ in range(_MOST_REJECTIONS):
            attempt = self._schedule(info, workload)
            if attempt is None or attempt.node is None:
                return None
            node = attempt.node
            answer = self.entries[-1].kubelet
            if answer is None or answer.admitted:
                return node
            self.remove(pod.key)
            if pod.controller is None:
                return None
            if node in tried:
                self._note_loop(workload or pod.key, node, answer, attempt)
                return None
            tried.add(node)
        return None

    def _schedule(self, info: PodInfo, workload: str | None) -> Attempt | None:
        last: Attempt | None = None
        for attempt in self.engine.schedule(info):
            last = attempt
            for victim in attempt.victims:
                self.victims.append((victim, info.key))
                self.kubelets.remove(victim.key, attempt.nominated_node)
                self.freed += 1
            answer: KubeletAnswer | None = None
            if attempt.node is not None:
                self.placed += 1
                node = self.engine.world.node(attempt.node)
                assert node is not None
                answer = self.kubelets.admit(info, node)
            self._attempts[info.key] += 1
            self.entries.append(self._entry(attempt, answer, workload))
        return last

    def _come_by_name(self, info: PodInfo, workload: str | None) -> str | None:
        """A pod with spec.nodeName: its node takes it or rejects it, and nobody else is asked."""
        node = self.engine.world.node(info.pod.node or "")
        self._attempts[info.key] += 1
        entry = PodEntry(info.namespace, info.name, self._attempts[info.key], workload=workload, by_name=True)
        if node is None:
            why = named.no_such_node(info, tuple(other.name for other in self.engine.world.nodes))
            self.entries.append(replace(entry, message=why.text, refusal=why))
            return None
        refused = named.refusal(info, node)
        answer = KubeletAnswer(False, *refused) if refused is not None else None
        if answer is None:
            self.engine.take(info, node.name)
            answer = self.kubelets.admit(info, node)
            self.warnings += named.warnings(info, node)
        self.entries.append(replace(entry, node=node.name, ties=(node.name,), kubelet=answer))
        if answer is None or answer.admitted:
            self.placed += 1
            return node.name
        if refused is None:
            self.remove(info.key)
        if workload is not None:
            text = (
                f"{workload}: {node.name}, which its pods name (spec.nodeName), rejects them with {answer.reason}; the "
                "controller makes new ones without end"
            )
            self.loops.append(Loop(workload, node.name, answer.reason, answer.message, text))
        return None

    def remove(self, key: str) -> str | None:
        """Take a pod out of the cluster; its node, or None if it was on none."""
        located = self.engine.world.located(key)
        if located is None:
            return None
        node = located[1].name
        self.engine.remove(key)
        self.kubelets.remove(key, node)
        self.freed += 1
        return node

    def node_of(self, key: str) -> str | None:
        """Where a pod is."""
        located = self.engine.world.located(key)
        return located[1].name if located is not None else None

    def final(self, keys: Iterable[str]) -> dict[str, str]:
        """Where these pods are; those without a node are left out."""
        places = ((key, self.node_of(key)) for key in keys)
        return {key: node for key, node in places if node is not None}

    def near_misses(self, keys: Iterable[str]) -> dict[str, NearMiss]:
        """The near miss of each pod that is on no node, as things stand now; the first few where there are many."""
        found: dict[str, NearMiss] = {}
        for key in list(keys)[:_MOST_NEAR_MISSES]:
            info = self._infos.get(key)
            if info is None or self.node_of(key) is not None or info.gates or not self._attempts[key]:
                continue
            if info.pod.node is not None and self.engine.world.node(info.pod.node) is None:
                continue
            framework = self.engine.frameworks.get(info.pod.scheduler)
            miss = nearest(framework, info) if framework is not None else None
            if miss is not None:
                found[key] = miss
        return found

    # --- entries --------------------------------------------------------------------------------------------------------

    def _owner_name(self, pod: Pod, arrival: Arrival | None) -> str | None:
        if arrival is not None and arrival.workload is not None:
            return arrival.workload.ref
        if pod.controller is None:
            return None
        if self._owners is None:
            self._owners = Owners(self.engine.world.snapshot)
        return self._owners.workload(pod).ref

    def _entry(self, attempt: Attempt, answer: KubeletAnswer | None, workload: str | None) -> PodEntry:
        decision = attempt.decision
        held = attempt.pre_enqueue
        entry = PodEntry(
            namespace=attempt.pod.namespace,
            name=attempt.pod.name,
            number=self._attempts[attempt.pod.key],
            node=attempt.node,
            ties=decision.ties if attempt.node is not None else (),
            feasible=decision.feasible,
            evaluated=decision.evaluated,
            reasons=dict(decision.reasons),
            message=attempt.message,
            preenqueue=f"{held.plugin}: {held.message}" if held is not None else None,
            prefilter=_plugin_and_code(decision.pre_filter),
            nominated_node=attempt.nominated_node or None,
            nominated_ties=attempt.nominated_ties,
            victims=tuple(victim.key for victim in attempt.victims),
            devices=attempt.booked.get("devices") or {},
            extended={
                name: attempt.booked[f"extended_{name}"]
                for name in ("requests", "mappings")
                if f"extended_{name}" in attempt.booked
            },
            volumes=attempt.booked.get("volumes") or {},
            kubelet=answer,
            workload=workload,
            words=self._words(attempt, workload),
        )
        if not self.options.detail:
            return entry
        scores = {node: decision.scores_of(node) for node in decision.sample} if decision.scores else None
        return replace(
            entry,
            rejected={
                node: NodeRefusal(status.plugin, str(status.code), status.texts) for node, status in decision.rejected.items()
            },
            scores={node: {**row, "total": sum(row.values())} for node, row in scores.items()} if scores else {},
            score=decision.total,
        )

    def _words(self, attempt: Attempt, workload: str | None) -> tuple[tuple[Reason, int], ...]:
        """The refusals in words, for a pod or the first of a workload's pods with the same event, up to a number of them."""
        decision = attempt.decision
        cycle = self.engine.cycles.get(attempt.pod.pod.scheduler)
        if attempt.node is not None or cycle is None or not decision.statuses:
            return ()
        group = (workload or attempt.pod.key, attempt.message)
        if group in self._explained or len(self._explained) >= _MOST_EXPLAINED:
            return ()
        self._explained.add(group)
        return _grouped(cycle.explain(decision), decision.statuses)

    def _note_refused(self, arrival: Arrival) -> None:
        pod = arrival.pod
        text = arrival.refusal.text if arrival.refusal is not None else ""
        workload = self._owner_name(pod, arrival)
        self.entries.append(PodEntry(pod.namespace, pod.name, 0, message=text, refusal=arrival.refusal, workload=workload))

    def _note_waiting(self, arrival: Arrival) -> None:
        pod = arrival.pod
        text = f"not created: its StatefulSet waits until {arrival.after} is ready"
        workload = self._owner_name(pod, arrival)
        self.entries.append(PodEntry(pod.namespace, pod.name, 0, message=text, workload=workload))

    def _note_loop(self, workload: str, node: str, answer: KubeletAnswer, attempt: Attempt) -> None:
        others = [name for name in attempt.decision.ties if name != node]
        hope = f"; {', '.join(others)} would do as well, so it ends when chance takes that" if others else ""
        text = (
            f"{workload}: {node} rejects its pod with {answer.reason}, the controller makes a new one and the scheduler, which "
            f"counts devices only, binds it to {node} again: a loop without back-off{hope}"
        )
        self.loops.append(Loop(workload, node, answer.reason, answer.message, text))


def _plugin_and_code(status: Any) -> str | None:
    return f"{status.plugin}:{status.code}" if status is not None else None


def _grouped(explained: Mapping[str, Sequence[Reason]], statuses: Mapping[str, Status]) -> tuple[tuple[Reason, int], ...]:
    """Reasons that the event counts as one, with the number of nodes; the first of each stands for the others."""
    first: dict[tuple[str, str], Reason] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for node, reasons in explained.items():
        texts = statuses[node].texts if node in statuses else ()
        of_texts = texts if len(texts) == len(reasons) else ("",) * len(reasons)
        of_node = {(reason.code, text): reason for reason, text in zip(reversed(reasons), reversed(of_texts), strict=True)}
        for key, reason in reversed(of_node.items()):
            first.setdefault(key, reason)
            counts[key] += 1
    return tuple((first[key], count) for key, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])))
