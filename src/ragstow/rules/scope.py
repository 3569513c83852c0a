"""What of a report concerns one pod, one workload or one namespace. What is read and judged is always the whole cluster."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import replace

from ragstow.cluster.objects import KubeObject, Pod
from ragstow.errors import InputError
from ragstow.rules.context import Context
from ragstow.rules.model import Finding, ObjectRef, Report

_SHORT = {
    "po": "Pod",
    "deploy": "Deployment",
    "sts": "StatefulSet",
    "ds": "DaemonSet",
    "rs": "ReplicaSet",
    "no": "Node",
    "cj": "CronJob",
    "rc": "ReplicationController",
}
_WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "ReplicationController")


def target(context: Context, text: str, namespace: str | None) -> tuple[ObjectRef, ...]:
    """The object that a person names, with everything that belongs to it: a pod with its workload and node, a workload with its
    ReplicaSets and pods.

    Args:
        context: the cluster.
        text: `name`, `namespace/name` or `kind/name`; of several objects that fit, a pod wins over a workload over others.
        namespace: the namespace to look in, where the text says none.

    Raises:
        InputError: nothing of that name is there, or the name stands for objects of several namespaces.
    """
    found = _named(context, text, namespace)
    if not found:
        known = sorted({f"{item.namespace}/{item.name}" if item.namespace else item.name for item in _all(context)})
        near = difflib.get_close_matches(text, known, 1, 0.5) or difflib.get_close_matches(
            text.rpartition("/")[2], sorted({item.name for item in _all(context)}), 1, 0.6
        )
        where = f" in namespace {namespace}" if namespace else ""
        hint = f"did you mean {near[0]}?" if near else "name, namespace/name or kind/name of a pod, workload or node"
        raise InputError("target-unknown", f"there is no pod, workload or node {text!r}{where}", hint=hint)
    places = sorted({item.namespace for item in found})
    if len(places) > 1:
        raise InputError(
            "target-ambiguous", f"{text!r} exists in namespaces {', '.join(places)}", hint=f"write {places[0]}/{text}"
        )
    return tuple(dict.fromkeys(ref for item in found for ref in _belongs(context, item)))


def concerning(report: Report, refs: tuple[ObjectRef, ...]) -> Report:
    """What of a report touches one of these objects."""
    wanted = set(refs)
    pods = {f"{ref.namespace}/{ref.name}" for ref in refs if ref.kind == "Pod"}
    return _kept(report, lambda objects, held: bool(wanted & set(objects) or pods & set(held)))


def in_namespace(report: Report, namespace: str) -> Report:
    """What of a report concerns a namespace: its own objects and pods, and what is the whole cluster's."""

    def concerns(objects: tuple[ObjectRef, ...], held: tuple[str, ...]) -> bool:
        named = [ref.namespace for ref in objects if ref.namespace] + [pod.partition("/")[0] for pod in held]
        return namespace in named or not named

    return _kept(report, concerns)


def _kept(report: Report, wanted: Callable[[tuple[ObjectRef, ...], tuple[str, ...]], bool]) -> Report:
    def concerns(finding: Finding) -> bool:
        return wanted(finding.objects, finding.held) or any(map(concerns, finding.follows))

    return replace(
        report,
        findings=tuple(finding for finding in report.findings if concerns(finding)),
        unknown=tuple(item for item in report.unknown if not item.objects or wanted(item.objects, ())),
    )


def _named(context: Context, text: str, namespace: str | None) -> list[KubeObject]:
    before, slash, name = text.rpartition("/")
    kinds = {kind.lower(): kind for kind in ("Pod", "Node", *_WORKLOADS)}
    kind = _SHORT.get(before.lower()) or kinds.get(before.lower().removesuffix("s"), "")
    where = namespace if kind or not slash else before
    fitting = [
        item
        for item in _all(context)
        if item.name == name and (not kind or item.kind == kind) and (not where or item.namespace in (where, ""))
    ]
    for chosen in (("Pod",), _WORKLOADS, ("Node",)):
        best = [item for item in fitting if item.kind in chosen]
        if best:
            return best
    # A workload that is not in the data (a custom resource, a partial report) is known by what its pods say.
    tops = ((pod, context.owners.workload(pod)) for pod in context.snapshot.pods)
    return [
        pod
        for pod, top in tops
        if top.name == name and top.kind not in ("Pod", "Node") and (not where or pod.namespace == where)
    ]


def _all(context: Context) -> Iterator[KubeObject]:
    for (_, kind), table in context.snapshot.objects.items():
        if kind in ("Pod", "Node", *_WORKLOADS):
            yield from table.values()


def _belongs(context: Context, item: KubeObject) -> Iterator[ObjectRef]:
    yield ObjectRef.of(item)
    if isinstance(item, Pod):
        yield context.owners.workload(item)
        if item.node:
            yield ObjectRef("Node", "", item.node)
        for pod_volume in item.spec.get("volumes") or ():
            claim = pod_volume.get("persistentVolumeClaim") if isinstance(pod_volume, dict) else None
            if isinstance(claim, dict):
                yield ObjectRef("PersistentVolumeClaim", item.namespace, str(claim.get("claimName")))
    elif item.kind != "Node":
        top = context.owners.workload(item)
        yield top
        for pod in context.owners.pods(top):
            yield ObjectRef.of(pod)
