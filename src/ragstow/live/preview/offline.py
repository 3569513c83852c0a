"""What applying would change as far as reading tells: manifests beside the objects that were read, no dry run. Pure.

Live objects are read without their private values, so the manifest is looked at without them too; the server's defaults
count as written. A change of a private value alone is therefore not seen: the dry run sees it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.cluster.objects import KubeObject
from ragstow.cluster.snapshot import Snapshot
from ragstow.live.preview.fields import changes, shown
from ragstow.live.preview.model import ObjectPreview, What
from ragstow.live.redact import redact
from ragstow.render.actions import Action, ApplyObject, DeleteObject, HelmUpgrade, MergePatch, Procedure, SetLabels
from ragstow.simulate.sameness import contained


def compare(snapshot: Snapshot, procedure: Procedure) -> tuple[ObjectPreview, ...]:
    """Everything that a procedure writes, in its order; labels of one node together."""
    found: list[ObjectPreview] = []
    labels: dict[str, dict[str, str | None]] = {}
    for action in procedure.actions:
        if isinstance(action, SetLabels):
            known = action.node in labels
            wishes = labels.setdefault(action.node, {})
            wishes.update(dict.fromkeys(action.gone))
            wishes.update(action.labels)
            if known:
                continue
        found += _one(snapshot, action)
    return tuple(_labelled(snapshot, item, labels[item.name]) if item.kind == "Node" else item for item in found)


def _one(snapshot: Snapshot, action: Action) -> Iterator[ObjectPreview]:
    if isinstance(action, ApplyObject):
        meta = action.manifest["metadata"]
        what = str(action.manifest["apiVersion"]), str(action.manifest["kind"])
        yield _object(snapshot, *what, str(meta.get("namespace") or ""), str(meta["name"]), action.manifest, "create")
    elif isinstance(action, MergePatch):
        there = (action.api_version, action.kind, action.namespace, action.name)
        yield _object(snapshot, *there, action.patch, "unknown")
    elif isinstance(action, HelmUpgrade):
        data = {"kind": "ConfigMap", "data": dict(action.data)}
        yield _object(snapshot, "v1", "ConfigMap", action.namespace, action.config_map, data, "create")
    elif isinstance(action, DeleteObject):
        live = _get(snapshot, action.api_version, action.kind, action.namespace, action.name)
        change: What = "delete" if live is not None else "same"
        yield ObjectPreview(action.api_version, action.kind, action.namespace, action.name, change)
    elif isinstance(action, SetLabels):
        yield ObjectPreview("v1", "Node", "", action.node, "unknown")


def _object(
    snapshot: Snapshot, api_version: str, kind: str, namespace: str, name: str, written: Mapping[str, Any], absent: What
) -> ObjectPreview:
    live = _get(snapshot, api_version, kind, namespace, name)
    if live is None:
        problem = f"there is no {kind} {namespace}/{name}".replace(" /", " ") if absent == "unknown" else ""
        return ObjectPreview(api_version, kind, namespace, name, absent, problem=problem)
    wished = shown(redact({"kind": kind, **written})) or {}
    if written.get("metadata") is None:
        wished.pop("metadata", None)
    what: What = "same" if contained(wished, live.raw) else "change"
    return ObjectPreview(api_version, kind, namespace, name, what)


def _labelled(snapshot: Snapshot, item: ObjectPreview, wishes: Mapping[str, str | None]) -> ObjectPreview:
    node = snapshot.get("Node", item.name)
    if node is None:
        return ObjectPreview("v1", "Node", "", item.name, "unknown", problem=f"there is no node {item.name}")
    after = {key: value for key, value in {**node.labels, **wishes}.items() if value is not None}
    found = tuple(changes(dict(node.labels), after, ".metadata.labels"))
    return ObjectPreview("v1", "Node", "", item.name, "change" if found else "same", found)


def _get(snapshot: Snapshot, api_version: str, kind: str, namespace: str, name: str) -> KubeObject | None:
    return snapshot.get(kind, name, namespace, group=api_version.rpartition("/")[0])
