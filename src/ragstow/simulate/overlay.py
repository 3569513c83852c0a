"""A Node of a file over the one that the cluster has.

A manifest that names a node to label or taint it says nothing of the node's size; as for `kubectl apply`, what it leaves out
stays. A Node with a status of its own replaces the cluster's. Other kinds are not for this room.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstow.cluster.objects import KubeObject, Node
from ragstow.cluster.snapshot import Snapshot
from ragstow.simulate.workload import made

_METADATA = ("labels", "annotations")


def overlaid(snapshot: Snapshot, given: KubeObject) -> KubeObject:
    """The object as it is once it was applied: a partial Node joined with the cluster's, anything else as given."""
    if not isinstance(given, Node) or given.capacity or given.allocatable:
        return given
    there = snapshot.get("Node", given.name)
    if there is None:
        return given
    meta, spec = _part(there.raw, "metadata"), _part(there.raw, "spec")
    new_meta = _part(given.raw, "metadata")
    for key in _METADATA:
        if _part(new_meta, key):
            meta[key] = {**_part(meta, key), **_part(new_meta, key)}
    return made({**there.raw, "metadata": meta, "spec": {**spec, **_part(given.raw, "spec")}})


def _part(raw: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = raw.get(key)
    return dict(value) if isinstance(value, Mapping) else {}
