"""The pods of a plan as the scheduler will see them, for the simulation: requests, steering, claims; no images, no volumes.

They carry exactly the constraints that the renderer writes down (`ComponentPlan`), in the order in which they start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ragstow.cluster.build import RawObject, make
from ragstow.cluster.objects import KubeObject, Pod, Toleration
from ragstow.plan.model import ClaimKind, ComponentPlan
from ragstow.plan.situation import COMPONENT_LABEL, POOL_LABEL, SERVICE_LABEL
from ragstow.plan.taints import wanted
from ragstow.spec.model import Component, Service

HOSTNAME = "kubernetes.io/hostname"
_CLAIM = "gpu"
_API = "resource.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Pods in the order in which they start, which replica each is, and the objects beside them: claims, Services.

    A Service (and the controller, which selects the same labels) makes the scheduler spread replicas over nodes and zones.
    """

    pods: tuple[Pod, ...]
    replicas: tuple[tuple[str, int], ...]
    beside: tuple[KubeObject, ...]


def arrivals(service: Service, components: Sequence[ComponentPlan], closed: dict[str, frozenset[str]]) -> Arrivals:
    """The pods of a plan.

    Args:
        service: for requests and the user's own placement.
        components: what each got.
        closed: components by node that cannot be there because of their volumes (or the node's state).
    """
    pods: list[Pod] = []
    replicas: list[tuple[str, int]] = []
    claims: dict[str, KubeObject] = {}
    services: list[KubeObject] = []
    for planned in in_start_order(components):
        component = service.component(planned.name)
        services.append(_service(service, component))
        shut = sorted(node for node, names in closed.items() if planned.name in names)
        for replica in range(planned.replicas):
            name = f"{service.name}-{planned.name}-{replica}"
            reference = None
            if planned.claim is not None:
                reference, made = _claim(service, planned, planned.claim, replica)
                claims.setdefault(made.name, made)
            raw = _pod(service, component, planned, name, shut, reference)
            pod = make(RawObject(raw))
            assert isinstance(pod, Pod)
            pods.append(pod)
            replicas.append((planned.name, replica))
    return Arrivals(tuple(pods), tuple(replicas), (*claims.values(), *services))


def in_start_order(components: Sequence[ComponentPlan]) -> list[ComponentPlan]:
    """Components so that each comes after those it waits for; otherwise in the order given."""
    left = list(components)
    ordered: list[ComponentPlan] = []
    while left:
        names = {item.name for item in left}
        ready = next((item for item in left if not names & {*item.start_after, *item.beside} - {item.name}), left[0])
        ordered.append(ready)
        left.remove(ready)
    return ordered


def _pod(
    service: Service,
    component: Component,
    planned: ComponentPlan,
    name: str,
    shut: list[str],
    reference: dict[str, str] | None,
) -> dict[str, Any]:
    amounts = {"cpu": str(component.cpu), "memory": str(component.memory)}
    if planned.slot.resource is not None:
        amounts[planned.slot.resource] = str(planned.slot.count)
    container: dict[str, Any] = {"name": component.name, "resources": {"requests": amounts, "limits": dict(amounts)}}
    spec: dict[str, Any] = {"containers": [container], "tolerations": _tolerations(service, planned)}
    if reference is not None:
        container["resources"]["claims"] = [{"name": _CLAIM}]
        spec["resourceClaims"] = [{"name": _CLAIM, **reference}]
    if service.placement.node_selector:
        spec["nodeSelector"] = dict(service.placement.node_selector)
    affinity = _affinity(service, planned, shut)
    if affinity:
        spec["affinity"] = affinity
    if planned.spread_nodes:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": max(planned.replicas - 1, 1),
                "minDomains": 2,
                "topologyKey": HOSTNAME,
                "whenUnsatisfiable": "DoNotSchedule",
                "nodeTaintsPolicy": "Honor",
                "labelSelector": {"matchLabels": _labels(service, component)},
            }
        ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": service.namespace, "labels": _labels(service, component)},
        "spec": spec,
    }


def _labels(service: Service, component: Component) -> dict[str, str]:
    return {SERVICE_LABEL: service.name, COMPONENT_LABEL: component.name}


def _service(service: Service, component: Component) -> KubeObject:
    meta = {"name": f"{service.name}-{component.name}", "namespace": service.namespace}
    spec = {"selector": _labels(service, component)}
    return make(RawObject({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}))


def _tolerations(service: Service, planned: ComponentPlan) -> list[dict[str, Any]]:
    every: list[Toleration] = [*planned.tolerations, *wanted(service.placement.tolerations)]
    return [
        {
            **({"key": item.key} if item.key else {}),
            "operator": item.operator or "Equal",
            **({"value": item.value} if item.value else {}),
            **({"effect": item.effect} if item.effect else {}),
        }
        for item in every
    ]


def _affinity(service: Service, planned: ComponentPlan, shut: list[str]) -> dict[str, Any]:
    labels = dict(sorted(planned.node_labels.items()))
    if planned.pool:
        labels[POOL_LABEL] = (service.name,)
    expressions = [{"key": key, "operator": "In", "values": list(values)} for key, values in labels.items()]
    if shut:
        expressions.append({"key": HOSTNAME, "operator": "NotIn", "values": shut})
    affinity: dict[str, Any] = {}
    if expressions:
        terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    for key, names in (("podAffinity", planned.beside), ("podAntiAffinity", planned.not_beside)):
        if names:
            selector = {
                "matchLabels": {SERVICE_LABEL: service.name},
                "matchExpressions": [{"key": COMPONENT_LABEL, "operator": "In", "values": sorted(names)}],
            }
            term = {"labelSelector": selector, "topologyKey": HOSTNAME}
            affinity[key] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return affinity


def _claim(service: Service, planned: ComponentPlan, kind: ClaimKind, replica: int) -> tuple[dict[str, str], KubeObject]:
    exactly: dict[str, Any] = {"deviceClassName": kind.device_class, "allocationMode": "ExactCount", "count": kind.count}
    if kind.selectors:
        exactly["selectors"] = [{"cel": {"expression": expression}} for expression in kind.selectors]
    devices = {"requests": [{"name": _CLAIM, "exactly": exactly}]}
    if kind.shared_with:
        name = "-".join([service.name, *sorted({planned.name, *kind.shared_with}), str(replica)])
        raw: dict[str, Any] = {"kind": "ResourceClaim", "spec": {"devices": devices}}
        reference = {"resourceClaimName": name}
    else:
        name = f"{service.name}-{planned.name}-gpu"
        raw = {"kind": "ResourceClaimTemplate", "spec": {"spec": {"devices": devices}}}
        reference = {"resourceClaimTemplateName": name}
    raw |= {"apiVersion": _API, "metadata": {"name": name, "namespace": service.namespace}}
    return reference, make(RawObject(raw))
