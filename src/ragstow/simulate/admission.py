"""The API server's gate for pods that come from manifests: defaults, admission plugins, validation, quota.

The order is the server's: LimitRanger, Priority, RuntimeClass and ExtendedResourceToleration change the pod, then validation,
then LimitRanger's bounds and ResourceQuota refuse it. What the data do not hold (no PriorityClass object at all, a namespace
that is not there yet) is taken as fine and said once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragstow.cluster.objects import KubeObject, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import Reason
from ragstow.scheduling.amounts import is_extended
from ragstow.simulate import limits, validation
from ragstow.simulate.defaulting import with_defaults
from ragstow.simulate.quota import Quotas
from ragstow.simulate.workload import made

_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


@dataclass(frozen=True, slots=True)
class Admitted:
    """A pod as the API server stores it, or why it does not (`refusal` in its own words, after "pods NAME is forbidden: ")."""

    pod: Pod
    refusal: Reason | None = None


class Admission:
    """Admits pods into a cluster, counting quotas along.

    Args:
        snapshot: the cluster with all objects that exist when the pods arrive.
        numbers: the release, such as (1, 34, 1).
        extended_toleration: whether ExtendedResourceToleration is on (a cloud's habit).
    """

    def __init__(self, snapshot: Snapshot, numbers: tuple[int, ...], *, extended_toleration: bool = False) -> None:
        self._snapshot = snapshot
        self._numbers = numbers
        self._extended_toleration = extended_toleration
        self._ranges: dict[str, list[KubeObject]] = {}
        for item in snapshot.of("LimitRange"):
            self._ranges.setdefault(item.namespace, []).append(item)
        self._classes = {item.name: item for item in snapshot.of("PriorityClass", "scheduling.k8s.io")}
        self._namespaces = {item.name for item in snapshot.of("Namespace")}
        self.quotas = Quotas(snapshot)
        self.assumptions: dict[str, None] = {}

    def admit(self, raw: Mapping[str, Any], *, quota: bool = True) -> Admitted:
        """The pod after defaulting and admission; an admitted one counts in its quotas from now on (without `quota`: quotas
        are left to the caller)."""
        pod = with_defaults(raw, self._numbers)
        namespace = pod["metadata"]["namespace"]
        if self._namespaces and namespace not in self._namespaces:
            self.assumptions[f"namespace {namespace} does not exist yet: it is taken as created"] = None
        ranges = self._ranges.get(namespace, [])
        limits.apply_defaults(pod, ranges)
        texts = [text for text in (self._priority(pod["spec"]), self._runtime_class(pod["spec"])) if text]
        if self._extended_toleration:
            _tolerate_extended(pod["spec"])
        stored = made(pod)
        assert isinstance(stored, Pod)
        texts += validation.refusals(stored)
        if not texts and (bounds := limits.refusals(pod, ranges)):
            texts = [f"[{', '.join(bounds)}]" if len(bounds) > 1 else bounds[0]]
        if not texts and quota and (over := self.quotas.refusal(stored)):
            texts = [over]
        if texts:
            return Admitted(stored, forbidden(stored, ", ".join(texts)))
        if quota:
            self.quotas.created(stored)
        return Admitted(stored)

    def _priority(self, spec: dict[str, Any]) -> str | None:
        name = spec.get("priorityClassName")
        if not name:
            default = next((item for item in self._classes.values() if item.raw.get("globalDefault") is True), None)
            if default is not None and spec.get("priority") is None:
                self._take_class(spec, default)
            return None
        known = self._classes.get(name)
        if known is not None:
            self._take_class(spec, known)
        elif name in _SYSTEM_PRIORITIES:
            spec["priority"] = _SYSTEM_PRIORITIES[name]
        elif self._classes:
            return f"no PriorityClass with name {name} was found"
        else:
            self.assumptions[f"PriorityClass {name} is not in the data: priority {spec.get('priority') or 0} is assumed"] = None
        return None

    @staticmethod
    def _take_class(spec: dict[str, Any], item: KubeObject) -> None:
        spec["priorityClassName"] = item.name
        spec["priority"] = int(item.raw.get("value") or 0)
        spec.setdefault("preemptionPolicy", item.raw.get("preemptionPolicy") or "PreemptLowerPriority")

    def _runtime_class(self, spec: dict[str, Any]) -> str | None:
        name = spec.get("runtimeClassName")
        if not name:
            return None
        item = self._snapshot.get("RuntimeClass", name, group="node.k8s.io")
        if item is None:
            if self._snapshot.of("RuntimeClass", "node.k8s.io"):
                return f'pod rejected: RuntimeClass "{name}" not found'
            self.assumptions[f"RuntimeClass {name} is not in the data: no overhead and no node selector is assumed"] = None
            return None
        overhead = (item.raw.get("overhead") or {}).get("podFixed")
        if overhead:
            spec["overhead"] = dict(overhead)
        scheduling = item.raw.get("scheduling") or {}
        if scheduling.get("nodeSelector"):
            spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **scheduling["nodeSelector"]}
        if scheduling.get("tolerations"):
            spec["tolerations"] = [*(spec.get("tolerations") or ()), *scheduling["tolerations"]]
        return None


def forbidden(pod: Pod, text: str) -> Reason:
    """Why the API server does not create a pod, as it says it."""
    return Reason("admission", f'pods "{pod.name}" is forbidden: {text}', _hint(text))


def _tolerate_extended(spec: dict[str, Any]) -> None:
    """A pod that asks for an extended resource tolerates taints whose key is that resource's name."""
    asked = {
        name
        for key in ("initContainers", "containers")
        for container in spec.get(key) or ()
        for name in (container.get("resources") or {}).get("requests") or {}
        if is_extended(name)
    }
    added = [{"key": name, "operator": "Exists", "effect": "NoSchedule"} for name in sorted(asked)]
    if added:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *added]


def _hint(text: str) -> str:
    if text.startswith("exceeded quota"):
        return "raise the quota, or remove pods of the namespace"
    if text.startswith("failed quota"):
        return "give every container that request or limit, or put a LimitRange with defaults into the namespace"
    if text.startswith("no PriorityClass"):
        return "create the class or name one that exists"
    return ""
