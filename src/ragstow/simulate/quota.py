"""ResourceQuota: what a namespace may still create (pkg/quota/v1, plugin/pkg/admission/resourcequota).

A quota's use is what its status says where it has one, else the sum over the pods that exist; from then on it is counted
along. Pods that have ended hold nothing but their object count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragstow import quantity
from ragstow.cluster.demand import pod_demand, resource_names
from ragstow.cluster.objects import KubeObject, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.scheduling.amounts import is_extended

_COMPUTE = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
_MILLI = frozenset({"cpu", "requests.cpu", "limits.cpu"})


@dataclass(slots=True)
class _Quota:
    name: str
    hard: dict[str, int]
    written: dict[str, str]
    scopes: tuple[Mapping[str, Any], ...]
    used: dict[str, int] = field(default_factory=dict)


class Quotas:
    """The quotas of a cluster, counted along while pods are created and removed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._by_namespace: dict[str, list[_Quota]] = {}
        for item in snapshot.of("ResourceQuota"):
            self._by_namespace.setdefault(item.namespace, []).append(_quota(item))
        if not self._by_namespace:
            return
        for item in snapshot.of("ResourceQuota"):
            made = next(quota for quota in self._by_namespace[item.namespace] if quota.name == item.name)
            used = (item.raw.get("status") or {}).get("used")
            if isinstance(used, Mapping):
                made.used = {name: _amount(name, value) for name, value in used.items() if name in made.hard}
            else:
                for pod in snapshot.pods:
                    if pod.namespace == item.namespace:
                        _add(made, pod, 1)

    def refusal(self, pod: Pod) -> str | None:
        """Why the API server would not create the pod, in its words; None where it would."""
        for quota in self._by_namespace.get(pod.namespace, ()):
            if not _in_scope(quota, pod):
                continue
            missing = _unspecified(quota, pod)
            if missing:
                return f"failed quota: {quota.name}: must specify {missing}"
            wanted = {name: amount for name, amount in pod_usage(pod).items() if name in quota.hard}
            over = sorted(
                name for name, amount in wanted.items() if amount > 0 and quota.used.get(name, 0) + amount > quota.hard[name]
            )
            if over:
                return (
                    f"exceeded quota: {quota.name}, requested: {_list({name: wanted[name] for name in over})}, "
                    f"used: {_list({name: quota.used.get(name, 0) for name in over})}, "
                    f"limited: {','.join(f'{name}={quota.written[name]}' for name in over)}"
                )
        return None

    def created(self, pod: Pod) -> None:
        """The pod now exists."""
        for quota in self._by_namespace.get(pod.namespace, ()):
            _add(quota, pod, 1)

    def removed(self, pod: Pod) -> None:
        """The pod is gone."""
        for quota in self._by_namespace.get(pod.namespace, ()):
            _add(quota, pod, -1)


def pod_usage(pod: Pod) -> dict[str, int]:
    """What a pod counts in quotas: resource name of the quota -> amount (cpu in millicores, others in whole units)."""
    usage = {"count/pods": 1}
    if pod.finished:
        return usage
    usage["pods"] = 1
    level = pod.spec.get("resources") or {}
    whole, most = level.get("requests") or {}, level.get("limits") or {}
    for name in sorted({*resource_names(pod), *whole, *most}):
        amount = pod_demand(pod, name)
        if name in whole:
            amount = _amount(name, whole[name]) + pod.overhead.get(name, 0)
        if name in ("cpu", "memory", "ephemeral-storage"):
            usage[name] = usage[f"requests.{name}"] = amount
            limit = _amount(name, most[name]) if name in most else _limit(pod, name)
            usage[f"limits.{name}"] = limit and limit + pod.overhead.get(name, 0)
        elif name.startswith("hugepages-"):
            usage[name] = usage[f"requests.{name}"] = amount
        elif is_extended(name):
            usage[f"requests.{name}"] = amount
    return usage


def _quota(item: KubeObject) -> _Quota:
    spec = item.raw.get("spec") or {}
    hard: Mapping[str, Any] = spec.get("hard") or {}
    scopes = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    return _Quota(
        item.name,
        {name: _amount(name, value) for name, value in hard.items()},
        {name: str(quantity.parse(value)) for name, value in hard.items()},
        tuple(scopes),
    )


def _add(quota: _Quota, pod: Pod, sign: int) -> None:
    if not _in_scope(quota, pod):
        return
    for name, amount in pod_usage(pod).items():
        if name in quota.hard:
            quota.used[name] = quota.used.get(name, 0) + sign * amount


def _in_scope(quota: _Quota, pod: Pod) -> bool:
    return all(_matches(scope, pod) for scope in quota.scopes)


def _matches(scope: Mapping[str, Any], pod: Pod) -> bool:
    name, operator = str(scope.get("scopeName")), str(scope.get("operator") or "Exists")
    if name in ("Terminating", "NotTerminating"):
        return (pod.spec.get("activeDeadlineSeconds") is not None) == (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        asks = any(
            resource in ("cpu", "memory") and amount > 0
            for container in (*pod.containers, *pod.init_containers)
            for amounts in (container.requests, container.limits)
            for resource, amount in amounts.items()
        )
        return asks == (name == "NotBestEffort")
    if name == "PriorityClass":
        values = tuple(str(value) for value in scope.get("values") or ())
        if operator == "In":
            return pod.priority_class in values
        if operator == "NotIn":
            return pod.priority_class not in values
        return (pod.priority_class is not None) == (operator == "Exists")
    if name == "CrossNamespacePodAffinity":
        affinity = pod.spec.get("affinity") or {}
        terms = [
            term.get("podAffinityTerm") or term
            for side in ("podAffinity", "podAntiAffinity")
            for listed in (affinity.get(side) or {}).values()
            for term in listed or ()
        ]
        return any(bool(term.get("namespaces")) or term.get("namespaceSelector") is not None for term in terms)
    return True


def _unspecified(quota: _Quota, pod: Pod) -> str:
    """What a quota on cpu or memory demands that every container gives: "cpu for: a,b; memory for: a"."""
    found = []
    for name in _COMPUTE:
        if name not in quota.hard:
            continue
        limits, resource = name.startswith("limits."), name.rpartition(".")[2]
        level = (pod.spec.get("resources") or {}).get("limits" if limits else "requests") or {}
        if resource in level:
            continue
        without = [
            container.name
            for container in (*pod.containers, *pod.init_containers)
            if resource not in (container.limits if limits else container.requests)
        ]
        if without:
            found.append(f"{name} for: {','.join(without)}")
    return "; ".join(sorted(found))


def _limit(pod: Pod, name: str) -> int:
    running = sum(container.limits.get(name, 0) for container in pod.containers)
    sidecars = peak = 0
    for container in pod.init_containers:
        amount = container.limits.get(name, 0)
        if container.restart_policy == "Always":
            sidecars += amount
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + amount)
    return max(running + sidecars, peak)


def _amount(name: str, value: Any) -> int:
    parsed = quantity.parse(value)
    return parsed.milli if name in _MILLI else parsed.value


def _list(amounts: Mapping[str, int]) -> str:
    return ",".join(f"{name}={_print(name, amount)}" for name, amount in sorted(amounts.items()))


def _print(name: str, amount: int) -> str:
    if name in _MILLI:
        return str(quantity.Quantity(amount * quantity.NANO // 1000))
    binary = name.endswith(("memory", "storage"))
    return str(quantity.Quantity(amount * quantity.NANO, "binary" if binary else "decimal"))
