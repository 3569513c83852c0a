"""Raw objects in, frozen Snapshot out: the one constructor of a Snapshot.

A broken object is left out and reported as a `Problem`; unknown kinds are kept raw. Nothing is read from disk here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any

from ragstow import quantity
from ragstow.cluster.defaults import stored
from ragstow.cluster.objects import Container, KubeObject, Node, OwnerRef, Pod, Resources, Taint, Toleration
from ragstow.cluster.scope import DEFAULT_NAMESPACE, namespaced
from ragstow.cluster.shapecheck import misfit
from ragstow.cluster.snapshot import Problem, Snapshot, Source
from ragstow.errors import InputError, Place


@dataclass(frozen=True, slots=True)
class RawObject:
    """One object as read, with the file it came from."""

    value: Any
    file: str | None = None
    line: int | None = None


class _Broken(Exception):
    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def build(
    raw_objects: Iterable[RawObject | Mapping[str, Any]],
    *,
    source: Source | None = None,
    version: str | None = None,
    problems: Iterable[Problem] = (),
    attachments: Mapping[str, str] | None = None,
    any_shape: bool = False,
) -> Snapshot:
    """A snapshot of these objects; lists must have been taken apart before (`read.expand`).

    With `any_shape` objects that do not have the shape of their kind are kept, for those who tell it in their own way.

    Of two objects with one kind, namespace and name the live one counts, and the manifest goes to `applied`; of two alike the
    later one counts, and that is reported.
    """
    found: dict[tuple[str, str], dict[tuple[str, str], KubeObject]] = {}
    wrong = list(problems)
    applied: list[KubeObject] = []
    for item in raw_objects:
        raw = item if isinstance(item, RawObject) else RawObject(item)
        try:
            made = make(raw, any_shape=any_shape)
        except _Broken as error:
            wrong.append(
                Problem(
                    "object-broken", f"{error}; the object is left out", Place(raw.file, raw.line, _ref(raw.value), error.field)
                )
            )
            continue
        table = found.setdefault((made.group, made.kind), {})
        key = (made.namespace, made.name)
        if key in table:
            before = table[key]
            if before.live != made.live:
                # A manifest beside the live object it became: what the user applied, never counted twice.
                applied.append(before if made.live else made)
                if not made.live:
                    continue
            elif before.raw != made.raw:
                text = f"{made.ref} is given twice; the last one counts"
                wrong.append(Problem("object-twice", text, Place(raw.file, raw.line, made.ref)))
        table[key] = made
    return Snapshot(found, source or Source("memory", ""), version, tuple(wrong), dict(attachments or {}), tuple(applied))


def make(raw: RawObject, *, any_shape: bool = False) -> KubeObject:
    """The typed view of one raw object.

    Raises an internal error that `build` turns into a Problem when the object is not usable.
    """
    value = _mapping(raw.value, "")
    kind = value.get("kind")
    if not isinstance(kind, str) or not kind:
        raise _Broken("kind", "it has no kind")
    api_version = intern(str(value.get("apiVersion") or "v1"))
    meta = _mapping(value.get("metadata"), "metadata")
    name = meta.get("name")
    if name is None or name == "":
        name = meta.get("generateName") or _configuration_name(raw, api_version)
    if not isinstance(name, str):
        raise _Broken("metadata.name", f"its name is {_kind_of(name)}, not a text: put it in quotes")
    if not name:
        raise _Broken("metadata.name", "it has no name")
    if kind == "Secret" and api_version == "v1":
        value = {key: item for key, item in value.items() if key not in ("data", "stringData")}
    group = api_version.rpartition("/")[0]
    base: dict[str, Any] = {
        "kind": intern(kind),
        "api_version": api_version,
        "name": name,
        "namespace": intern(str(meta.get("namespace") or (DEFAULT_NAMESPACE if namespaced(group, kind) else ""))),
        "uid": str(meta.get("uid") or ""),
        "labels": _strings(meta.get("labels"), "metadata.labels"),
        "annotations": _strings(meta.get("annotations"), "metadata.annotations"),
        "owners": tuple(_owner(owner) for owner in _sequence(meta.get("ownerReferences"), "metadata.ownerReferences")),
        "created": _text(meta.get("creationTimestamp")),
        "deleted": _text(meta.get("deletionTimestamp")),
        "raw": value,
        "file": raw.file,
    }
    made: KubeObject
    if api_version == "v1" and kind == "Pod":
        value = stored(value)
        made = _pod({**base, "raw": value}, value)
    elif api_version == "v1" and kind == "Node":
        made = _node(base, value)
    else:
        made = KubeObject(**base)
    wrong = None if any_shape else misfit(group, kind, value)
    if wrong is not None:
        raise _Broken(*wrong)
    return made


def _configuration_name(raw: RawObject, api_version: str) -> str:
    """Configuration files (KubeletConfiguration and the like) have no metadata; they are found under the name of their file."""
    if "metadata" in raw.value or "/" not in api_version:
        return ""
    return (raw.file or "").replace("\\", "/").rpartition("/")[2].partition(".")[0]


def _pod(base: dict[str, Any], value: Mapping[str, Any]) -> Pod:
    spec = _mapping(value.get("spec"), "spec")
    status = _mapping(value.get("status"), "status")
    priority = spec.get("priority")
    return Pod(
        **base,
        node=_text(spec.get("nodeName")),
        phase=intern(str(status.get("phase") or "")),
        scheduler=intern(str(spec.get("schedulerName") or "default-scheduler")),
        priority=priority if isinstance(priority, int) else 0,
        priority_class=_text(spec.get("priorityClassName")),
        runtime_class=_text(spec.get("runtimeClassName")),
        node_selector=_strings(spec.get("nodeSelector"), "spec.nodeSelector"),
        tolerations=tuple(toleration(item) for item in _sequence(spec.get("tolerations"), "spec.tolerations")),
        containers=tuple(
            _container(item, f"spec.containers[{i}]")
            for i, item in enumerate(_sequence(spec.get("containers"), "spec.containers"))
        ),
        init_containers=tuple(
            _container(item, f"spec.initContainers[{i}]")
            for i, item in enumerate(_sequence(spec.get("initContainers"), "spec.initContainers"))
        ),
        overhead=resources(spec.get("overhead"), "spec.overhead"),
    )


def _node(base: dict[str, Any], value: Mapping[str, Any]) -> Node:
    spec = _mapping(value.get("spec"), "spec")
    status = _mapping(value.get("status"), "status")
    ready: bool | None = None
    for item in _sequence(status.get("conditions"), "status.conditions"):
        condition = _mapping(item, "status.conditions")
        if condition.get("type") == "Ready":
            ready = condition.get("status") == "True"
    taints = (_mapping(item, "spec.taints") for item in _sequence(spec.get("taints"), "spec.taints"))
    return Node(
        **base,
        unschedulable=spec.get("unschedulable") is True,
        ready=ready,
        taints=tuple(
            Taint(str(taint.get("key") or ""), str(taint.get("value") or ""), str(taint.get("effect") or ""))
            for taint in taints
        ),
        capacity=resources(status.get("capacity"), "status.capacity"),
        allocatable=resources(status.get("allocatable"), "status.allocatable"),
        kubelet_version=_text(_mapping(status.get("nodeInfo"), "status.nodeInfo").get("kubeletVersion")),
    )


def _container(value: object, field: str) -> Container:
    raw = _mapping(value, field)
    asked = _mapping(raw.get("resources"), f"{field}.resources")
    return Container(
        name=str(raw.get("name") or ""),
        image=str(raw.get("image") or ""),
        requests=resources(asked.get("requests"), f"{field}.resources.requests"),
        limits=resources(asked.get("limits"), f"{field}.resources.limits"),
        restart_policy=_text(raw.get("restartPolicy")),
        raw=raw,
    )


def resources(value: object, field: str) -> Resources:
    """A resource list as `Resources`: cpu in millicores, all others in whole units, rounded up."""
    listed = _mapping(value, field)
    made: dict[str, int] = {}
    for name, amount in listed.items():
        try:
            parsed = quantity.parse(amount)
        except InputError as error:
            raise _Broken(f"{field}.{name}", error.message) from None
        made[intern(str(name))] = parsed.milli if name == "cpu" else parsed.value
    return made


def toleration(value: object) -> Toleration:
    """One toleration as written; an absent operator is Equal."""
    raw = _mapping(value, "tolerations")
    seconds = raw.get("tolerationSeconds")
    return Toleration(
        key=str(raw.get("key") or ""),
        operator=str(raw.get("operator") or "Equal"),
        value=str(raw.get("value") or ""),
        effect=str(raw.get("effect") or ""),
        seconds=seconds if isinstance(seconds, int) else None,
    )


def _owner(value: object) -> OwnerRef:
    raw = _mapping(value, "metadata.ownerReferences")
    return OwnerRef(
        kind=str(raw.get("kind") or ""),
        name=str(raw.get("name") or ""),
        uid=str(raw.get("uid") or ""),
        controller=raw.get("controller") is True,
        api_version=str(raw.get("apiVersion") or ""),
    )


def _mapping(value: object, field: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _Broken(field, f"{field or 'the object'} is {_kind_of(value)}, not a mapping")
    return value


def _sequence(value: object, field: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _Broken(field, f"{field} is {_kind_of(value)}, not a list")
    return value


def _strings(value: object, field: str) -> Mapping[str, str]:
    return {intern(str(key)): intern(_as_text(item)) for key, item in _mapping(value, field).items()}


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else "" if value is None else str(value)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _kind_of(value: object) -> str:
    return {str: "a text", bool: "true or false", int: "a number", float: "a number", list: "a list"}.get(
        type(value), type(value).__name__
    )


def _ref(value: object) -> str | None:
    if not isinstance(value, Mapping):
        return None
    meta = value.get("metadata")
    name = meta.get("name") if isinstance(meta, Mapping) else None
    namespace = meta.get("namespace") if isinstance(meta, Mapping) else None
    where = f"{namespace}/{name}" if namespace else str(name or "")
    return f"{value.get('kind') or 'object'} {where}".strip()
