"""From pods to the workload that a person knows, and back. Chains are `cluster.owners`' work; pods without owner references
are found by selector, since saved reports often lack the ReplicaSet."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ragstow.cluster import owners
from ragstow.cluster.objects import KubeObject, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.rules.model import ObjectRef

_SELECTING = (("apps", "DaemonSet"), ("apps", "StatefulSet"), ("apps", "Deployment"), ("apps", "ReplicaSet"), ("batch", "Job"))


class Owners:
    """Owner look-ups over one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._chain = owners.Owners(snapshot)

    def workload(self, item: KubeObject) -> ObjectRef:
        """The workload on top of an object: the Deployment behind a pod, even where only its name is known; else itself."""
        found = self._chain.workload(item)
        if isinstance(item, Pod) and not item.owners:
            chosen = self._by_selector(item)
            if chosen is not None:
                found = self._chain.workload(chosen)
        elif found.kind == "ReplicaSet" and found.object is None:
            guess = self._deployment_of(found.namespace, found.name)
            return guess or ObjectRef(found.kind, found.namespace, found.name)
        return ObjectRef(found.kind, found.namespace, found.name)

    def replica_set(self, pod: Pod) -> str:
        """The name of the ReplicaSet (or other direct owner) of a pod; "" where nothing is known."""
        if pod.controller is not None:
            return pod.controller.name
        chosen = self._by_selector(pod)
        return chosen.name if chosen is not None else ""

    def object(self, ref: ObjectRef) -> KubeObject | None:
        """The object behind a reference to a workload, where the snapshot has it."""
        return next((found for group, kind in _SELECTING if kind == ref.kind and (found := self._get(group, ref))), None)

    def _get(self, group: str, ref: ObjectRef) -> KubeObject | None:
        return self._snapshot.get(ref.kind, ref.name, ref.namespace, group)

    def _deployment_of(self, namespace: str, replica_set: str) -> ObjectRef | None:
        # A ReplicaSet is called <deployment>-<hash>; partial reports have the Deployment but not the ReplicaSet.
        name = replica_set.rpartition("-")[0]
        found = self._snapshot.get("Deployment", name, namespace, "apps") if name else None
        return ObjectRef.of(found) if found is not None else None

    def _by_selector(self, pod: Pod) -> KubeObject | None:
        for group, kind in _SELECTING:
            for item in self._snapshot.of(kind, group):
                wanted = selector(item)
                if item.namespace == pod.namespace and wanted and all(pod.labels.get(k) == v for k, v in wanted.items()):
                    return item
        return None

    @cached_property
    def _pods(self) -> Mapping[ObjectRef, tuple[Pod, ...]]:
        table: dict[ObjectRef, list[Pod]] = {}
        for pod in self._snapshot.pods:
            table.setdefault(self.workload(pod), []).append(pod)
        return {ref: tuple(pods) for ref, pods in table.items()}

    def pods(self, workload: ObjectRef | KubeObject) -> tuple[Pod, ...]:
        """The pods of a workload."""
        return self._pods.get(workload if isinstance(workload, ObjectRef) else ObjectRef.of(workload), ())


def selector(workload: KubeObject) -> Mapping[str, str]:
    """spec.selector.matchLabels of a workload."""
    wanted: Any = (workload.raw.get("spec") or {}).get("selector") or {}
    labels = wanted.get("matchLabels") if isinstance(wanted, Mapping) else None
    return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, Mapping) else {}
