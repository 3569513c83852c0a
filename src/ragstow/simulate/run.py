"""The whole simulation: what-ifs, arrivals, rollouts, lost nodes, in this order; and the one answer.

`simulate` is the function behind the command. It reads nothing and prints nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from ragstow.cluster.objects import KubeObject, Pod
from ragstow.cluster.release import Release as ClusterRelease
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import Reason
from ragstow.facts.store import Facts
from ragstow.inventory.model import Inventory, NodeGpus
from ragstow.scheduling.cycle import Sampling
from ragstow.scheduling.release import Release
from ragstow.simulate import cards, compare, disruption, pluginrules, rollout, whatif
from ragstow.simulate.arrivals import Arrival, Gathered, gather, pending
from ragstow.simulate.claims import ClaimMaker
from ragstow.simulate.controllers import owned_pods
from ragstow.simulate.engine import Options, Order
from ragstow.simulate.freeze import freeze
from ragstow.simulate.kubelets import KubeletFacts
from ragstow.simulate.model import Displaced, Disruption, PodEntry, Rollout, Simulation
from ragstow.simulate.play import Play
from ragstow.simulate.workload import Workload, asks_for_devices, made, recreated

_CLOCKLESS = (
    "there is no clock: evicted and deleted pods are gone at once, back-off, grace periods, failing bindings and node "
    "autoscaling are not played"
)


@dataclass(frozen=True, slots=True)
class NewNodes:
    """--add-nodes: a shape, how many, and the objects of a file where the shape is one."""

    shape: str
    count: int
    objects: tuple[KubeObject, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """What to simulate; the fields are the command's flags (INTERFACE 4)."""

    release: ClusterRelease
    order: Order = "queue"
    preemption: bool = True
    sampling: Sampling = "all"
    ties: Literal["name"] | int = "name"
    policy: Mapping[str, Any] | None = None
    scores: bool = False
    only_files: bool = False
    kubelets: KubeletFacts | None = None
    inventory: Inventory | None = None
    """Says which nodes' plugins refuse more than one share."""
    rollout: bool = False
    drain: tuple[str, ...] = ()
    fail: tuple[str, ...] = ()
    fail_alone: tuple[str, ...] = ()
    """Nodes that are lost each by itself, from where the pods are before any rollout."""
    without: tuple[str, ...] = ()
    scale: tuple[tuple[str, int], ...] = ()
    add_nodes: tuple[NewNodes, ...] = ()
    namespace: str | None = None
    """Where `scale` looks for a workload that is named without one."""


def simulate(snapshot: Snapshot, given: Sequence[KubeObject], request: Request, facts: Facts) -> Simulation:
    """Play `given` (objects of files, in their order) and what is Pending on a cluster.

    Raises:
        InputError, InputErrors: the policy or a kubelet configuration cannot be followed.
        UsageError: a flag names something that is not there.
    """
    return _Run(snapshot, given, request, facts).run()


@dataclass
class _Run:
    snapshot: Snapshot
    given: Sequence[KubeObject]
    request: Request
    facts: Facts
    notes: dict[str, None] = field(default_factory=dict)
    options: Options = field(init=False)
    only_one: Mapping[str, frozenset[str]] = field(init=False)
    packed: frozenset[str] = field(init=False)
    first: Play | None = None
    toleration: bool = False

    def __post_init__(self) -> None:
        request = self.request
        self.only_one = pluginrules.nodes(request.inventory)
        self.packed = pluginrules.packed(request.inventory)
        release = Release.parse(request.release.version)
        self.options = Options(
            release=release,
            order=request.order,
            preemption=request.preemption,
            sampling=request.sampling,
            ties=request.ties,
            policy=request.policy,
            detail=request.scores,
        )

    def run(self) -> Simulation:
        """Everything in turn."""
        live_pending = () if self.request.only_files else pending(self.snapshot)
        base, scaled, gone = self._what_if()
        self.toleration = self._extended_toleration(base)
        gathered = gather(
            base,
            self.given,
            self.options.release,
            only_files=self.request.only_files,
            rolling=self.request.rollout,
            extended_toleration=self.toleration,
        )
        snapshot, arrivals = self._with_scaled(gathered, scaled)
        self._note(*gathered.assumptions)
        play = self.first = Play(snapshot, self.options, self.request.kubelets, arrivals, self.only_one, self.packed)
        play.queue(arrivals)
        keys = [item.pod.key for item in arrivals]
        final = play.final(keys)
        lost = [key for key in keys if key not in final]
        warnings = compare.differences(self.snapshot, live_pending, play.entries)
        self._note(*play.assumptions)
        request = self.request
        then = request.rollout or request.drain or request.fail or request.fail_alone or play.victims
        frozen = freeze(play, snapshot, [item.pod for item in arrivals if item.refusal is None]) if then else snapshot
        displaced = self._displaced(play, frozen)
        alone = tuple(self._disrupted(frozen, "fail", name, onward=False)[0] for name in request.fail_alone)
        rollouts, frozen, rolled = self._rollouts(gathered, frozen)
        final |= rolled
        disruptions = self._disruptions(frozen)
        if gone:
            self._note(f"scaled down: {', '.join(gone)} are taken out first")
        return Simulation(
            release=self.request.release.version,
            release_origin=self.request.release.origin,
            pods=tuple(self._with_cards(play, entry) for entry in play.entries),
            final=final,
            near_misses=play.near_misses(lost),
            displaced=displaced,
            loops=tuple(play.loops),
            rollouts=rollouts,
            disruptions=alone + disruptions,
            warnings=warnings + tuple(play.warnings) + self._unknown_schedulers(play.entries),
            assumptions=(*self.notes, _CLOCKLESS),
        )

    def _note(self, *texts: str) -> None:
        self.notes.update(dict.fromkeys(texts))

    # --- before the pods ------------------------------------------------------------------------------------------------

    def _what_if(self) -> tuple[Snapshot, tuple[tuple[dict[str, Any], str], ...], tuple[str, ...]]:
        snapshot = self.snapshot
        for nodes in self.request.add_nodes:
            added = whatif.add_nodes(snapshot, nodes.shape, nodes.count, self.facts, nodes.objects)
            snapshot = added.snapshot
            self._note(*added.assumptions)
        self.given, names = whatif.without_given(self.given, self.request.without)
        known = {name for pod in snapshot.pods for name in (pod.key, pod.name)}
        names = tuple(name for name in self.request.without if name in names or name in known)
        if names:
            snapshot = whatif.without(snapshot, names).snapshot
        self.given, wishes = whatif.scale_given(self.given, self.request.scale, self.request.namespace)
        scaled = whatif.scale(snapshot, wishes, self.request.namespace) if wishes else whatif.Scaled(snapshot, (), ())
        # What runs according to the files is in the snapshot already: what was taken out must not come back with them.
        left = {pod.key for pod in scaled.snapshot.pods}
        gone = {pod.key for pod in self.snapshot.pods if pod.key not in left}
        self.given = tuple(item for item in self.given if not (isinstance(item, Pod) and item.node and item.key in gone))
        return scaled.snapshot, scaled.arriving, scaled.gone

    def _extended_toleration(self, snapshot: Snapshot) -> bool:
        """Whether the cloud's API server adds tolerations for extended resources to pods."""
        for node in snapshot.nodes:
            provider = str((node.raw.get("spec") or {}).get("providerID") or "")
            cloud = self.facts.clouds.of_node(node.labels, provider, node.kubelet_version or "")
            if cloud is not None:
                if cloud.extended_resource_toleration:
                    self._note(f"{cloud.name}: its API server adds tolerations for extended resources to new pods")
                return cloud.extended_resource_toleration
        return False

    def _with_scaled(
        self, gathered: Gathered, scaled: Sequence[tuple[dict[str, Any], str]]
    ) -> tuple[Snapshot, tuple[Arrival, ...]]:
        if not scaled:
            return gathered.snapshot, gathered.arrivals
        claims = ClaimMaker(gathered.snapshot)
        more: list[Arrival] = []
        assert gathered.admission is not None
        for raw, _ in scaled:
            admitted = gathered.admission.admit(raw)
            if admitted.refusal is not None:
                more.append(Arrival(admitted.pod, None, admitted.refusal))
                continue
            pod = made(claims.for_pod(dict(admitted.pod.raw)))
            assert isinstance(pod, Pod)
            more.append(Arrival(pod))
        self._note(*claims.assumptions, *gathered.admission.assumptions)
        return claims.snapshot, (*gathered.arrivals, *more)

    # --- after the pods -------------------------------------------------------------------------------------------------

    def _start(self, snapshot: Snapshot) -> Play:
        options = replace(self.options, detail=False)
        return Play(snapshot, options, self.request.kubelets, (), self.only_one, self.packed, self.first)

    def _displaced(self, play: Play, frozen: Snapshot) -> tuple[Displaced, ...]:
        """Where the controllers' new pods for evicted ones would go, once everything else is placed."""
        found: list[Displaced] = []
        then: Play | None = None
        for victim, by in play.victims:
            if victim.pod.controller is None:
                found.append(Displaced(victim.key, by, victim.priority, recreated=False, node=None))
                continue
            if then is None:
                options = replace(self.options, detail=False, preemption=False)
                then = Play(frozen, options, self.request.kubelets, (), self.only_one, self.packed)
            again = made(recreated(victim.pod.raw, f"{victim.name}-again"))
            assert isinstance(again, Pod)
            node = then.arrive(again)
            message = "" if node is not None else then.entries[-1].message
            found.append(Displaced(victim.key, by, victim.priority, recreated=True, node=node, message=message))
        return tuple(found)

    def _rollouts(self, gathered: Gathered, frozen: Snapshot) -> tuple[tuple[Rollout, ...], Snapshot, dict[str, str]]:
        if not self.request.rollout:
            return (), frozen, {}
        owned = owned_pods(frozen)
        changed = {update.workload.key for update in gathered.updates}
        quotas = gathered.admission.quotas if gathered.admission is not None else None
        found: list[Rollout] = []
        final: dict[str, str] = {}
        for workload in gathered.workloads if self.given else self._holders(frozen):
            if workload.kind == "Job":
                continue
            target = workload if workload.key in changed else rollout.restarted(workload)
            old = [pod for pod in owned.get(workload.key, []) if not pod.finished]
            if not old:
                if workload.replicas:
                    self._note(f"the rollout of {workload.ref} is not played: none of its pods is created")
                continue
            if workload.key not in changed and (without := sum(pod.node is None for pod in old)):
                self._note(f"the rollout of {workload.ref} is not played: {without} of its pods have no place even without one")
                continue
            plan = rollout.prepare(
                frozen, target, old, self.options.release, extended_toleration=self.toleration, quotas=quotas
            )
            self._note(*plan.assumptions)
            played = rollout.play_rollout(plan, self._start)
            found.append(played.rollout)
            if played.play is None:
                if workload.key in changed:
                    final |= {pod.key: pod.node for pod in old if pod.node is not None}
                continue
            quotas = played.quotas
            frozen = freeze(played.play, plan.snapshot, [item.pod for item in plan.new])
            if workload.key in changed:
                final |= played.play.final(item.pod.key for item in plan.new)
            self._note(*played.play.assumptions)
        if len(found) > 1:
            self._note("rollouts are played one workload after the other")
        return tuple(found), frozen, final

    def _with_cards(self, play: Play, entry: PodEntry) -> PodEntry:
        """Where no file names the node's devices: the cards that may be meant."""
        inventory = self.request.inventory
        if inventory is None or entry.node is None or entry.kubelet is not None:
            return entry
        located = play.engine.world.located(entry.key)
        node = self._nodes.get(entry.node)
        if located is None or node is None:
            return entry
        found = cards.choices(located[0].pod, located[0].sums.plain, node)
        return replace(entry, cards=found) if found else entry

    @cached_property
    def _nodes(self) -> Mapping[str, NodeGpus]:
        inventory = self.request.inventory
        return {node.name: node for node in inventory.nodes} if inventory is not None else {}

    def _holders(self, snapshot: Snapshot) -> list[Workload]:
        """Without files: the workloads of the cluster that ask for devices, in the namespace shown."""
        listed = [
            Workload(item)
            for kind in ("Deployment", "StatefulSet")
            for item in snapshot.of(kind, "apps")
            if self.request.namespace in (None, item.namespace)
        ]
        return [workload for workload in listed if asks_for_devices(workload)]

    def _disruptions(self, frozen: Snapshot) -> tuple[Disruption, ...]:
        found: list[Disruption] = []
        kinds: list[tuple[Literal["drain", "fail"], str]] = [("drain", name) for name in self.request.drain]
        kinds += [("fail", name) for name in self.request.fail]
        for kind, name in kinds:
            disrupted, frozen = self._disrupted(frozen, kind, name)
            found.append(disrupted)
        return tuple(found)

    def _disrupted(
        self, frozen: Snapshot, kind: Literal["drain", "fail"], name: str, *, onward: bool = True
    ) -> tuple[Disruption, Snapshot]:
        """What becomes of a node's pods, and the cluster afterwards where it is wanted."""
        prepared = disruption.prepare(frozen, kind, name)
        play = self._start(prepared.snapshot)
        found = disruption.play_disruption(play, prepared)
        self._note(*play.assumptions)
        if not onward:
            return found, frozen
        successors = [item.pod for _, item in prepared.leaving if item is not None and play.node_of(item.pod.key) is not None]
        return found, freeze(play, prepared.snapshot, successors)

    def _unknown_schedulers(self, entries: Sequence[PodEntry]) -> tuple[Reason, ...]:
        told = {entry.message for entry in entries if entry.message.startswith("no profile is called ")}
        return tuple(Reason("other-scheduler", text) for text in sorted(told))
