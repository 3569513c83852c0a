"""Topology spread constraints: read from a pod, or deduced for one without any (plugins/podtopologyspread/common.go)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.selectors import Selector, both, exact, label_selector
from ragstow.scheduling.taints import first_untolerated
from ragstow.scheduling.world import World

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint with its defaults filled in and matchLabelKeys merged into the selector."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


SYSTEM_DEFAULTS: tuple[Mapping[str, Any], ...] = (
    {"maxSkew": 3, "topologyKey": HOSTNAME, "whenUnsatisfiable": SOFT},
    {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": SOFT},
)


def constraints_of(raw: Iterable[Mapping[str, Any]], action: str, labels: Mapping[str, str]) -> tuple[Constraint, ...]:
    """The constraints of one `whenUnsatisfiable`; `labels` are the pod's, for matchLabelKeys."""
    made = []
    for item in raw:
        if item.get("whenUnsatisfiable") != action:
            continue
        selector = label_selector(item.get("labelSelector"))
        keys = item.get("matchLabelKeys") or ()
        if keys:
            selector = selector.plus({key: labels[key] for key in keys if key in labels})
        made.append(
            Constraint(
                max_skew=int(item.get("maxSkew") or 0),
                topology_key=str(item.get("topologyKey") or ""),
                selector=selector,
                min_domains=int(item.get("minDomains") or 1),
                honor_affinity=item.get("nodeAffinityPolicy") != "Ignore",
                honor_taints=item.get("nodeTaintsPolicy") == "Honor",
            )
        )
    return tuple(made)


def default_selector(pod: PodInfo, world: World) -> Selector:
    """What the Services and the controller of a pod select (helper.DefaultSelector); empty where nothing is known of them."""
    merged: dict[str, str] = {}
    for service in world.services(pod.namespace):
        if all(pod.labels.get(key) == value for key, value in service.items()):
            merged.update(service)
    owner = pod.pod.controller
    if owner is not None:
        kind = (owner.api_version, owner.kind)
        if kind == ("v1", "ReplicationController"):
            found = world.get("ReplicationController", owner.name, pod.namespace)
            if found is not None:
                merged.update((found.raw.get("spec") or {}).get("selector") or {})
        elif kind in (("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")):
            found = world.get(owner.kind, owner.name, pod.namespace, "apps")
            if found is not None:
                return both(exact(merged), label_selector((found.raw.get("spec") or {}).get("selector")))
    return exact(merged)


def has_keys(labels: Mapping[str, str], constraints: Sequence[Constraint]) -> bool:
    """Whether a node has every topology key."""
    return all(constraint.topology_key in labels for constraint in constraints)


def counts_node(constraint: Constraint, pod: PodInfo, node: NodeInfo, matches_affinity: bool) -> bool:
    """Whether the inclusion policies let the node take part (matchNodeInclusionPolicies)."""
    if constraint.honor_affinity and not matches_affinity:
        return False
    return not constraint.honor_taints or first_untolerated(node.node.taints, pod.pod.tolerations) is None


def matching_pods(node: NodeInfo, selector: Selector, namespace: str) -> int:
    """Pods of a namespace on the node that the selector names; terminating ones do not count, nor does an empty selector."""
    if selector.empty:
        return 0
    return sum(1 for pod in node.pods if pod.namespace == namespace and not pod.terminating and selector.matches(pod.labels))
