"""For a pod that fits nowhere: the node that comes nearest, what it lacks, who holds it, and the smallest change that helps.

Every filter is asked about every node, also after the first refusal, so that a node that lacks one thing is told from one that
lacks three. A change is only named after the filters passed with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from ragstow.cluster.build import RawObject, make
from ragstow.cluster.objects import Pod
from ragstow.scheduling.amounts import is_extended
from ragstow.scheduling.framework import CycleState, FilterPlugin, Status
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.plugins.node_resources_fit import TOO_MANY_PODS, shown
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.runtime import Framework
from ragstow.scheduling.taints import first_untolerated
from ragstow.simulate.model import Change, NearMiss

_MOST_REMOVED = 3
_SHOWN_HOLDERS = 5
# How far a node is from taking the pod: what a change of the pod cures is nearer than what only another node cures.
_WEIGHT: Mapping[str, float] = {
    "NodeUnschedulable": 1.0,
    "TaintToleration": 1.0,
    "NodePorts": 1.5,
    "NodeAffinity": 2.0,
    "PodTopologySpread": 2.0,
    "InterPodAffinity": 2.0,
    "DynamicResources": 2.0,
}
_NEVER = 4.0


@dataclass(slots=True)
class _Candidate:
    node: NodeInfo
    refusals: list[tuple[FilterPlugin, Status]]
    short: dict[str, int]
    """Resource -> what is missing of it, where the node could serve the request when empty."""
    too_small: tuple[str, ...]
    distance: float


def nearest(framework: Framework, pod: PodInfo) -> NearMiss | None:
    """The near miss of a pod that no node takes; None where some node does.

    Args:
        framework: the pod's profile over the world as it is now.
        pod: not on a node.
    """
    state = CycleState()
    pre = framework.pre_filter(state, pod)
    if pre.status is not None:
        return NearMiss(None, f"no node is looked at: {pre.status.message}")
    found: list[_Candidate] = []
    for node in framework.world.nodes:
        if pre.names is not None and node.name not in pre.names:
            continue
        refusals = _refusals(framework, state, pod, node)
        if not refusals:
            return None
        found.append(_candidate(pod, node, refusals))
    if not found:
        return NearMiss(None, "none of the nodes that the pod names exists")
    found.sort(key=lambda item: (item.distance, item.node.name))
    best = found[0]
    changes = [change for item in found[:_MOST_REMOVED] for change in _changes(framework, state, pod, item)]
    changes.sort(key=lambda change: (_ORDER[change.kind], len(change.disturbs), change.node))
    if not changes:
        changes = _add_node(framework, pod, found)
    kinds: dict[str, Change] = {}
    for change in changes:
        kinds.setdefault(change.kind, change)
    holders = _holders(pod, best)
    words = _nowhere(pod, found) or _words(state, pod, best, holders)
    return NearMiss(best.node.name, words, holders, tuple(kinds.values()))


_ORDER = {"uncordon": 0, "tolerate": 1, "unselect": 2, "shrink": 3, "free": 4, "add-node": 5}


def _refusals(framework: Framework, state: CycleState, pod: PodInfo, node: NodeInfo) -> list[tuple[FilterPlugin, Status]]:
    found = []
    for plugin in framework.filter_plugins:
        if plugin.name in state.skip_filter:
            continue
        status = plugin.filter(state, pod, node)
        if status is not None:
            found.append((plugin, status))
    return found


def _candidate(pod: PodInfo, node: NodeInfo, refusals: list[tuple[FilterPlugin, Status]]) -> _Candidate:
    short: dict[str, int] = {}
    too_small: list[str] = []
    distance = 0.0
    for plugin, status in refusals:
        if plugin.name != "NodeResourcesFit":
            distance += _WEIGHT.get(plugin.name, _NEVER)
            continue
        for text in status.texts:
            if text == TOO_MANY_PODS:
                short["pods"] = 1
                distance += 1.0
                continue
            name = text.removeprefix("Insufficient ")
            asked, has = pod.sums.plain.get(name, 0), node.allocatable.get(name, 0)
            if asked > has:
                too_small.append(name)
                distance += _NEVER + (asked - has) / asked + (_NEVER if has == 0 and is_extended(name) else 0.0)
            else:
                short[name] = asked - node.free(name)
                distance += short[name] / asked
    return _Candidate(node, refusals, short, tuple(too_small), distance)


def _holders(pod: PodInfo, item: _Candidate) -> tuple[str, ...]:
    """Pods on the node that hold what is missing of the scarcest resource, largest first."""
    name = _scarcest(pod, item)
    if name is None:
        return ()
    holding = [(other.sums.plain.get(name, 0), other.key) for other in item.node.pods]
    return tuple(key for amount, key in sorted(holding, key=lambda one: (-one[0], one[1])) if amount > 0)


def _nowhere(pod: PodInfo, found: Sequence[_Candidate]) -> str:
    """A resource that no node offers at all is the whole story: a typo, a plugin that does not run, a layout never applied."""
    for name in pod.sums.plain:
        if is_extended(name) and all(name in item.too_small and not item.node.allocatable.get(name) for item in found):
            offered = sorted({other for item in found for other in item.node.allocatable if is_extended(other)})
            domain = name.partition("/")[0]
            alike = [other for other in offered if other.startswith(f"{domain}/")] or offered
            return f"no node offers {name}; offered: {', '.join(alike) or 'none of its kind'}"
    return ""


def _scarcest(pod: PodInfo, item: _Candidate) -> str | None:
    names = [name for name in item.short if name != "pods"]
    return min(names, key=lambda name: (not is_extended(name), -item.short[name] / pod.sums.plain[name], name), default=None)


def _words(state: CycleState, pod: PodInfo, item: _Candidate, holders: tuple[str, ...]) -> str:
    node = item.node.name
    said: list[str] = []
    for name, missing in item.short.items():
        if name == "pods":
            said.append(f"{node} runs {len(item.node.pods)} pods already, its limit is {item.node.max_pods}")
        else:
            said.append(
                f"{node} lacks {shown(name, missing)} of {name}" if not is_extended(name) else f"{node} lacks {missing} {name}"
            )
    for plugin, status in item.refusals:
        if plugin.name != "NodeResourcesFit":
            said.extend(reason.text for reason in plugin.explain(state, pod, item.node, status))
        elif item.too_small:
            said.extend(
                reason.text for reason in plugin.explain(state, pod, item.node, status) if reason.code != "resource-short"
            )
    if holders:
        scarce = _scarcest(pod, item)
        more = f" and {len(holders) - _SHOWN_HOLDERS} more" if len(holders) > _SHOWN_HOLDERS else ""
        said.append(f"{', '.join(holders[:_SHOWN_HOLDERS])}{more} hold{'s' if len(holders) == 1 else ''} {scarce}")
    return "; ".join(dict.fromkeys(said))


# --- changes ------------------------------------------------------------------------------------------------------------


def _changes(framework: Framework, state: CycleState, pod: PodInfo, item: _Candidate) -> Iterable[Change]:
    names = {plugin.name for plugin, _ in item.refusals}
    if names == {"NodeUnschedulable"}:
        yield Change("uncordon", f"uncordon {item.node.name}: kubectl uncordon {item.node.name}", item.node.name)
    elif names == {"TaintToleration"}:
        yield from _tolerate(framework, pod, item.node)
    elif names == {"NodeAffinity"}:
        yield from _unselect(framework, pod, item.node)
    elif names == {"NodeResourcesFit"} and not item.too_small:
        yield from _free(framework, state, pod, item)
        yield from _shrink(framework, pod, item)


def _passes(framework: Framework, pod: PodInfo, node: NodeInfo) -> bool:
    """Whether the filters take this (changed) pod on this (changed) node."""
    state = CycleState()
    pre = framework.pre_filter(state, pod)
    if pre.status is not None or (pre.names is not None and node.name not in pre.names):
        return False
    return framework.filter(state, pod, node) is None


def _changed(pod: PodInfo, spec: Mapping[str, Any]) -> PodInfo:
    """The same pod with parts of its spec replaced."""
    raw = {**pod.pod.raw, "spec": {**pod.pod.spec, **spec}}
    made = make(RawObject(raw))
    assert isinstance(made, Pod)
    return PodInfo(replace(made, namespace=pod.namespace), pod.release)


def _tolerate(framework: Framework, pod: PodInfo, node: NodeInfo) -> Iterable[Change]:
    added: list[dict[str, Any]] = []
    trial = pod
    while (taint := first_untolerated(node.node.taints, trial.pod.tolerations)) is not None:
        toleration = {"key": taint.key, "operator": "Exists", "effect": taint.effect}
        if toleration in added:
            return
        added.append(toleration)
        trial = _changed(pod, {"tolerations": [*(pod.pod.spec.get("tolerations") or ()), *added]})
    if added and _passes(framework, trial, node):
        keys = ", ".join(f"{one['key']}:{one['effect']}" for one in added)
        tolerations = [*(pod.pod.spec.get("tolerations") or ()), *added]
        yield Change(
            "tolerate", f"tolerate {keys}, then {node.name} takes it", node.name, (), {"spec": {"tolerations": tolerations}}
        )


def _unselect(framework: Framework, pod: PodInfo, node: NodeInfo) -> Iterable[Change]:
    selector = dict(pod.pod.spec.get("nodeSelector") or {})
    wrong = {key: value for key, value in selector.items() if node.labels.get(key) != value}
    if not wrong:
        return
    kept = {key: value for key, value in selector.items() if key not in wrong}
    if _passes(framework, _changed(pod, {"nodeSelector": kept or None}), node):
        asked = ", ".join(f"{key}={value}" for key, value in sorted(wrong.items()))
        patch = {"spec": {"nodeSelector": dict.fromkeys(wrong)}}
        yield Change("unselect", f"take {asked} out of nodeSelector, then {node.name} takes it", node.name, (), patch)


def _free(framework: Framework, state: CycleState, pod: PodInfo, item: _Candidate) -> Iterable[Change]:
    """The fewest pods whose going makes room, those of lowest priority first; DaemonSet and static pods stay."""
    movable = [
        other
        for other in item.node.pods
        if any(other.sums.plain.get(name, 0) for name in item.short if name != "pods") or "pods" in item.short
        if not _fixed(other)
    ]
    own = _family(framework, pod)
    movable.sort(key=lambda other: (_family(framework, other) != own, other.priority, other.key))
    for size in range(1, _MOST_REMOVED + 1):
        for group in combinations(movable[:12], size):
            if any(
                sum(other.sums.plain.get(name, 0) for other in group) < missing
                for name, missing in item.short.items()
                if name != "pods"
            ):
                continue
            trial_state, node = state.clone(), item.node.clone()
            for other in group:
                node.remove(other)
                framework.remove_pod(trial_state, pod, other, node)
            if framework.filter(trial_state, pod, node) is None:
                keys = tuple(other.key for other in group)
                text = f"move or stop {', '.join(keys)} on {node.name}"
                if own and all(_family(framework, other) == own for other in group):
                    text = (
                        f"{', '.join(keys)} of the same {own} hold{'s' if len(keys) == 1 else ''} it: let old pods go first "
                        "(strategy.rollingUpdate maxSurge: 0, maxUnavailable: 1)"
                    )
                yield Change("free", text, node.name, keys)
                return


def _family(framework: Framework, pod: PodInfo) -> str:
    """The Deployment above a pod, through whatever revision; "" where there is none."""
    owner = pod.pod.controller
    if owner is None or owner.kind != "ReplicaSet":
        return ""
    above = framework.world.get("ReplicaSet", owner.name, pod.namespace, "apps")
    top = above.controller if above is not None else None
    if top is not None and top.kind == "Deployment":
        return f"Deployment {pod.namespace}/{top.name}"
    # A ReplicaSet that was not saved: its name is the Deployment's and the hash of the template.
    hashed = pod.labels.get("pod-template-hash")
    if hashed and owner.name.endswith(f"-{hashed}"):
        return f"Deployment {pod.namespace}/{owner.name.removesuffix(f'-{hashed}')}"
    return ""


def _fixed(pod: PodInfo) -> bool:
    owner = pod.pod.controller
    return (owner is not None and owner.kind in ("DaemonSet", "Node")) or "kubernetes.io/config.mirror" in pod.pod.annotations


def _shrink(framework: Framework, pod: PodInfo, item: _Candidate) -> Iterable[Change]:
    """Ask for less CPU or memory, where one container asks for all of it and half of that or more is there."""
    spec = pod.pod.spec
    containers: list[dict[str, Any]] = list(spec.get("containers") or ())
    if not item.short or any(name not in ("cpu", "memory") for name in item.short) or len(containers) != 1:
        return
    asked = ((containers[0].get("resources") or {}).get("requests")) or {}
    amounts: dict[str, str] = {}
    for name in item.short:
        free = item.node.free(name)
        if name not in asked or free * 2 < pod.sums.plain[name]:
            return
        amounts[name] = f"{free}m" if name == "cpu" else f"{free >> 20}Mi"
    resources = {**(containers[0].get("resources") or {}), "requests": {**asked, **amounts}}
    trial = _changed(pod, {"containers": [{**containers[0], "resources": resources}]})
    if _passes(framework, trial, item.node):
        said = ", ".join(f"at most {shown(name, item.node.free(name))} of {name}" for name in item.short)
        patch = {"spec": {"containers": [{"name": containers[0].get("name"), "resources": {"requests": amounts}}]}}
        yield Change("shrink", f"ask for {said}, then {item.node.name} takes it", item.node.name, (), patch)


def _add_node(framework: Framework, pod: PodInfo, found: list[_Candidate]) -> list[Change]:
    """A node like one of these, empty, where that would take the pod."""
    for item in found:
        if item.too_small:
            continue
        empty = NodeInfo(item.node.node)
        if _passes(framework, pod, empty):
            text = f"add a node like {item.node.name} (ragstow simulate ... --add-nodes {item.node.name}=1)"
            return [Change("add-node", text, item.node.name)]
    return []
