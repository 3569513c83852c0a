"""Who owns whom: from a pod to the workload that a person knows, and back.

Owners are found by uid, else by kind, namespace and name, else (for pods without owner references) by selector.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ragstow.cluster.objects import KubeObject, Pod
from ragstow.cluster.snapshot import Snapshot

WORKLOADS = (("apps", "Deployment"), ("apps", "StatefulSet"), ("apps", "DaemonSet"), ("batch", "Job"), ("batch", "CronJob"))
_CHAIN = (*WORKLOADS, ("apps", "ReplicaSet"))


class Owners:
    """Owner look-ups over one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @cached_property
    def _by_uid(self) -> Mapping[str, KubeObject]:
        return {item.uid: item for group, kind in _CHAIN for item in self._snapshot.of(kind, group) if item.uid}

    @cached_property
    def _by_name(self) -> Mapping[tuple[str, str, str], KubeObject]:
        return {(kind, item.namespace, item.name): item for group, kind in _CHAIN for item in self._snapshot.of(kind, group)}

    def parent(self, item: KubeObject) -> KubeObject | None:
        """The managing owner of an object, if the snapshot has it."""
        owner = item.controller
        if owner is not None:
            return self._by_uid.get(owner.uid) or self._by_name.get((owner.kind, item.namespace, owner.name))
        return self._by_selector(item) if isinstance(item, Pod) else None

    def _by_selector(self, pod: Pod) -> KubeObject | None:
        for group, kind in (("apps", "DaemonSet"), ("apps", "StatefulSet"), ("apps", "ReplicaSet"), ("apps", "Deployment")):
            for item in self._snapshot.of(kind, group):
                wanted = selector(item)
                if item.namespace == pod.namespace and wanted and all(pod.labels.get(k) == v for k, v in wanted.items()):
                    return item
        return None

    def workload(self, item: KubeObject) -> KubeObject:
        """The outermost owner that the snapshot has: the Deployment behind a ReplicaSet's pod; the object itself if none."""
        seen = {id(item)}
        current = item
        while True:
            above = self.parent(current)
            if above is None or id(above) in seen:
                return current
            seen.add(id(above))
            current = above

    @cached_property
    def _pods(self) -> Mapping[int, tuple[Pod, ...]]:
        table: dict[int, list[Pod]] = {}
        for pod in self._snapshot.pods:
            table.setdefault(id(self.workload(pod)), []).append(pod)
            above = self.parent(pod)
            if above is not None and id(above) != id(self.workload(pod)):
                table.setdefault(id(above), []).append(pod)
        return {key: tuple(pods) for key, pods in table.items()}

    def pods(self, workload: KubeObject) -> tuple[Pod, ...]:
        """The pods of a workload or of one of its ReplicaSets."""
        return self._pods.get(id(workload), ())


def selector(workload: KubeObject) -> Mapping[str, str]:
    """spec.selector.matchLabels of a workload."""
    wanted: Any = (workload.raw.get("spec") or {}).get("selector") or {}
    labels = wanted.get("matchLabels") if isinstance(wanted, Mapping) else None
    return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, Mapping) else {}
