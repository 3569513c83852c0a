"""What the namespace's ResourceQuotas still leave to the service: GPU resources one by one, CPU, memory and pods at once.

The service's own pods count as free, as everywhere in a plan. Quotas with scopes are left aside (they count other pods).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragstow import quantity
from ragstow.cluster.demand import pod_demand
from ragstow.cluster.objects import Pod
from ragstow.errors import InputError, Reason
from ragstow.plan.refusing import gib, plural
from ragstow.plan.situation import Situation
from ragstow.spec.model import Service

_REQUESTS, _LIMITS = "requests.", "limits."
_CLAIMS = ".deviceclass.resource.k8s.io/devices"


@dataclass(frozen=True, slots=True)
class Limit:
    """One line of a quota: `key` as written ("requests.cpu"), the resource it counts, its limit and what is left of it (CPU in
    millicores, memory in bytes); `written` is the limit as it stands there."""

    quota: str
    key: str
    resource: str
    hard: int
    left: int
    written: str


def gpu_quota(situation: Situation) -> dict[str, int]:
    """Extended resource name -> how many the service may still ask for in its namespace."""
    left: dict[str, int] = {}
    for item in limits(situation):
        if "/" in item.resource and not item.resource.endswith(_CLAIMS):
            left[item.resource] = min(item.left, left.get(item.resource, item.left))
    return left


def exceeded(situation: Situation, service: Service) -> list[Reason]:
    """Quotas on CPU, memory and pods that the service as a whole does not fit."""
    wanted = {
        "cpu": sum(item.cpu.milli * item.replicas for item in service.components),
        "memory": sum(item.memory.value * item.replicas for item in service.components),
        "pods": sum(item.replicas for item in service.components),
    }
    found = []
    for item in limits(situation):
        if item.resource in wanted and wanted[item.resource] > item.left:
            asked, left = (_amount_text(item.resource, amount) for amount in (wanted[item.resource], item.left))
            text = f"ResourceQuota {situation.namespace}/{item.quota} leaves {left}, the service asks for {asked} ({item.key})"
            found.append(Reason("quota", text, "a larger quota, or fewer replicas"))
    return found


def _amount_text(resource: str, amount: int) -> str:
    if resource == "cpu":
        return f"{amount / 1000:g} CPU"
    return f"{gib(amount)} of memory" if resource == "memory" else plural(amount, "pod")


def limits(situation: Situation) -> list[Limit]:
    """Every limit of the namespace's quotas that a plan has to keep."""
    found: list[Limit] = []
    for item in situation.snapshot.of("ResourceQuota"):
        if item.namespace != situation.namespace:
            continue
        spec, status = _mapping(item.raw.get("spec")), _mapping(item.raw.get("status"))
        if spec.get("scopes") or spec.get("scopeSelector"):
            continue
        used = _mapping(status.get("used"))
        for name, hard in _mapping(spec.get("hard")).items():
            resource = str(name).removeprefix(_REQUESTS).removeprefix(_LIMITS)
            if resource not in ("cpu", "memory", "pods") and "/" not in resource:
                continue
            own = sum(1 if resource == "pods" else pod_demand(pod, resource) for pod in _counted(situation))
            taken = _amount(used.get(name), resource)
            if taken is None:
                pods = [pod for pod in situation.snapshot.pods if pod.namespace == situation.namespace and not pod.finished]
                taken, own = sum(1 if resource == "pods" else pod_demand(pod, resource) for pod in pods), 0
            limit = _amount(hard, resource)
            if limit is not None:
                left = max(limit - taken + own, 0)
                found.append(Limit(item.name, str(name), resource, limit, left, str(hard)))
    return found


def _counted(situation: Situation) -> list[Pod]:
    return [pod for pod in situation.own if not pod.finished]


def _amount(value: Any, resource: str) -> int | None:
    if value is None:
        return None
    try:
        parsed = quantity.parse(value)
    except InputError:
        return None
    return parsed.milli if resource == "cpu" else parsed.value


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
