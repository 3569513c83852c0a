"""The procedure of a plan: the actions of `apply` in order, from the same parts as STEPS.md, so that the two cannot drift.

Configuration objects and patches come first, since they change no node. Then one node after the other: kept free of pods,
labelled, waited for, opened. Then the workloads in the order in which they may start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragstow.facts import Facts
from ragstow.plan.model import NodeLayout, Plan
from ragstow.render import claims, names
from ragstow.render.actions import (
    Action,
    ApplyObject,
    ByHand,
    Cordon,
    EvictGpuPods,
    Procedure,
    RestartPluginPod,
    SetLabels,
    Uncordon,
    WaitMigState,
    WaitNodeOffers,
    WaitReady,
)
from ragstow.render.container import start_seconds
from ragstow.render.context import context as make_context
from ragstow.render.layout import component_objects
from ragstow.render.model import Context, Item, Manifest
from ragstow.render.nodes import mig, mig_hand, node_parts
from ragstow.render.nodes.common import set_labels
from ragstow.render.podspec import WAIT_SECONDS, wait_container
from ragstow.render.steps import start_order
from ragstow.render.units import units
from ragstow.spec.model import Service

_GPU_LABELS = (".product", ".replicas", ".sharing-strategy")
"""Ends of the labels by which feature discovery says how a node's cards are shared (nvidia reference 3.2)."""
_WORKLOADS = {"Deployment", "StatefulSet"}


def procedure(service: Service, plan: Plan, facts: Facts, *, objects: Sequence[Manifest] | None = None) -> Procedure:
    """Everything that `apply` does for a plan.

    Args:
        service: the normalised service that the plan was made for.
        plan: a feasible plan of it.
        facts: how engines run, and the cards.
        objects: the service's objects as a person edited them after rendering; they take the place of those of the same kind
            and name, one that is missing is left out, and one that is new is applied before the workloads.

    Raises:
        InputError, InputErrors: as `render`.
    """
    context = make_context(service, plan, facts)
    actions: list[Action] = [action for part in node_parts(context) for action in part.actions]
    configuration = len(actions)
    for layout in context.changed:
        actions += _node(context, layout)
    workloads = len(actions)
    actions += _workloads(context, objects)
    return Procedure(service.name, service.namespace, plan.digest, tuple(actions), configuration, workloads)


def _node(context: Context, layout: NodeLayout) -> list[Action]:
    labels = set_labels(context, layout)
    pool = {key: value for key, value in labels.items() if key == names.POOL}
    switch = {key: value for key, value in labels.items() if key != names.POOL}
    made: list[Action] = []
    if switch or layout.mig is not None:
        node, service = layout.node, context.service
        made += [Cordon(node), EvictGpuPods(node, layout.disturbs, service.name, service.namespace)]
        if switch:
            made.append(SetLabels(node, switch))
        if layout.mig is not None:
            made += _cut(context, layout)
        made += [WaitNodeOffers(node, dict(layout.resources_after), _published(context, layout)), Uncordon(node)]
    if pool:
        made.append(SetLabels(layout.node, pool))
    return made


def _cut(context: Context, layout: NodeLayout) -> list[Action]:
    plugin = context.plan.cluster.plugin
    name = mig.layout_name(context, layout)
    if plugin.kind == "operator":
        return [WaitMigState(layout.node, name)]
    by_hand = ByHand(
        layout.node,
        dict(layout.resources_after),
        f"cut the cards of {layout.node}",
        f"No MIG manager runs in this cluster: on {layout.node}, as root, once no pod holds a GPU there.",
        tuple(mig_hand.smi_commands(context, layout)),
    )
    namespace, daemonset = mig_hand.plugin_of(plugin)
    return [by_hand, RestartPluginPod(layout.node, namespace, daemonset)]


def _published(context: Context, layout: NodeLayout) -> dict[str, str]:
    """The labels that the pods select, and those that say how the cards are shared, as they will be."""
    selected = {key for item in context.items for key in item.planned.node_labels} - {names.POOL}
    gfd = context.plan.cluster.plugin.gfd
    return {
        key: value
        for key, value in sorted(layout.labels_after.items())
        if key in selected or (gfd and key.startswith("nvidia.com/") and key.endswith(_GPU_LABELS))
    }


def _workloads(context: Context, edited: Sequence[Manifest] | None) -> list[Action]:
    waves: list[tuple[list[Manifest], list[Action]]] = []
    for number, wave in enumerate(start_order(context)):
        made = claims.shared(context) if number == 0 else []
        for item in wave:
            made = [*made, *component_objects(context, item)]
        waves.append((made, [wait for item in wave for wait in _waits(context, item)]))
    if edited is None:
        return [action for made, waits in waves for action in (*map(ApplyObject, made), *waits)]
    return _edited(waves, edited)


def _edited(waves: list[tuple[list[Manifest], list[Action]]], edited: Sequence[Manifest]) -> list[Action]:
    there = {_identity(item): item for item in edited}
    known = {_identity(item) for made, _ in waves for item in made}
    new = [item for identity, item in there.items() if identity not in known]
    result: list[Action] = [ApplyObject(item) for item in new if item.get("kind") not in _WORKLOADS]
    for made, waits in waves:
        kept = [there[_identity(item)] for item in made if _identity(item) in there]
        replicas = {
            (str(item["kind"]), str(item["metadata"]["name"])): (item.get("spec") or {}).get("replicas", 1)
            for item in kept
            if item.get("kind") in _WORKLOADS
        }
        result += map(ApplyObject, kept)
        for wait in waits:
            if isinstance(wait, WaitReady) and (wait.kind, wait.name) in replicas:
                result.append(
                    WaitReady(
                        wait.api_version, wait.kind, wait.namespace, wait.name, int(replicas[wait.kind, wait.name]),
                        wait.timeout_seconds,
                    )
                )  # fmt: skip
    return [*result, *_new_workloads(item for item in new if item.get("kind") in _WORKLOADS)]


def _new_workloads(items: Iterable[Manifest]) -> list[Action]:
    made: list[Action] = []
    for item in items:
        meta, spec = item["metadata"], item.get("spec") or {}
        seconds = int(spec.get("progressDeadlineSeconds") or 600)
        made.append(ApplyObject(item))
        made.append(
            WaitReady(
                str(item["apiVersion"]), str(item["kind"]), str(meta.get("namespace") or "default"), str(meta["name"]),
                int(spec.get("replicas", 1)), seconds,
            )
        )  # fmt: skip
    return made


def _waits(context: Context, item: Item) -> list[Action]:
    seconds = start_seconds(item) + 600 + (WAIT_SECONDS if wait_container(context, item) is not None else 0)
    return [
        WaitReady(
            "apps/v1",
            "StatefulSet" if unit.stateful else "Deployment",
            item.service.namespace,
            unit.name,
            unit.replicas,
            # Replicas that start one after the other take that time each.
            seconds * (unit.replicas if unit.in_order else 1),
        )
        for unit in units(context, item)
    ]


def _identity(item: Manifest) -> tuple[str, str, str, str]:
    meta = item.get("metadata") or {}
    group = str(item.get("apiVersion", "")).rpartition("/")[0]
    return group, str(item.get("kind")), str(meta.get("namespace") or ""), str(meta.get("name"))
