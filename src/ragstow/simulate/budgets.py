"""Disruption budgets as the eviction API counts them: expected and healthy pods, and what may go now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ragstow.cluster.objects import KubeObject, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.scheduling.selectors import label_selector


class Ready:
    """Which pods are healthy, for budgets: those on a node that are Ready, or say nothing about it."""

    def __init__(self, placed: Iterable[Pod]) -> None:
        self._pods = {pod.key: pod for pod in placed if _healthy(pod)}

    def has(self, pod: Pod) -> bool:
        """Whether the pod counts as healthy."""
        return pod.key in self._pods

    def gone(self, pod: Pod) -> None:
        """The pod is evicted."""
        self._pods.pop(pod.key, None)

    def placed(self, pod: Pod) -> None:
        """A successor runs."""
        self._pods[pod.key] = pod

    def matching(self, budget: Budget) -> int:
        """How many running pods a budget counts."""
        return sum(1 for pod in self._pods.values() if budget.covers(pod))


def _healthy(pod: Pod) -> bool:
    said = [item for item in pod.status.get("conditions") or () if item.get("type") == "Ready"]
    return not said or said[0].get("status") == "True"


class Budget:
    """A PodDisruptionBudget, counted from the pods at hand (controller disruption.go: expected count, healthy pods)."""

    def __init__(self, item: KubeObject) -> None:
        spec: Mapping[str, Any] = item.raw.get("spec") or {}
        self.name = item.name
        self.namespace = item.namespace
        self._selector = label_selector(spec["selector"]) if isinstance(spec.get("selector"), Mapping) else None
        self._least = spec.get("minAvailable")
        self._most = spec.get("maxUnavailable")
        self.expected = 0
        """Covered pods that their controllers want: those there were at the start."""

    def covers(self, pod: Pod) -> bool:
        """Whether the budget speaks of this pod; one without a selector speaks of none."""
        return pod.namespace == self.namespace and self._selector is not None and self._selector.matches(pod.labels)

    def allowed(self, ready: Ready) -> int:
        """How many covered pods may be evicted now."""
        return max(ready.matching(self) - self.needs(), 0)

    def needs(self) -> int:
        """How many covered pods must stay healthy."""
        if self._most is not None:
            return self.expected - _amount(self._most, self.expected)
        return _amount(self._least, self.expected) if self._least is not None else 0


def _amount(value: object, of: int) -> int:
    """An int-or-percent, percentages rounded up as budgets do."""
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdigit():
        return -(-of * int(value[:-1]) // 100)
    return value if isinstance(value, int) else 0


def budgets_of(snapshot: Snapshot) -> list[Budget]:
    """All budgets of a cluster, in the order read."""
    found = [Budget(item) for item in snapshot.of("PodDisruptionBudget", "policy")]
    for budget in found:
        budget.expected = sum(1 for pod in snapshot.pods if not pod.finished and budget.covers(pod))
    return found


def holding(budgets: Iterable[Budget], pod: Pod, ready: Ready) -> list[str]:
    """The names of the budgets that do not let a pod be evicted now."""
    found = []
    for budget in budgets:
        if budget.covers(pod):
            # An unhealthy pod may go as long as enough others are healthy (IfHealthyBudget).
            after = ready.matching(budget) - (1 if ready.has(pod) else 0)
            if after < budget.needs():
                found.append(budget.name)
    return found
