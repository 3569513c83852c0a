"""The storage side of a cluster while a simulation runs: claims and volumes change as pods are placed.

What a real cluster does after the scheduler's decision happens here at once: a chosen volume is bound to its claim, and a
provisioner makes the volume of a claim that has none, in the zone of the chosen node.
"""

from __future__ import annotations

from dataclasses import replace

from ragstow.cluster.objects import Node
from ragstow.quantity import Quantity
from ragstow.scheduling.selectors import node_selector
from ragstow.scheduling.volumes import model
from ragstow.scheduling.volumes.free import FreeVolumes
from ragstow.scheduling.volumes.migration import DRIVERS
from ragstow.scheduling.volumes.model import CsiDriver, CsiNode, StorageCapacity, StorageClass, Volume, VolumeClaim
from ragstow.scheduling.world import World

STORAGE = "storage.k8s.io"
ZONE = "topology.kubernetes.io/zone"


class VolumeCluster:
    """See the module; use `world.view(VolumeCluster)`, so that all plugins see the same."""

    def __init__(self, world: World) -> None:
        self._claims: dict[tuple[str, str], VolumeClaim] = {
            (item.namespace, item.name): model.volume_claim(item) for item in world.objects("PersistentVolumeClaim")
        }
        self._volumes: dict[str, Volume] = {item.name: model.volume(item) for item in world.objects("PersistentVolume")}
        self._by_class: dict[str, FreeVolumes] = {}
        for volume in self._volumes.values():
            self._by_class.setdefault(volume.class_name, FreeVolumes()).put(volume)
        self.classes: dict[str, StorageClass] = {
            item.name: model.storage_class(item) for item in world.objects("StorageClass", STORAGE)
        }
        self.drivers: dict[str, CsiDriver] = {item.name: model.csi_driver(item) for item in world.objects("CSIDriver", STORAGE)}
        self.csi_nodes: dict[str, CsiNode] = {item.name: model.csi_node(item) for item in world.objects("CSINode", STORAGE)}
        self._capacities: dict[str, list[StorageCapacity]] = {}
        for item in sorted(world.objects("CSIStorageCapacity", STORAGE), key=lambda entry: (entry.namespace, entry.name)):
            capacity = model.storage_capacity(item)
            self._capacities.setdefault(capacity.class_name, []).append(capacity)
        self._attached: dict[str, list[tuple[str, str]]] = {}
        for item in world.objects("VolumeAttachment", STORAGE):
            spec = item.raw.get("spec") or {}
            source = (spec.get("source") or {}).get("persistentVolumeName")
            if source and spec.get("attacher"):
                self._attached.setdefault(str(spec.get("nodeName") or ""), []).append((str(spec["attacher"]), str(source)))

    def claim(self, namespace: str, name: str) -> VolumeClaim | None:
        """A claim as it is now."""
        return self._claims.get((namespace, name))

    def volume(self, name: str) -> Volume | None:
        """A volume as it is now."""
        return self._volumes.get(name)

    def candidates(self, claim: VolumeClaim, node: Node) -> list[Volume]:
        """Volumes of the claim's class that it may get on the node, by name (the original's order is that of a map: ties there
        are decided by chance); others of the class are reserved for other claims, or out of the node's reach."""
        known = self._by_class.get(claim.class_name)
        return [] if known is None else [self._volumes[name] for name in known.candidates(claim, node)]

    def capacities_of(self, class_name: str) -> list[StorageCapacity]:
        """The storage capacities published for a class."""
        return self._capacities.get(class_name, [])

    def attachments(self, node: str) -> dict[str, str]:
        """Volumes that VolumeAttachments name for a node: driver/handle -> driver."""
        found = {}
        for driver, name in self._attached.get(node, ()):
            known = self._volumes.get(name)
            if known is not None and known.csi is not None and known.csi[1]:
                found[f"{driver}/{known.csi[1]}"] = driver
        return found

    def bind(self, claim: VolumeClaim, chosen: Volume) -> None:
        """Binds a claim and an existing volume to each other."""
        reference = (claim.namespace, claim.name, claim.uid)
        bound = replace(chosen, claim=reference, phase="Bound")
        self._by_class.setdefault(bound.class_name, FreeVolumes()).put(bound, self._volumes.get(chosen.name))
        self._volumes[chosen.name] = bound
        self._claims[(claim.namespace, claim.name)] = replace(claim, volume_name=chosen.name, bound=True, phase="Bound")

    def provision(self, claim: VolumeClaim, node: Node) -> Volume:
        """Makes the volume for a claim: called provisioned-CLAIM, reachable from the node's zone."""
        zone = node.labels.get(ZONE)
        terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
        known = self.classes.get(claim.class_name)
        provisioner = known.provisioner if known is not None else ""
        name = f"provisioned-{claim.name}"
        if name in self._volumes:
            name = f"provisioned-{claim.namespace}-{claim.name}"
        made = Volume(
            name=name,
            labels={},
            class_name=claim.class_name,
            capacity=claim.requested or Quantity(0),
            access_modes=claim.access_modes,
            mode=claim.mode,
            attributes_class=claim.attributes_class,
            nodes=node_selector(terms) if zone else None,
            claim=None,
            phase="Bound",
            deleted=False,
            csi=(DRIVERS.get(provisioner, provisioner), name),
        )
        self.bind(claim, made)
        return made
