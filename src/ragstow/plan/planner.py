"""The planner's one entry: a service and a cluster in, a Plan out, with reasons, proof, simulation and ways out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragstow.cluster.build import RawObject, make
from ragstow.cluster.objects import Toleration
from ragstow.cluster.release import detect
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import Reason
from ragstow.facts import Facts
from ragstow.inventory.identity import Assumption
from ragstow.plan import failure, reasons
from ragstow.plan.after import After, after
from ragstow.plan.arrivals import arrivals
from ragstow.plan.assumptions import assumptions, of_simulation
from ragstow.plan.attempt import Attempt, Solver, attempt
from ragstow.plan.colocation import start_order
from ragstow.plan.digest import digest
from ragstow.plan.install import default_storage_class, runtime_classes
from ragstow.plan.layouts import layouts, with_changes
from ragstow.plan.model import (
    Alternative,
    ClaimKind,
    ClusterFacts,
    ComponentPlan,
    Mode,
    NodeLayout,
    Placement,
    Plan,
    SlotKind,
)
from ragstow.plan.price import prices
from ragstow.plan.problem import Option, Slot, Steering
from ragstow.plan.selectors import claim_selectors
from ragstow.plan.situation import Situation, situation
from ragstow.plan.waysout import not_all_ways, ways_out
from ragstow.scheduling.behaviours import NEWEST
from ragstow.simulate.placing import Placing, place
from ragstow.spec.model import Component, Service

_TIES = 400
"""Scheduling cycles spent on possible sets; what they leave open is said."""


def plan(
    service: Service,
    snapshot: Snapshot,
    facts: Facts,
    *,
    document: Mapping[str, Any],
    release: str | None = None,
    assumed: Sequence[Assumption] = (),
    solver: Solver = "exact",
    allow_disturb: bool = False,
    alternatives: bool = True,
) -> Plan:
    """Lay a service out on a cluster.

    Args:
        service: the normalised service.
        snapshot: the whole cluster.
        facts: cards, models, engines, clouds.
        document: the normalised RagService document, carried by the plan as it is.
        release: Kubernetes release to decide as; default the cluster's.
        assumed: cards that the user names because no label does.
        solver: "exact" proves, "greedy" is quick and says so.
        allow_disturb: nodes may be changed on which pods of others hold GPUs.
        alternatives: whether ways out are tried where nothing fits.

    Raises:
        InputError: the facts do not know a model, an engine or a precision; `release` is no release.
    """
    place_ = situation(
        snapshot, facts, service=service.name, namespace=service.namespace, assumed=assumed, allow_disturb=allow_disturb
    )
    tried = attempt(place_, service, solver)
    cluster = _cluster(place_, release)
    if tried.answer.verdict is None:
        return _refused(tried, cluster, document, ways_out(tried) if alternatives else ())
    return _feasible(tried, cluster, document)


def _cluster(place_: Situation, release: str | None) -> ClusterFacts:
    found = detect(place_.snapshot, newest_recorded=str(NEWEST), asked=release)
    return ClusterFacts(
        kubernetes=found.version,
        kubernetes_origin=found.origin,
        plugin=place_.install,
        runtime_classes=runtime_classes(place_.snapshot),
        runtime_class_needed=place_.runtime_class is not None,
        default_storage_class=default_storage_class(place_.snapshot),
        digest=digest(place_),
    )


def _refused(tried: Attempt, cluster: ClusterFacts, document: Mapping[str, Any], ways: tuple[Alternative, ...]) -> Plan:
    return Plan(
        service=tried.service.name,
        namespace=tried.service.namespace,
        feasible=False,
        cards=0,
        lower_bound=tried.bound,
        lower_bound_reason=tried.bound_reason,
        optimal=False,
        solver=tried.solver,
        components=(),
        placements=(),
        layouts=(),
        refused=failure.refusals(tried),
        reasons=(*failure.reasons(tried), *not_all_ways(tried)),
        alternatives=ways,
        assumptions=assumptions(tried, None),
        spec=document,
        cluster=cluster,
        digest=cluster.digest,
    )


def _feasible(tried: Attempt, cluster: ClusterFacts, document: Mapping[str, Any]) -> Plan:
    verdict = tried.answer.verdict
    assert verdict is not None
    state = after(tried.posed.problem, verdict.design)
    components = tuple(_component(tried, state, item) for item in tried.service.components)
    placed, coming = _simulate(tried, state, components, cluster.kubernetes)
    placements = tuple(
        _placement(tried, state, components, name, replica, found.node or "", found.nodes)
        for (name, replica), found in sorted(
            zip(coming, placed.pods, strict=True), key=lambda pair: (_index(tried, pair[0][0]), pair[0][1])
        )
    )
    stuck = [found for found in placed.pods if found.node is None]
    used = frozenset(item.node for item in placements)
    bound, why = tried.bound, tried.bound_reason
    if tried.answer.bound is not None and tried.answer.bound > bound:
        bound = tried.answer.bound
        why = f"no layout of these nodes uses fewer (exact solver; by hand at least {tried.bound}: {tried.bound_reason})"
    return Plan(
        service=tried.service.name,
        namespace=tried.service.namespace,
        feasible=not stuck,
        cards=verdict.cards,
        lower_bound=min(bound, verdict.cards),
        lower_bound_reason=why,
        optimal=tried.answer.complete or verdict.cards <= bound,
        solver=tried.solver,
        components=components,
        placements=placements,
        layouts=layouts(tried.situation, tried.offered, state, used),
        refused=reasons.why_not(state, verdict, tried.choices, _prices(tried)),
        reasons=tuple(Reason("scheduler", f"{found.pod}: {found.message}") for found in stuck),
        alternatives=(),
        assumptions=(*assumptions(tried, placed), *of_simulation(placed)),
        spec=document,
        cluster=cluster,
        digest=cluster.digest,
        simulation=_simulation(placed),
    )


def _prices(tried: Attempt) -> Mapping[tuple[str, Mode], int | None]:
    verdict = tried.answer.verdict
    return prices(tried.posed.problem, verdict) if verdict is not None and tried.solver == "exact" else {}


def _index(tried: Attempt, name: str) -> int:
    return [item.name for item in tried.service.components].index(name)


def _component(tried: Attempt, state: After, component: Component) -> ComponentPlan:
    verdict = tried.answer.verdict
    assert verdict is not None
    option = verdict.design.options.get(component.name)
    if option is None:
        slot = SlotKind("none", None, 0, None, None, 1, 0)
        return ComponentPlan(component.name, component.replicas, slot, None, {}, False, (), None)
    made = state.problem.slots[option.slot]
    steering = verdict.steering[component.name]
    return ComponentPlan(
        name=component.name,
        replicas=component.replicas,
        slot=_slot_kind(option, made),
        sizing=tried.choices[component.name].sizing[option],
        node_labels=dict(tried.offered.labels[option.slot]),
        pool=option.pooled,
        tolerations=_tolerations(tried, state, component.name),
        # The devices of a claim come into the container by CDI, whatever the runtime's default.
        runtime_class=None if state.problem.slots[option.slot].mode == "dra" else tried.situation.runtime_class,
        start_after=_start_after(state, verdict.steering, component.name),
        reasons=reasons.why(state, verdict, component.name, tried.choices[component.name]),
        claim=_claim(tried, component.name, option, made),
        not_beside=steering.not_beside,
        beside=steering.beside,
        spread_nodes=steering.spread,
    )


def _slot_kind(option: Option, slot: Slot) -> SlotKind:
    sharers = len(option.bundle) or slot.sharers
    return SlotKind(slot.mode, slot.resource, option.count, slot.profile, slot.product, sharers, slot.memory_bytes)


def _tolerations(tried: Attempt, state: After, name: str) -> tuple[Toleration, ...]:
    found: dict[Toleration, None] = {}
    for node in state.reach[state.group_of(name).name]:
        found.update(dict.fromkeys(tried.offered.tolerations.get(node.name, ())))
    return tuple(sorted(found, key=lambda item: (item.key, item.value, item.effect)))


def _start_after(state: After, steering: Mapping[str, Steering], name: str) -> tuple[str, ...]:
    first = start_order(state).get(name, ())
    mine = state.group_of(name)
    earlier = [
        member.name
        for group in state.groups
        if group.option.slot == mine.option.slot
        for member in group.members
        if steering[member.name].stage < steering[name].stage
    ]
    return tuple(dict.fromkeys((*first, *earlier)))


def _claim(tried: Attempt, name: str, option: Option, slot: Slot) -> ClaimKind | None:
    if slot.mode != "dra":
        return None
    device_class = tried.offered.kinds[option.slot].device_class or ""
    others = tuple(other for other in option.bundle if other != name)
    return ClaimKind(device_class, option.count, claim_selectors(tried.situation, slot.product, slot.profile), others)


def _simulate(
    tried: Attempt, state: After, components: tuple[ComponentPlan, ...], release: str
) -> tuple[Placing, tuple[tuple[str, int], ...]]:
    coming = arrivals(tried.service, components, dict(tried.closed))
    changed = layouts(tried.situation, tried.offered, state, frozenset())
    snapshot = snapshot_after(tried.situation.snapshot, changed).replace(put=coming.beside)
    return place(snapshot, coming.pods, release=release, budget=_TIES), coming.replicas


def snapshot_after(snapshot: Snapshot, changed: Sequence[NodeLayout]) -> Snapshot:
    """The cluster with the labels and resources of these layouts, as it will be when they are in place."""
    nodes = {node.name: node for node in snapshot.nodes}
    return snapshot.replace(
        put=[make(RawObject(with_changes(nodes[layout.node], layout))) for layout in changed if layout.changes]
    )


def _placement(
    tried: Attempt,
    state: After,
    components: tuple[ComponentPlan, ...],
    name: str,
    replica: int,
    node: str,
    nodes: tuple[str, ...],
) -> Placement:
    planned = next(item for item in components if item.name == name)
    slot = planned.slot
    taken = planned.sizing.total_bytes if planned.sizing is not None else 0
    return Placement(
        component=name,
        replica=replica,
        node=node,
        nodes=nodes,
        card=_card(tried, state, name, node) if slot.mode != "none" else None,
        mode=slot.mode,
        profile=slot.profile,
        resource=slot.resource,
        memory_bytes=taken,
    )


def _card(tried: Attempt, state: After, name: str, node: str) -> int | None:
    """The card where the layout leaves no choice: the only one of the node that offers the slot."""
    group = state.group_of(name)
    here = next((item for item in state.nodes if item.name == node), None)
    if here is None:
        return None
    changed = state.design.changed.get(node)
    if changed is None and any(group.mig and group.cards is None for group in tried.situation.gpus[node].layout):
        return None  # which card is cut how is not in the data
    cuts = changed.cuts if changed is not None else here.supply.present
    offering = [index for index, cut in enumerate(cuts) if cut.number(group.slot.key)]
    return offering[0] if len(offering) == 1 else None


def _simulation(placed: Placing) -> dict[str, Any]:
    return {
        "pods": [
            {"pod": found.pod, "node": found.node, "nodes": list(found.nodes), "message": found.message}
            for found in placed.pods
        ],
        "complete": placed.complete,
        "mayFail": list(placed.may_fail),
    }
