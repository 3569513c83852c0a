"""Workloads whose pods never come to exist: what the API server says when their controllers try to create one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ragstow.cluster.objects import KubeObject
from ragstow.rules.context import Context
from ragstow.rules.model import Evidence, ObjectRef

_KINDS = (("apps", "ReplicaSet"), ("apps", "StatefulSet"), ("apps", "DaemonSet"), ("batch", "Job"))


def refused(context: Context, counts: Callable[[str], bool]) -> dict[ObjectRef, list[Evidence]]:
    """Workload -> the refusals that count, from FailedCreate events (of workloads that still lack pods) and ReplicaFailure
    conditions."""
    seen: dict[ObjectRef, list[Evidence]] = {}
    for event in context.events.all:
        if event.reason == "FailedCreate" and counts(event.message) and _lacks(context, event.about):
            seen.setdefault(_workload(context, event.about), []).append(event.evidence)
    for group, kind in (*_KINDS, ("apps", "Deployment")):
        for item in context.snapshot.of(kind, group):
            for condition in _conditions(item):
                message = str(condition.get("message") or "")
                if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True" and counts(message):
                    found = seen.setdefault(_workload(context, ObjectRef.of(item)), [])
                    found.append(Evidence(message, ObjectRef.of(item), "status.conditions[ReplicaFailure].message"))
    return seen


def _lacks(context: Context, about: ObjectRef) -> bool:
    """Whether the workload of an event still lacks pods; an object that is not in the data is believed to."""
    for group, kind in _KINDS:
        item = context.snapshot.get(about.kind, about.name, about.namespace, group) if kind == about.kind else None
        if item is not None:
            spec, status = _mapping(item.raw.get("spec")), _mapping(item.raw.get("status"))
            wanted = status.get("desiredNumberScheduled", spec.get("replicas", spec.get("parallelism", 1)))
            there = status.get("currentNumberScheduled", status.get("replicas", status.get("active", 0)))
            done = status.get("succeeded", 0) if kind == "Job" else 0
            return int(there or 0) + int(done or 0) < int(wanted or 0)
    return True


def _workload(context: Context, about: ObjectRef) -> ObjectRef:
    item = next(
        (
            found
            for group, kind in (*_KINDS, ("apps", "Deployment"))
            if kind == about.kind and (found := context.snapshot.get(kind, about.name, about.namespace, group))
        ),
        None,
    )
    if item is not None:
        return context.owners.workload(item)
    name = about.name.rpartition("-")[0]
    deployment = context.snapshot.get("Deployment", name, about.namespace, "apps") if about.kind == "ReplicaSet" else None
    return ObjectRef.of(deployment) if deployment is not None else about


def _conditions(item: KubeObject) -> list[Mapping[str, Any]]:
    listed = _mapping(item.raw.get("status")).get("conditions")
    return [condition for condition in listed if isinstance(condition, Mapping)] if isinstance(listed, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
