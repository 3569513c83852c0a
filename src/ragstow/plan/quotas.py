"""What the namespace's ResourceQuotas still leave to the service: GPU resources and device classes one by one, CPU, memory and
pods at once.

The service's own pods count as free, as everywhere in a plan. Quotas with scopes are left aside (they count other pods).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragstow import quantity
from ragstow.cluster import dra
from ragstow.cluster.demand import pod_demand
from ragstow.cluster.objects import Pod
from ragstow.errors import InputError, Reason
from ragstow.plan.claimquota import charged, extended_names
from ragstow.plan.refusing import gib, plural
from ragstow.plan.situation import Situation
from ragstow.spec.model import Service

_REQUESTS, _LIMITS = "requests.", "limits."


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
    """How many the service may still ask for, by name of an extended resource or name under which claims are counted."""
    left: dict[str, int] = {}
    for item in limits(situation):
        if "/" in item.resource:
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
    extended = extended_names(situation.snapshot, situation.facts)
    own_claims = [charged(claim, extended) for claim in situation.own_claims]
    claims = [
        charged(claim.object, extended)
        for claim in dra.claims(situation.snapshot)
        if claim.object.namespace == situation.namespace
    ]
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
            own = _sum(_counted(situation), own_claims, resource)
            taken = _amount(used.get(name), resource)
            if taken is None:
                pods = [pod for pod in situation.snapshot.pods if pod.namespace == situation.namespace and not pod.finished]
                taken, own = _sum(pods, claims, resource), 0
            limit = _amount(hard, resource)
            if limit is not None:
                left = max(limit - taken + own, 0)
                found.append(Limit(item.name, str(name), resource, limit, left, str(hard)))
    return found


def _sum(pods: Sequence[Pod], claims: Sequence[Mapping[str, int]], resource: str) -> int:
    if resource == "pods":
        return len(pods)
    return sum(pod_demand(pod, resource) for pod in pods) + sum(claim.get(resource, 0) for claim in claims)


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
