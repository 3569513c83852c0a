"""NodeVolumeLimits: how many volumes of a CSI driver a node can attach (plugins/nodevolumelimits/csi.go).

A volume that several pods of the node use counts once; a claim without a volume counts under its class's provisioner. Volumes
of in-tree plugins count under the CSI driver that serves them now, on nodes that have a CSINode object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ragstow.cluster.objects import Pod
from ragstow.errors import Reason
from ragstow.scheduling.behaviours import CSI_DRIVER_CHECK, PORTWORX_MIGRATED
from ragstow.scheduling.framework import (
    SKIP,
    CycleState,
    FilterPlugin,
    Handle,
    PreFilterPlugin,
    Status,
    failure,
    unresolvable,
    unschedulable,
)
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.volumes import migration
from ragstow.scheduling.volumes.cluster import VolumeCluster
from ragstow.scheduling.volumes.model import CsiNode, VolumeClaim, claims_of

LIMIT_EXCEEDED = "node(s) exceed max volume count"


class _Missing(Exception):
    """A claim of an arriving pod does not exist."""


class NodeVolumeLimits(PreFilterPlugin, FilterPlugin):
    """See the module."""

    name = "NodeVolumeLimits"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._cluster = handle.world.view(VolumeCluster)
        self._known: dict[str, tuple[int, dict[str, str]]] = {}
        self._check_driver = CSI_DRIVER_CHECK.at(handle.release)
        self._portworx = PORTWORX_MIGRATED.at(handle.release)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """Skip for a pod without claims and disks."""
        inline = any(migration.translated(item) for item in pod.pod.spec.get("volumes") or ())
        return None if inline or any(claims_of(pod.pod)) else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refused where a driver's limit would be exceeded."""
        csi_node = self._cluster.csi_nodes.get(node.name)
        try:
            wanted = self._volumes(pod.pod, csi_node, new=True)
        except _Missing as error:
            return unresolvable(str(error))
        except ValueError as error:
            return failure(str(error))
        if not wanted:
            return None
        if self._check_driver:
            for driver in sorted(set(wanted.values())):
                known = self._cluster.drivers.get(driver)
                if known and known.required_on_node and (csi_node is None or driver not in csi_node.limits):
                    return unschedulable(f"{driver} CSI driver is not installed on the node")
        limits = {driver: limit for driver, limit in (csi_node.limits if csi_node else {}).items() if limit is not None}
        if not limits:
            return None
        try:
            attached, added = self._counts(wanted, node)
        except ValueError as error:
            return failure(str(error))
        exceeded = any(driver in limits and attached[driver] + count > limits[driver] for driver, count in added.items())
        return unschedulable(LIMIT_EXCEEDED) if exceeded else None

    def explain(self, state: CycleState, pod: PodInfo, node: NodeInfo, status: Status) -> tuple[Reason, ...]:
        """The driver and the numbers."""
        csi_node = self._cluster.csi_nodes.get(node.name)
        if LIMIT_EXCEEDED not in status.texts or csi_node is None:
            return super().explain(state, pod, node, status)
        attached, added = self._counts(self._volumes(pod.pod, csi_node, new=True), node)
        return tuple(
            Reason(
                "volume-limit",
                f"{node.name}: {driver} can attach {limit} volumes, {attached[driver]} are attached, "
                f"{pod.key} needs {added[driver]} more",
            )
            for driver, limit in sorted(csi_node.limits.items())
            if limit is not None and added[driver] and attached[driver] + added[driver] > limit
        )

    def _counts(self, wanted: dict[str, str], node: NodeInfo) -> tuple[Counter[str], Counter[str]]:
        here = self._here(node)
        listed = {name: driver for name, driver in self._cluster.attachments(node.name).items() if name not in here}
        attached = Counter([*here.values(), *listed.values()])
        return attached, Counter(driver for name, driver in wanted.items() if name not in here)

    def _here(self, node: NodeInfo) -> dict[str, str]:
        """Volumes of the node's pods; kept while the same pods run there, where all their claims are bound for good."""
        own = self.handle.world.node(node.name) is node
        known = self._known.get(node.name) if own else None
        if known is not None and known[0] == node.generation:
            return known[1]
        found: dict[str, str] = {}
        csi_node = self._cluster.csi_nodes.get(node.name)
        for other in node.pods:
            found.update(self._volumes(other.pod, csi_node, new=False))
        if own and all(self._bound(other.pod) for other in node.pods):
            self._known[node.name] = (node.generation, found)
        return found

    def _bound(self, pod: Pod) -> bool:
        claims = (self._cluster.claim(pod.namespace, item.claim) for item in claims_of(pod))
        return all(claim is not None and claim.volume_name for claim in claims)

    def _volumes(self, pod: Pod, csi_node: CsiNode | None, *, new: bool) -> dict[str, str]:
        found: dict[str, str] = {}
        for volume in pod.spec.get("volumes") or ():
            disk = migration.translated(volume)
            if disk is not None and self._migrated(disk[0], csi_node):
                found[f"{migration.DRIVERS[disk[0]]}/{disk[1]}"] = migration.DRIVERS[disk[0]]
        for item in claims_of(pod):
            if not item.claim:
                raise ValueError("PersistentVolumeClaim had no name")
            claim = self._cluster.claim(pod.namespace, item.claim)
            if claim is None:
                if new:
                    raise _Missing(
                        f'looking up PVC {pod.namespace}/{item.claim}: persistentvolumeclaim "{item.claim}" not found'
                    )
                continue
            if item.ephemeral and claim.owner_uid != pod.uid:
                raise ValueError(f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)")
            identity = self._identity(claim, csi_node)
            if identity is not None:
                found[f"{identity[0]}/{identity[1]}"] = identity[0]
        return found

    def _identity(self, claim: VolumeClaim, csi_node: CsiNode | None) -> tuple[str, str] | None:
        volume = self._cluster.volume(claim.volume_name) if claim.volume_name else None
        if volume is not None and volume.csi is not None:
            return volume.csi if all(volume.csi) else None
        if volume is not None:
            disk = volume.in_tree
            return (migration.DRIVERS[disk[0]], disk[1]) if disk is not None and self._migrated(disk[0], csi_node) else None
        known = self._cluster.classes.get(claim.class_name) if claim.class_name else None
        provisioner = known.provisioner if known is not None else ""
        if provisioner in migration.DRIVERS:
            provisioner = migration.DRIVERS[provisioner] if self._migrated(provisioner, csi_node) else ""
        return (provisioner, f"unbound-{claim.key}") if provisioner and provisioner not in migration.UNCOUNTED else None

    def _migrated(self, plugin: str, csi_node: CsiNode | None) -> bool:
        if csi_node is None:
            return False
        return plugin != migration.PORTWORX or self._portworx or plugin in csi_node.migrated
