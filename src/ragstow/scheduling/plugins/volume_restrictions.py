"""VolumeRestrictions: disks that cannot be mounted twice, and ReadWriteOncePod claims (plugins/volumerestrictions)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragstow.cluster.objects import Pod
from ragstow.errors import Reason
from ragstow.scheduling.behaviours import RWOP_TEXT_LONG
from ragstow.scheduling.framework import (
    SKIP,
    CycleState,
    FilterPlugin,
    Handle,
    PreFilterPlugin,
    StateKey,
    Status,
    unresolvable,
    unschedulable,
)
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.volumes.cluster import VolumeCluster
from ragstow.scheduling.volumes.model import claims_of
from ragstow.scheduling.volumes.restrictions import conflict, disks

DISK_CONFLICT = "node(s) had no available disk"
_IN_USE = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
_IN_USE_OLD = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"


@dataclass(slots=True)
class _Cycle:
    disks: tuple[Mapping[str, Any], ...]
    once: frozenset[str]
    conflicts: int

    def clone(self) -> _Cycle:
        """A copy for preemption."""
        return _Cycle(self.disks, self.once, self.conflicts)


_KEY: StateKey[_Cycle] = StateKey("VolumeRestrictions")


class VolumeRestrictions(PreFilterPlugin, FilterPlugin):
    """See the module."""

    name = "VolumeRestrictions"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._cluster = handle.world.view(VolumeCluster)
        self._in_use = unschedulable(_IN_USE if RWOP_TEXT_LONG.at(handle.release) else _IN_USE_OLD)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """Finds ReadWriteOncePod claims that other pods use; Skip where nothing can conflict."""
        once: set[str] = set()
        for name in _plain_claims(pod.pod):
            claim = self._cluster.claim(pod.namespace, name)
            if claim is None:
                return unresolvable(f'persistentvolumeclaim "{name}" not found')
            if "ReadWriteOncePod" in claim.access_modes:
                once.add(name)
        found = disks(pod.pod)
        conflicts = len(self._used(pod, once)) if once else 0
        if not found and not conflicts:
            return SKIP
        state.write(_KEY, _Cycle(found, frozenset(once), conflicts))
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Counts the claims of the pod."""
        cycle = state.read(_KEY)
        cycle.conflicts += sum(name in cycle.once for name in _plain_claims(added.pod))

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Uncounts the claims of the pod."""
        cycle = state.read(_KEY)
        cycle.conflicts -= sum(name in cycle.once for name in _plain_claims(removed.pod))

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refused by a conflicting disk on the node, or a claim in use anywhere."""
        cycle = state.read(_KEY)
        if cycle.disks and _holder(cycle.disks, node) is not None:
            return unschedulable(DISK_CONFLICT)
        return self._in_use if cycle.conflicts > 0 else None

    def explain(self, state: CycleState, pod: PodInfo, node: NodeInfo, status: Status) -> tuple[Reason, ...]:
        """Who holds the disk or the claim."""
        cycle = state.read(_KEY)
        if DISK_CONFLICT in status.texts:
            holder = _holder(cycle.disks, node)
            return (
                Reason("disk-in-use", f"{node.name}: {holder.key if holder else 'another pod'} mounts a disk of {pod.key}"),
            )
        users = sorted(self._used(pod, set(cycle.once)).items())
        text = "; ".join(f"claim {name} is used by {user} and is ReadWriteOncePod" for name, user in users)
        return (Reason("claim-in-use", f"{node.name}: {text}"),)

    def _used(self, pod: PodInfo, once: set[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for other, _ in self.handle.world.placed:
            if other.namespace == pod.namespace:
                for name in _plain_claims(other.pod):
                    if name in once:
                        found.setdefault(name, other.key)
        return found


def _plain_claims(pod: Pod) -> list[str]:
    return [item.claim for item in claims_of(pod) if not item.ephemeral]


def _holder(wanted: Sequence[Mapping[str, Any]], node: NodeInfo) -> PodInfo | None:
    for item in wanted:
        for other in node.pods:
            if any(conflict(item, disk) for disk in disks(other.pod)):
                return other
    return None
