"""VolumeZone: the zone and region labels of bound volumes (plugins/volumezone). Newer volumes say it in their node affinity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragstow.errors import Reason
from ragstow.scheduling.framework import (
    SKIP,
    CycleState,
    FilterPlugin,
    Handle,
    PreFilterPlugin,
    StateKey,
    Status,
    unresolvable,
)
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.volumes.cluster import VolumeCluster
from ragstow.scheduling.volumes.model import WAIT, Volume, VolumeClaim, claims_of

ZONE_CONFLICT = unresolvable("node(s) had no available volume zone")

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_OLD = {
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
}
_LABELS = (*_OLD, _ZONE, _REGION)


@dataclass(frozen=True, slots=True)
class _Topology:
    volume: str
    key: str
    values: frozenset[str]


_KEY: StateKey[Sequence[_Topology]] = StateKey("VolumeZone")


class VolumeZone(PreFilterPlugin, FilterPlugin):
    """See the module."""

    name = "VolumeZone"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._cluster = handle.world.view(VolumeCluster)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """Collects the labels of the bound volumes; Skip where there are none."""
        found: list[_Topology] = []
        for item in claims_of(pod.pod):
            if item.ephemeral:
                continue
            claim = self._cluster.claim(pod.namespace, item.claim)
            if claim is None:
                return unresolvable(f'persistentvolumeclaim "{item.claim}" not found')
            if not claim.volume_name:
                problem = self._unbound(claim)
                if problem is not None:
                    return problem
                continue
            volume = self._cluster.volume(claim.volume_name)
            if volume is None:
                return unresolvable(f'persistentvolume "{claim.volume_name}" not found')
            found.extend(_topologies(volume))
        if not found:
            return SKIP
        state.write(_KEY, tuple(found))
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refused where a label of a volume does not match; a node without any such label passes."""
        return None if _mismatch(state.read(_KEY), node) is None else ZONE_CONFLICT

    def explain(self, state: CycleState, pod: PodInfo, node: NodeInfo, status: Status) -> tuple[Reason, ...]:
        """The volume, the label and both values."""
        wrong = _mismatch(state.read(_KEY), node)
        if wrong is None:
            return super().explain(state, pod, node, status)
        here = node.labels.get(_OLD.get(wrong.key, wrong.key), "not set")
        return (
            Reason(
                "volume-zone",
                f"{node.name}: {wrong.key} is {here}, volume {wrong.volume} is in {', '.join(sorted(wrong.values))}",
            ),
        )

    def _unbound(self, claim: VolumeClaim) -> Status | None:
        if not claim.class_name:
            return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
        known = self._cluster.classes.get(claim.class_name)
        if known is None:
            return unresolvable(f'storageclass.storage.k8s.io "{claim.class_name}" not found')
        return None if known.binding_mode == WAIT else unresolvable("PersistentVolume had no name")


def _topologies(volume: Volume) -> list[_Topology]:
    found = []
    for key in _LABELS:
        if key in volume.labels:
            values = [part.strip() for part in volume.labels[key].split("__")]
            if all(values):
                found.append(_Topology(volume.name, key, frozenset(values)))
    return found


def _mismatch(topologies: Sequence[_Topology], node: NodeInfo) -> _Topology | None:
    if not any(label in node.labels for label in _LABELS):
        return None
    for topology in topologies:
        here = node.labels.get(topology.key, node.labels.get(_OLD.get(topology.key, topology.key)))
        if here is None or here not in topology.values:
            return topology
    return None
