"""Disks written into pods that cannot be mounted twice.

The same GCE persistent disk, RBD image or iSCSI target may be used by several pods of a node only if all mount it read-only,
the same AWS disk never. Source: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstow.cluster.objects import Pod

Raw = Mapping[str, Any]

_KINDS = ("gcePersistentDisk", "awsElasticBlockStore", "rbd", "iscsi")


def disks(pod: Pod) -> tuple[Raw, ...]:
    """The pod's volumes that can conflict."""
    return tuple(item for item in pod.spec.get("volumes") or () if any(item.get(kind) is not None for kind in _KINDS))


def conflict(one: Raw, other: Raw) -> bool:
    """Whether two volumes may not be on one node together."""
    for kind in _KINDS:
        left, right = one.get(kind), other.get(kind)
        if left is not None and right is not None and _same(kind, left, right):
            read_only = left.get("readOnly") is True and right.get("readOnly") is True
            return kind == "awsElasticBlockStore" or not read_only
    return False


def _same(kind: str, left: Raw, right: Raw) -> bool:
    if kind == "gcePersistentDisk":
        return left.get("pdName") == right.get("pdName")
    if kind == "awsElasticBlockStore":
        return left.get("volumeID") == right.get("volumeID")
    if kind == "iscsi":
        return left.get("iqn") == right.get("iqn")
    pools = (left.get("pool") or "rbd", right.get("pool") or "rbd")
    monitors = set(left.get("monitors") or ()) & set(right.get("monitors") or ())
    return bool(monitors) and pools[0] == pools[1] and left.get("image") == right.get("image")
