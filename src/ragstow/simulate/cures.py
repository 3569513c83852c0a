"""What might cure one plugin's refusal on one node: steps, cheapest first. Whether a step really helps, `trial` finds out.

A step that disturbs others comes after one that changes the pod; nothing is proposed against a node's own trouble (not ready,
under pressure): a toleration would only put the pod onto a broken node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from ragstow.scheduling.amounts import is_extended
from ragstow.scheduling.framework import Status
from ragstow.scheduling.plugins.dynamic_resources import DynamicResources
from ragstow.scheduling.plugins.inter_pod_affinity import AFFINITY, ANTI_AFFINITY
from ragstow.scheduling.plugins.node_ports import node_uses
from ragstow.scheduling.plugins.node_resources_fit import TOO_MANY_PODS, shown
from ragstow.scheduling.podinfo import AffinityTerm, PodInfo
from ragstow.scheduling.runtime import Framework
from ragstow.scheduling.selectors import Requirement
from ragstow.scheduling.taints import CONDITION_PREFIX, first_untolerated
from ragstow.scheduling.volumes.model import claims_of
from ragstow.simulate.trial import Found, Refusal, Step

_MOST_REMOVED = 3
_MOST_LOOKED_AT = 12
_MOST_GROUPS = 6
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def cures(framework: Framework, asked: Found, refusal: Refusal) -> Iterator[Step]:
    """Steps against one refusal."""
    plugin, status = refusal
    pod, node = asked.pod, asked.node
    match plugin.name:
        case "NodeUnschedulable":
            yield Step("uncordon", f"uncordon {node.name}: kubectl uncordon {node.name}")
        case "TaintToleration":
            yield from _tolerate(asked)
        case "NodeAffinity":
            yield from _unselect(asked)
            yield from _other_nodes(asked)
        case "NodePorts":
            yield from _free(framework, asked, _port_holders(asked), "the port")
            yield from _unport(pod)
        case "PodTopologySpread":
            yield from _spread(asked)
        case "InterPodAffinity":
            yield from _apart_or_near(framework, asked, status)
        case "NodeResourcesFit":
            yield from _resources(framework, asked, status)
        case "DynamicResources" if isinstance(plugin, DynamicResources):
            yield from _devices(framework, asked, plugin)
        case "NodeVolumeLimits" | "VolumeRestrictions":
            yield from _free(framework, asked, _volume_users(framework, asked, plugin.name), "the volume")


# --- the pod's own wishes -------------------------------------------------------------------------------------------------


def _tolerate(asked: Found) -> Iterator[Step]:
    before = list(asked.pod.pod.spec.get("tolerations") or ())
    added: list[dict[str, Any]] = []
    known = asked.pod.pod.tolerations
    for taint in asked.node.node.taints:
        if first_untolerated([taint], known) is None:
            continue
        if taint.key.startswith(CONDITION_PREFIX):
            return
        toleration = {"key": taint.key, "operator": "Exists", "effect": taint.effect}
        if toleration not in added:
            added.append(toleration)
    if added:
        keys = ", ".join(f"{one['key']}:{one['effect']}" for one in added)
        spec = {"tolerations": [*before, *added]}
        yield Step("tolerate", f"tolerate {keys}", spec, spec)


def _unselect(asked: Found) -> Iterator[Step]:
    selector = dict(asked.pod.pod.spec.get("nodeSelector") or {})
    wrong = {key: value for key, value in selector.items() if asked.node.labels.get(key) != value}
    if wrong:
        kept = {key: value for key, value in selector.items() if key not in wrong}
        said = ", ".join(f"{key}={value}" for key, value in sorted(wrong.items()))
        patch = {"nodeSelector": dict.fromkeys(wrong)}
        yield Step("unselect", f"take {said} out of nodeSelector", {"nodeSelector": kept or None}, patch)


def _other_nodes(asked: Found) -> Iterator[Step]:
    """The required node affinity made wider: of its alternatives the one that differs least from the node."""
    selector, raw = asked.pod.required_nodes, asked.pod.required_terms_raw
    if selector is None or raw is None or selector.matches(asked.node.node):
        return
    best: tuple[int, int, list[str], dict[str, Any]] | None = None
    for index, term in enumerate(raw):
        said: list[str] = []
        kept: list[Any] = []
        for item in term.get("matchExpressions") or ():
            made, text = _wider(item, asked)
            said += [text] if text else []
            kept += [made] if made is not None else []
        fields = [item for item in term.get("matchFields") or () if _field_met(item, asked.node.name)]
        said += ["not only the nodes that it names"] * (len(fields) < len(term.get("matchFields") or ()))
        wider = {**({"matchExpressions": kept} if kept else {}), **({"matchFields": fields} if fields else {})}
        if said and (best is None or len(said) < best[0]):
            best = (len(said), index, said, wider)
    if best is None:
        return
    _, index, said, wider = best
    terms = [wider if number == index else term for number, term in enumerate(raw)]
    affinity = dict(asked.pod.affinity)
    node_affinity: dict[str, Any] = dict(affinity.get("nodeAffinity") or {})
    required = {"nodeSelectorTerms": terms} if wider else None
    patch = {"affinity": {"nodeAffinity": {_REQUIRED: required}}}
    node_affinity[_REQUIRED] = required
    if required is None:
        del node_affinity[_REQUIRED]
    text = f"in the required node affinity {' and '.join(said)}"
    yield Step("affinity", text, {"affinity": {**affinity, "nodeAffinity": node_affinity}}, patch)


def _wider(item: Mapping[str, Any], asked: Found) -> tuple[Mapping[str, Any] | None, str]:
    """An expression that the node meets, and what was done to it; None: it is taken out."""
    key, operator = str(item.get("key") or ""), str(item.get("operator") or "")
    values = [str(value) for value in item.get("values") or ()]
    here = asked.node.labels.get(key)
    if Requirement(key, operator, tuple(sorted(values))).matches(asked.node.labels):
        return item, ""
    if operator == "In" and here is not None:
        return {**item, "values": [*values, here]}, f"also allow {key}={here}"
    if operator == "NotIn" and len(values) > 1:
        return {**item, "values": [value for value in values if value != here]}, f"allow {key}={here}"
    said = f"{key} {operator} {', '.join(values)}".rstrip()
    return None, f"take out {said}"


def _field_met(item: Mapping[str, Any], name: str) -> bool:
    return (name in [str(value) for value in item.get("values") or ()]) == (item.get("operator") == "In")


def _unport(pod: PodInfo) -> Iterator[Step]:
    """Without host ports, where the pod has a network of its own."""
    spec = pod.pod.spec
    if spec.get("hostNetwork") is True or any(
        port.get("hostPort") for item in spec.get("initContainers") or () for port in item.get("ports") or ()
    ):
        return
    containers = []
    numbers: dict[str, None] = {}
    patch = []
    for item in spec.get("containers") or ():
        ports = [dict(port) for port in item.get("ports") or ()]
        for port in ports:
            if port.pop("hostPort", None):
                port.pop("hostIP", None)
                numbers[str(port.get("containerPort"))] = None
        containers.append({**item, "ports": ports} if ports else item)
        gone = [{"containerPort": port.get("containerPort"), "hostPort": None} for port in item.get("ports") or ()]
        if gone:
            patch.append({"name": item.get("name"), "ports": gone})
    if numbers:
        text = f"drop hostPort of port {', '.join(numbers)} (a Service reaches the pod without it)"
        yield Step("unport", text, {"containers": containers}, {"containers": patch})


def _spread(asked: Found) -> Iterator[Step]:
    constraints = [dict(item) for item in asked.pod.pod.spec.get("topologySpreadConstraints") or ()]
    hard = [item for item in constraints if item.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"]
    if not hard:
        return
    for item in hard:
        item["whenUnsatisfiable"] = "ScheduleAnyway"
        item.pop("minDomains", None)
    keys = ", ".join(dict.fromkeys(str(item.get("topologyKey")) for item in hard))
    patch = [
        {"topologyKey": item.get("topologyKey"), "whenUnsatisfiable": "ScheduleAnyway", "minDomains": None} for item in hard
    ]
    text = f"spread over {keys} only as a wish (whenUnsatisfiable: ScheduleAnyway)"
    yield Step("spread", text, {"topologySpreadConstraints": constraints}, {"topologySpreadConstraints": patch})


def _apart_or_near(framework: Framework, asked: Found, status: Status) -> Iterator[Step]:
    pod, node = asked.pod, asked.node
    if status.texts == AFFINITY.texts:
        yield from _without_terms(pod, "podAffinity", "near", "stay near other pods")
        return
    if status.texts == ANTI_AFFINITY.texts:
        holders = [other for term in pod.required_anti_affinity for other in _in_domain(framework, term, node.labels)]
        yield from _free(framework, asked, holders, "its domain")
        yield from _without_terms(pod, "podAntiAffinity", "apart", "stay away from other pods")
        return
    labels = framework.world.namespaces.get(pod.namespace, {})
    against = [
        other
        for other, at in framework.world.placed
        for term in other.required_anti_affinity
        if term.matches(pod, labels)
        and term.topology_key in node.labels
        and at.labels.get(term.topology_key) == node.labels[term.topology_key]
    ]
    yield from _free(framework, asked, against, "its domain")


def _in_domain(framework: Framework, term: AffinityTerm, labels: Mapping[str, str]) -> Iterable[PodInfo]:
    """Pods that a term speaks of, in the node's domain."""
    key = term.topology_key
    for other, at in framework.world.placed:
        same = key in labels and at.labels.get(key) == labels[key]
        if same and term.matches(other, framework.world.namespaces.get(other.namespace)):
            yield other


def _without_terms(pod: PodInfo, side: str, kind: Any, what: str) -> Iterator[Step]:
    affinity = dict(pod.affinity)
    own: dict[str, Any] = dict(affinity.get(side) or {})
    terms = own.pop(_REQUIRED, None)
    if not terms:
        return
    keys = ", ".join(dict.fromkeys(str(term.get("topologyKey")) for term in terms))
    preferred = [*(own.get("preferredDuringSchedulingIgnoredDuringExecution") or ())]
    preferred += [{"weight": 100, "podAffinityTerm": term} for term in terms]
    own["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    patch = {"affinity": {side: {**own, _REQUIRED: None}}}
    text = f"make {side} over {keys} a preference: {what} only where that is possible"
    yield Step(kind, text, {"affinity": {**affinity, side: own}}, patch)


# --- what others hold -----------------------------------------------------------------------------------------------------


def _free(framework: Framework, asked: Found, holders: Iterable[PodInfo], what: str) -> Iterator[Step]:
    """All of them go: only where they are few and may move."""
    listed = list({other.key: other for other in holders}.values())
    if any(sibling(asked.pod, other) for other in listed):
        return
    if listed and len(listed) <= _MOST_REMOVED and not any(fixed(other) for other in listed):
        yield _go(framework, asked, tuple(listed), what)


def _go(framework: Framework, asked: Found, group: tuple[PodInfo, ...], what: str) -> Step:
    keys = ", ".join(other.key for other in group)
    own = family(framework, asked.pod)
    if own and all(family(framework, other) == own for other in group):
        text = (
            f"{keys} of the same {own} hold{'s' if len(group) == 1 else ''} {what}: let old pods go first "
            "(strategy.rollingUpdate maxSurge: 0, maxUnavailable: 1)"
        )
    else:
        places = list(dict.fromkeys(at[1].name for other in group if (at := framework.world.located(other.key)) is not None))
        text = f"move or stop {keys} on {', '.join(places) or asked.node.name}"
    return Step("free", text, gone=group)


def _resources(framework: Framework, asked: Found, status: Status) -> Iterator[Step]:
    short = shortage(asked, status)
    if any(missing is None for missing in short.values()):
        yield from _shrink(asked, short)
        return
    yield from _make_room(framework, asked, {name: missing or 0 for name, missing in short.items()})
    yield from _shrink(asked, short)


def shortage(asked: Found, status: Status) -> dict[str, int | None]:
    """Resource (or "pods") -> what is missing of it; None where the whole node has less than the pod asks for."""
    found: dict[str, int | None] = {}
    for text in status.texts:
        if text == TOO_MANY_PODS:
            found["pods"] = 1
            continue
        name = text.removeprefix("Insufficient ")
        wanted = asked.pod.sums.plain.get(name, 0)
        found[name] = None if wanted > asked.node.allocatable.get(name, 0) else wanted - asked.node.free(name)
    return found


def _make_room(framework: Framework, asked: Found, short: Mapping[str, int]) -> Iterator[Step]:
    """The fewest pods whose going makes room, those of lowest priority first; DaemonSet and static pods stay."""
    amounts = {name: missing for name, missing in short.items() if name != "pods"}
    movable = [
        other
        for other in asked.node.pods
        if "pods" in short or any(other.sums.plain.get(name, 0) for name in amounts)
        if not fixed(other) and not sibling(asked.pod, other)
    ]
    own = family(framework, asked.pod)
    movable.sort(key=lambda other: (not own or family(framework, other) != own, other.priority, other.key))
    proposed = 0
    for size in range(1, _MOST_REMOVED + 1):
        for group in combinations(movable[:_MOST_LOOKED_AT], size):
            if all(sum(other.sums.plain.get(name, 0) for other in group) >= missing for name, missing in amounts.items()):
                yield _go(framework, asked, group, "it")
                proposed += 1
                if proposed == _MOST_GROUPS:
                    return


def _shrink(asked: Found, short: Mapping[str, int | None]) -> Iterator[Step]:
    """Ask for less CPU or memory, where one container asks for all of it and half of that or more is there."""
    containers: list[dict[str, Any]] = list(asked.pod.pod.spec.get("containers") or ())
    if not short or any(name not in ("cpu", "memory") for name in short) or len(containers) != 1:
        return
    own: Mapping[str, Any] = containers[0].get("resources") or {}
    requests, limits = own.get("requests") or {}, own.get("limits") or {}
    amounts: dict[str, str] = {}
    for name in short:
        free = asked.node.free(name)
        if name not in requests or free * 2 < asked.pod.sums.plain[name]:
            return
        amounts[name] = f"{free}m" if name == "cpu" else f"{free >> 20}Mi"
    less = {name: amount for name, amount in amounts.items() if limits.get(name) == requests.get(name)}
    resources = {**own, "requests": {**requests, **amounts}, **({"limits": {**limits, **less}} if less else {})}
    said = ", ".join(f"at most {shown(name, asked.node.free(name))} of {name}" for name in short)
    patched = {"requests": amounts, **({"limits": less} if less else {})}
    patch = {"containers": [{"name": containers[0].get("name"), "resources": patched}]}
    yield Step("shrink", f"ask for {said}", {"containers": [{**containers[0], "resources": resources}]}, patch)


def _devices(framework: Framework, asked: Found, plugin: DynamicResources) -> Iterator[Step]:
    """The users of the fewest claims whose devices are enough; of equal ones those of lowest priority."""
    lacks = [lack for lack in plugin.lacking(asked.state, asked.node) if lack.missing]
    if not lacks or any(lack.hopeless for lack in lacks):
        return
    groups: list[tuple[tuple[PodInfo, ...], int]] = []
    for holder in lacks[0].holders:
        located = [framework.world.located(key) for key in holder.users]
        users = tuple(found[0] for found in located if found is not None)
        stays = any(fixed(other) or sibling(asked.pod, other) for other in users)
        if users and len(users) == len(holder.users) <= _MOST_REMOVED and not stays:
            groups.append((users, len(holder.devices)))
    groups.sort(key=lambda item: (len(item[0]), max(other.priority for other in item[0]), item[0][0].key))
    proposed = 0
    for size in range(1, _MOST_REMOVED + 1):
        for chosen in combinations(groups[:_MOST_LOOKED_AT], size):
            gone = tuple({other.key: other for users, _ in chosen for other in users}.values())
            if len(gone) <= _MOST_REMOVED:
                yield _go(framework, asked, gone, "the devices")
                proposed += 1
                if proposed == _MOST_GROUPS:
                    return


def _port_holders(asked: Found) -> list[PodInfo]:
    return [other for other in asked.node.pods if any(node_uses(other, port) for port in asked.pod.host_ports)]


def _volume_users(framework: Framework, asked: Found, plugin: str) -> list[PodInfo]:
    """Pods that use the same claims anywhere; for a limit of the node the first of its pods that has a claim."""
    names = {item.claim for item in claims_of(asked.pod.pod)}
    if plugin == "VolumeRestrictions":
        return [
            other
            for other, _ in framework.world.placed
            if other.namespace == asked.pod.namespace and names & {item.claim for item in claims_of(other.pod)}
        ]
    users = [other for other in asked.node.pods if any(claims_of(other.pod)) and not fixed(other)]
    return sorted(users, key=lambda other: (sibling(asked.pod, other), other.priority, other.key))[:1]


def family(framework: Framework, pod: PodInfo) -> str:
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


def sibling(pod: PodInfo, other: PodInfo) -> bool:
    """Whether one controller (one revision of a Deployment, a StatefulSet) made both: where one goes, it makes another."""
    mine, its = pod.pod.controller, other.pod.controller
    if mine is None or its is None or pod.namespace != other.namespace:
        return False
    return (mine.kind, mine.name) == (its.kind, its.name)


def fixed(pod: PodInfo) -> bool:
    """A pod that belongs to its node: of a DaemonSet, or static."""
    owner = pod.pod.controller
    return (owner is not None and owner.kind in ("DaemonSet", "Node")) or "kubernetes.io/config.mirror" in pod.pod.annotations


def scarcest(pod: PodInfo, short: Mapping[str, int | None]) -> str | None:
    """The resource that is asked about first: devices before CPU and memory, then what lacks most."""
    names = [name for name, missing in short.items() if name != "pods" and missing is not None]
    return min(names, key=lambda name: (not is_extended(name), -(short[name] or 0) / pod.sums.plain[name], name), default=None)


def held_by(asked: Found, name: str) -> Sequence[PodInfo]:
    """Pods on the node that hold a resource, largest first."""
    holding = [(other.sums.plain.get(name, 0), other.key, other) for other in asked.node.pods]
    return [other for amount, _, other in sorted(holding, key=lambda one: (-one[0], one[1])) if amount > 0]
