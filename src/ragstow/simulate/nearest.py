"""For a pod that fits nowhere: the node that comes nearest, what it lacks, who holds it, and the smallest change that helps.

Every filter is asked about every node, also after the first refusal, so that a node that lacks one thing is told from one that
lacks three. A change may have several steps, one against each refusal; it is only named after the filters passed with all of
them done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragstow.cluster.build import RawObject, make
from ragstow.cluster.objects import Node
from ragstow.scheduling.amounts import is_extended
from ragstow.scheduling.framework import CycleState
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.plugins.dynamic_resources import DynamicResources
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.runtime import Framework
from ragstow.scheduling.taints import CONDITION_PREFIX, CORDON_KEY
from ragstow.simulate.cures import cures, shortage
from ragstow.simulate.model import Change, ChangeKind, NearMiss
from ragstow.simulate.nearestwords import Candidate, beforehand, holders_of, nowhere, volume_zones, words
from ragstow.simulate.trial import Found, Refusal, Step, ask, asked, refusals

_MOST_NODES = 5
"""Nodes for which changes are looked for, and how many of them at least."""
_LEAST_NODES = 3
_MOST_STEPS = 4
_MOST_TRIALS = 40
"""For one pod, on all nodes together."""
_MOST_CHANGES = 3
"""Of one node."""

# How far a node is from taking the pod: what a change of the pod cures is nearer than what only another node cures.
_WEIGHT: Mapping[str, float] = {
    "NodeUnschedulable": 1.0,
    "TaintToleration": 1.0,
    "NodePorts": 1.5,
    "NodeVolumeLimits": 1.5,
    "VolumeRestrictions": 1.5,
    "NodeAffinity": 2.0,
    "PodTopologySpread": 2.0,
    "InterPodAffinity": 2.0,
}
_NEVER = 4.0
_ZONE = "topology.kubernetes.io/zone"

_ORDER: Mapping[ChangeKind, float] = {
    "uncordon": 0,
    "tolerate": 1,
    "unselect": 2,
    "affinity": 2.1,
    "spread": 2.2,
    "near": 2.3,
    "apart": 2.4,
    "unport": 2.5,
    "shrink": 3,
    "free": 4,
    "several": 4.5,
    "add-node": 5,
}


def nearest(framework: Framework, pod: PodInfo) -> NearMiss | None:
    """The near miss of a pod that no node takes; None where some node does.

    Args:
        framework: the pod's profile over the world as it is now.
        pod: not on a node.
    """
    state = CycleState()
    pre = framework.pre_filter(state, pod)
    if pre.status is not None:
        return NearMiss(None, beforehand(framework, pod, pre.status.message))
    found: list[Candidate] = []
    for node in framework.world.nodes:
        if pre.names is not None and node.name not in pre.names:
            continue
        said = refusals(framework, state, pod, node)
        if not said:
            return None
        found.append(_candidate(Found(pod, node, state, tuple(said))))
    if not found:
        return NearMiss(None, "none of the nodes that the pod names exists")
    found.sort(key=lambda item: (item.distance, item.node.name))
    changes = _Changes(framework, pod).of(found) or _add_node(framework, pod, found)
    nearest_node = changes[0].node if changes else found[0].node.name
    best = next(item for item in found if item.node.name == nearest_node)
    holders = holders_of(best)
    everywhere = len(found) == len(framework.world.nodes)
    return NearMiss(
        best.node.name, (nowhere(pod, found) if everywhere else "") or words(framework, best, holders), holders, changes
    )


def _candidate(asked: Found) -> Candidate:
    """How far the node is away. What is too small for the pod even when empty is far; among those, what is larger is nearer."""
    pod, node = asked.pod, asked.node
    distance = 0.0
    short: dict[str, int | None] = {}
    for plugin, status in asked.refusals:
        if plugin.name == "NodeResourcesFit":
            short = shortage(asked, status)
            for name, missing in short.items():
                wanted, has = pod.sums.plain.get(name, 0), node.allocatable.get(name, 0)
                if name == "pods":
                    distance += 1.0
                elif missing is None:
                    distance += _NEVER + (wanted - has) / wanted + (_NEVER if has == 0 and is_extended(name) else 0.0)
                else:
                    distance += missing / wanted
        elif isinstance(plugin, DynamicResources):
            distance += _devices_away(plugin, asked)
        elif plugin.name in ("NodeUnschedulable", "TaintToleration") and _in_trouble(node):
            distance += _NEVER
        else:
            distance += _WEIGHT.get(plugin.name, _NEVER)
    return Candidate(asked, short, distance)


def _devices_away(plugin: DynamicResources, asked: Found) -> float:
    lacks = plugin.lacking(asked.state, asked.node)
    if not lacks:
        return _NEVER
    far = 0.0
    for lack in lacks:
        far += lack.missing / lack.wanted
        if lack.hopeless:
            far += _NEVER + (_NEVER if not lack.fitting else 0.0)
    return far or _WEIGHT["NodeAffinity"]


def _in_trouble(node: NodeInfo) -> bool:
    """Not ready, under pressure ...: nothing that a pod should tolerate."""
    return any(taint.key.startswith(CONDITION_PREFIX) and taint.key != CORDON_KEY for taint in node.node.taints)


class _Changes:
    """Looks for changes that let the pod onto the nearest nodes."""

    def __init__(self, framework: Framework, pod: PodInfo) -> None:
        self._framework = framework
        self._pod = pod
        self._trials = 0

    def of(self, found: Sequence[Candidate]) -> tuple[Change, ...]:
        """The smallest change of each kind, smallest first."""
        changes: list[Change] = []
        for number, item in enumerate(found[:_MOST_NODES]):
            if number >= _LEAST_NODES and changes:
                break
            for steps in self._on(item.node, item.asked, ()):
                changes.append(_change(item.node.name, steps))
                if sum(change.node == item.node.name for change in changes) == _MOST_CHANGES:
                    break
        changes.sort(key=lambda change: (_ORDER[change.kind], len(change.disturbs)))
        kinds: dict[str, Change] = {}
        for change in changes:
            kinds.setdefault(change.kind, change)
        return tuple(kinds.values())

    def _on(self, node: NodeInfo, before: Found, steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
        """Chains of steps, each against the first refusal that is left, after which the node takes the pod."""
        if len(steps) == _MOST_STEPS or not before.refusals:
            return
        kinds: set[str] = set()
        for step in _proposed(self._framework, before):
            if step.kind in kinds or self._trials >= _MOST_TRIALS:
                continue
            self._trials += 1
            with asked(self._framework, self._pod, node, (*steps, step)) as now:
                solved = not _still(before.refusals[0], now)
                if now.fits:
                    kinds.add(step.kind)
                    found: list[tuple[Step, ...]] = [(*steps, step)]
                elif solved and not now.outside:
                    kinds.add(step.kind)
                    found = list(self._on(node, now, (*steps, step)))
                else:
                    found = []
            yield from found


def _proposed(framework: Framework, before: Found) -> Iterator[Step]:
    """Steps against the first refusal, made while the world is as the refusal saw it."""
    return iter(list(cures(framework, before, before.refusals[0])))


def _still(refusal: Refusal, now: Found) -> bool:
    return bool(now.outside) or any(plugin.name == refusal[0].name for plugin, _ in now.refusals)


def _change(node: str, steps: tuple[Step, ...]) -> Change:
    disturbs = tuple(dict.fromkeys(other.key for step in steps for other in step.gone))
    patch: dict[str, Any] = {}
    for step in steps:
        patch = _merged(patch, step.patch)
    text = " and ".join(step.text for step in steps)
    if all(step.kind not in ("uncordon", "free") for step in steps) or len(steps) > 1:
        text += f", then {node} takes it"
    kind: ChangeKind = steps[0].kind if len(steps) == 1 else "several"
    uncordon = any(step.kind == "uncordon" for step in steps)
    return Change(kind, text, node, disturbs, {"spec": patch} if patch else None, uncordon)


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Two merge patches as one."""
    made = dict(one)
    for key, value in other.items():
        both = made.get(key)
        made[key] = _merged(both, value) if isinstance(both, Mapping) and isinstance(value, Mapping) else value
    return made


def _add_node(framework: Framework, pod: PodInfo, found: Sequence[Candidate]) -> tuple[Change, ...]:
    """A node like one of these, empty, where that would take the pod; else one in the zone of the pod's volume."""
    for item in found:
        if any(missing is None for missing in item.short.values()):
            continue
        if ask(framework, pod, NodeInfo(item.node.node)).fits:
            name = item.node.name
            text = f"add a node like {name} (ragstow simulate ... --add-nodes {name}=1)"
            return (Change("add-node", text, name),)
    for item in found:
        for zone in volume_zones(framework, pod):
            if ask(framework, pod, NodeInfo(_moved(item.node.node, zone))).fits:
                return (Change("add-node", f"add a node like {item.node.name} in zone {zone}", item.node.name),)
    return ()


def _moved(node: Node, zone: str) -> Node:
    meta = dict(node.raw.get("metadata") or {})
    made = make(RawObject({**node.raw, "metadata": {**meta, "labels": {**node.labels, _ZONE: zone}}}), any_shape=True)
    assert isinstance(made, Node)
    return made
