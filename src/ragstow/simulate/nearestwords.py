"""A near miss in words: what the node lacks, who holds it, and where nothing of the kind exists anywhere, that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragstow.scheduling.amounts import is_extended
from ragstow.scheduling.dra.cluster import DraCluster
from ragstow.scheduling.dra.lacking import Lack
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.plugins.dynamic_resources import DynamicResources
from ragstow.scheduling.plugins.inter_pod_affinity import AFFINITY
from ragstow.scheduling.plugins.node_resources_fit import shown
from ragstow.scheduling.podinfo import AffinityTerm, PodInfo
from ragstow.scheduling.runtime import Framework
from ragstow.scheduling.selectors import Selector
from ragstow.scheduling.volumes.cluster import VolumeCluster
from ragstow.scheduling.volumes.model import claims_of
from ragstow.simulate.cures import held_by, scarcest
from ragstow.simulate.trial import Found

_SHOWN_HOLDERS = 5
_SHOWN_VALUES = 5
_ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")


@dataclass(slots=True)
class Candidate:
    """A node that refuses the pod: what the filters said, what is short of each resource (None: the node is too small), and how
    far it is from taking the pod."""

    asked: Found
    short: Mapping[str, int | None]
    distance: float

    @property
    def node(self) -> NodeInfo:
        """The node."""
        return self.asked.node


def holders_of(item: Candidate) -> tuple[str, ...]:
    """Pods that hold what is missing: of the scarcest resource, largest first; or the devices of the claims."""
    name = scarcest(item.asked.pod, item.short)
    if name is not None:
        return tuple(other.key for other in held_by(item.asked, name))
    users = (user for lack in _lacks(item) if lack.missing for holder in lack.holders for user in holder.users)
    return tuple(dict.fromkeys(users))


def words(framework: Framework, item: Candidate, holders: tuple[str, ...]) -> str:
    """What the node lacks, and who holds it."""
    pod, node, state = item.asked.pod, item.asked.node, item.asked.state
    said: list[str] = []
    for name, missing in item.short.items():
        if name == "pods":
            said.append(f"{node.name} runs {len(node.pods)} pods already, its limit is {node.max_pods}")
        elif missing is not None and is_extended(name):
            said.append(f"{node.name} lacks {missing} {name}")
        elif missing is not None:
            said.append(f"{node.name} lacks {shown(name, missing)} of {name}")
    for plugin, status in item.asked.refusals:
        if isinstance(plugin, DynamicResources):
            told = [text for lack in _lacks(item) for text in _lack(node.name, lack)]
            said += told or [reason.text for reason in plugin.explain(state, pod, node, status)]
        elif plugin.name == "InterPodAffinity" and status.texts == AFFINITY.texts:
            said += list(_nobody(framework, pod)) or [reason.text for reason in plugin.explain(state, pod, node, status)]
        elif plugin.name != "NodeResourcesFit":
            said += [reason.text for reason in plugin.explain(state, pod, node, status)]
        else:
            said += [
                reason.text for reason in plugin.explain(state, pod, node, status)
                if reason.code not in ("resource-short", "too-many-pods")
            ]  # fmt: skip
    scarce = scarcest(pod, item.short)
    if holders and scarce is not None:
        said.append(f"{_listed(holders)} hold{'s' if len(holders) == 1 else ''} {scarce}")
    return "; ".join(dict.fromkeys(said))


def nowhere(pod: PodInfo, found: Sequence[Candidate]) -> str:
    """What no node offers, or none in that size, is the whole story: a typo, a plugin that does not run, a layout never
    applied, a pod for another kind of machine."""
    for name, wanted in pod.sums.plain.items():
        if any(item.short.get(name, 0) is not None for item in found):
            continue
        largest = max(found, key=lambda item: item.node.allocatable.get(name, 0))
        most = largest.node.allocatable.get(name, 0)
        if most:
            return (
                f"no node is that large: {pod.key} asks for {shown(name, wanted)} {_of(name)}{name}, the largest, "
                f"{largest.node.name}, has {shown(name, most)} in all"
            )
        offered = sorted({other for item in found for other in item.node.allocatable if is_extended(other)})
        domain = name.partition("/")[0]
        alike = [other for other in offered if other.startswith(f"{domain}/")] or offered
        return f"no node offers {name}; offered: {', '.join(alike) or 'none of its kind'}"
    return ""


def beforehand(framework: Framework, pod: PodInfo, text: str) -> str:
    """Why no node was looked at, and what there is in place of what is missing."""
    said = f"no node is looked at: {text}"
    if "persistentvolumeclaim" in text and "not found" in text:
        claims = framework.world.objects("PersistentVolumeClaim")
        names = tuple(item.name for item in claims if item.namespace == pod.namespace)
        save = "" if claims else " (kubectl get pvc,pv,storageclass -A -o yaml saves them)"
        return f"{said}; claims in namespace {pod.namespace}: {_listed(names) or 'none'}{save}"
    if "device class" in text:
        classes = tuple(sorted(framework.world.view(DraCluster).classes))
        return f"{said}; device classes: {_listed(classes) or 'none'}"
    return said


def volume_zones(framework: Framework, pod: PodInfo) -> tuple[str, ...]:
    """The zones that the pod's bound volumes can be reached from."""
    cluster = framework.world.view(VolumeCluster)
    found: dict[str, None] = {}
    for item in claims_of(pod.pod):
        claim = cluster.claim(pod.namespace, item.claim)
        volume = cluster.volume(claim.volume_name) if claim is not None and claim.volume_name else None
        if volume is None:
            continue
        found.update(dict.fromkeys(value for key in _ZONES for value in [volume.labels.get(key)] if value))
        for term in volume.nodes.terms if volume.nodes is not None else ():
            for requirement in term.expressions:
                if requirement.key in _ZONES and requirement.operator == "In":
                    found.update(dict.fromkeys(requirement.values))
    return tuple(found)


# --- devices --------------------------------------------------------------------------------------------------------------


def _lacks(item: Candidate) -> tuple[Lack, ...]:
    for plugin, _ in item.asked.refusals:
        if isinstance(plugin, DynamicResources):
            return plugin.lacking(item.asked.state, item.asked.node)
    return ()


def _lack(node: str, lack: Lack) -> Iterator[str]:
    """The sentence about one request; nothing for one that could be served alone while another could not."""
    asks = f"request {lack.request} of claim {lack.claim} asks for {lack.wanted} of class {lack.device_class}"
    if not lack.missing:
        yield f"{node} has devices enough for {asks}, but not together with its constraints and the pod's other requests"
        return
    if not lack.fitting:
        yield f"{node} has no device for {asks}"
        return
    parts = [f"{lack.fitting} fit", f"{lack.free} free"]
    if lack.tainted:
        parts.append(f"{lack.tainted} tainted")
    if lack.exhausted:
        parts.append(f"{lack.exhausted} without shared counters left")
    yield f"{node} lacks {lack.missing} device{'s' if lack.missing > 1 else ''} ({', '.join(parts)}): {asks}"
    held = [
        f"{', '.join(device.device for device in holder.devices)} by claim {holder.claim}"
        + (f" ({_listed(holder.users)})" if holder.users else "")
        for holder in lack.holders[:_SHOWN_HOLDERS]
    ]
    if held:
        yield f"held: {', '.join(held)}"


# --- pods that should be near ---------------------------------------------------------------------------------------------


def _nobody(framework: Framework, pod: PodInfo) -> Iterator[str]:
    """Terms of the pod affinity that no pod of the whole cluster meets, and what there is instead."""
    namespaces = framework.world.namespaces
    for term in pod.required_affinity:
        if any(term.matches(other, namespaces.get(other.namespace)) for other, _ in framework.world.placed):
            continue
        where = _namespaces(term)
        text = f"podAffinity by {term.topology_key}: no pod has {_selector(term.selector)} in {where}"
        yield f"{text}; {_there(framework, term)}"


def _namespaces(term: AffinityTerm) -> str:
    if term.namespaces:
        return f"namespace{'s' if len(term.namespaces) > 1 else ''} {', '.join(sorted(term.namespaces))}"
    return "any namespace" if term.namespace_selector.empty else "the namespaces selected"


def _there(framework: Framework, term: AffinityTerm) -> str:
    """Pods elsewhere that the selector means, or the values that its keys have where it looks."""
    elsewhere = Counter(other.namespace for other, _ in framework.world.placed if term.selector.matches(other.labels))
    if elsewhere:
        return "such pods run in " + ", ".join(f"namespace {name} ({count})" for name, count in sorted(elsewhere.items()))
    namespaces = framework.world.namespaces
    values: Counter[str] = Counter()
    for other, _ in framework.world.placed:
        if other.namespace in term.namespaces or term.namespace_selector.matches(namespaces.get(other.namespace) or {}):
            for requirement in term.selector.requirements:
                if requirement.key in other.labels:
                    values[f"{requirement.key}={other.labels[requirement.key]}"] += 1
    if not values:
        keys = ", ".join(dict.fromkeys(requirement.key for requirement in term.selector.requirements))
        return f"no pod there has a label {keys}" if keys else "no pod runs there"
    common = [name for name, _ in sorted(values.items(), key=lambda one: (-one[1], one[0]))]
    return f"there: {_listed(tuple(common), _SHOWN_VALUES)}"


def _selector(selector: Selector) -> str:
    if selector.nothing:
        return "what the term selects (it has no labelSelector)"
    parts = [
        f"{item.key}={item.values[0]}"
        if item.operator == "In" and len(item.values) == 1
        else f"{item.key} {item.operator} {', '.join(item.values)}".rstrip()
        for item in selector.requirements
    ]
    return ", ".join(parts) or "any labels"


def _of(name: str) -> str:
    return "" if is_extended(name) else "of "


def _listed(names: tuple[str, ...], most: int = _SHOWN_HOLDERS) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
