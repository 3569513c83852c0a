"""What changed just before: rollouts and the fields they changed, nodes that joined, objects that were edited.

Only what the data show: times of creation, ReplicaSets and ControllerRevisions of a workload, managedFields where they were
saved. Whether a change is the cause is for a person to judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from ragstow.cluster.objects import KubeObject
from ragstow.cluster.snapshot import Snapshot
from ragstow.rules.model import ObjectRef
from ragstow.rules.times import parse

_BEFORE = timedelta(hours=24)
_AFTER = timedelta(minutes=2)
"""A pod is seen Pending within seconds of the rollout that made it; clocks of nodes differ by less than this."""
_MOST_FIELDS = 3
_MOST_CHANGES = 4
_REVISION = "deployment.kubernetes.io/revision"
_WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet")


class Changes:
    """Change look-ups over one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def before(self, refs: Iterable[ObjectRef], since: str) -> tuple[str, ...]:
        """What changed on these objects within the day before `since` (RFC 3339), newest first, one sentence each."""
        moment = parse(since)
        if moment is None:
            return ()
        found: dict[str, datetime] = {}
        for ref in dict.fromkeys(refs):
            for when, text in self._of(ref):
                if moment - _BEFORE <= when <= moment + _AFTER:
                    found[f"{text}, at {when:%Y-%m-%dT%H:%M:%SZ}"] = when
        newest = sorted(found, key=lambda text: found[text], reverse=True)
        return tuple(newest[:_MOST_CHANGES])

    def _of(self, ref: ObjectRef) -> Iterator[tuple[datetime, str]]:
        if ref.kind in _WORKLOADS:
            yield from self._rollout(ref)
        elif ref.kind == "Node":
            node = self._snapshot.get("Node", ref.name)
            joined = parse(node.created if node is not None else None)
            if joined is not None:
                yield joined, f"{ref} joined"
        elif ref.kind in ("ConfigMap", "ClusterPolicy", "ResourceQuota", "NodePool"):
            yield from self._edits(ref)

    def _rollout(self, ref: ObjectRef) -> Iterator[tuple[datetime, str]]:
        """The newest revision of a workload, against the one before it."""
        revisions = self._revisions.get(ref, ())
        if not revisions:
            return
        new = revisions[-1]
        when = parse(new.created)
        if when is None:
            return
        if len(revisions) == 1:
            yield when, f"{ref} was created"
            return
        fields = _differences(_template(revisions[-2]), _template(new))
        shown = "; ".join(fields[:_MOST_FIELDS]) + (
            f"; and {len(fields) - _MOST_FIELDS} more" if len(fields) > _MOST_FIELDS else ""
        )
        yield when, f"{ref} was rolled out anew" + (f" ({shown})" if fields else "")

    @cached_property
    def _revisions(self) -> Mapping[ObjectRef, tuple[KubeObject, ...]]:
        """Revisions of each workload, oldest first."""
        table: dict[ObjectRef, list[KubeObject]] = {}
        for kind in ("ReplicaSet", "ControllerRevision"):
            for item in self._snapshot.of(kind, "apps"):
                owner = item.controller
                if owner is not None and owner.kind in _WORKLOADS:
                    table.setdefault(ObjectRef(owner.kind, item.namespace, owner.name), []).append(item)
        return {ref: tuple(sorted(items, key=_order)) for ref, items in table.items()}

    def _edits(self, ref: ObjectRef) -> Iterator[tuple[datetime, str]]:
        for (_, kind), table in self._snapshot.objects.items():
            item = table.get((ref.namespace, ref.name)) if kind == ref.kind else None
            if item is None:
                continue
            created = parse(item.created)
            if created is not None:
                yield created, f"{ref} was created"
            for entry in _list(_mapping(item.raw.get("metadata")).get("managedFields")):
                when = parse(_mapping(entry).get("time"))
                if when is not None and (created is None or when - created > _AFTER):
                    yield when, f"{ref} was edited by {_mapping(entry).get('manager') or 'somebody'}"


def _order(item: KubeObject) -> tuple[int, str, str]:
    number = item.annotations.get(_REVISION) or str(item.raw.get("revision") or "")
    return (int(number) if number.isdecimal() else 0, item.created or "", item.name)


def _template(revision: KubeObject) -> Mapping[str, Any]:
    """The pod template of a ReplicaSet (spec.template) or ControllerRevision (data.spec.template)."""
    spec = _mapping(revision.raw.get("spec")) or _mapping(_mapping(revision.raw.get("data")).get("spec"))
    return _mapping(spec.get("template"))


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    before, after = dict(_leaves(old)), dict(_leaves(new))
    return [
        f"{path} {before.get(path, 'absent')} -> {after.get(path, 'absent')}"
        for path in sorted(before.keys() | after.keys(), key=lambda path: (not path.endswith("image"), path))
        if before.get(path) != after.get(path)
    ]


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Path -> value of everything in a template; members of a list go by their name where they have one."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key not in ("pod-template-hash", "creationTimestamp"):
                yield from _leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            name = item.get("name") if isinstance(item, Mapping) else None
            yield from _leaves(item, f"{path}[{name or index}]")
    else:
        text = str(value)
        yield path, text if len(text) <= 60 else text[:57] + "..."


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
