"""Claims, volumes, storage classes and CSI objects as frozen values, read from the API objects.

Nothing here decides. Absent fields are "", None or empty, as in the API. The legacy annotation for the storage class counts
first, as everywhere in Kubernetes (k8s.io/component-helpers/storage/volume/helpers.go).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ragstow.cluster.objects import KubeObject, Pod
from ragstow.quantity import Quantity
from ragstow.quantity import parse as parse_quantity
from ragstow.scheduling.selectors import NOTHING, NodeSelector, Selector, label_selector, node_selector
from ragstow.scheduling.volumes.migration import translated

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
BOUND_ANNOTATION = "pv.kubernetes.io/bind-completed"
SELECTED_NODE_ANNOTATION = "volume.kubernetes.io/selected-node"
MIGRATED_ANNOTATION = "storage.alpha.kubernetes.io/migrated-plugins"
WAIT = "WaitForFirstConsumer"

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim; `bound` means that the binding is completed."""

    namespace: str
    name: str
    uid: str
    class_name: str
    volume_name: str
    bound: bool
    requested: Quantity | None
    access_modes: tuple[str, ...]
    mode: str
    selector: Selector | None
    attributes_class: str
    selected_node: str | None
    phase: str
    deleted: bool
    owner_uid: str

    @property
    def key(self) -> str:
        """ "namespace/name"."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume; `claim` is (namespace, name, uid) of its claimRef, `csi` (driver, handle)."""

    name: str
    labels: Mapping[str, str]
    class_name: str
    capacity: Quantity
    access_modes: tuple[str, ...]
    mode: str
    attributes_class: str
    nodes: NodeSelector | None
    claim: tuple[str, str, str] | None
    phase: str
    deleted: bool
    csi: tuple[str, str] | None
    in_tree: tuple[str, str] | None = None
    """(plugin, handle under its CSI driver) of a volume of an in-tree plugin."""

    def claimed_by(self, claim: VolumeClaim) -> bool:
        """Whether the volume is bound to this claim, by name and (where given) uid."""
        if self.claim is None:
            return False
        namespace, name, uid = self.claim
        return (namespace, name) == (claim.namespace, claim.name) and uid in ("", claim.uid)


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A StorageClass; `topologies` are its allowedTopologies: alternatives of (key, values)."""

    name: str
    provisioner: str
    binding_mode: str
    topologies: tuple[tuple[tuple[str, frozenset[str]], ...], ...]


@dataclass(frozen=True, slots=True)
class CsiDriver:
    """A CSIDriver."""

    name: str
    checks_capacity: bool
    required_on_node: bool
    """preventPodSchedulingIfMissing."""


@dataclass(frozen=True, slots=True)
class CsiNode:
    """A CSINode: driver -> volumes that can be attached (None: no limit); `migrated` in-tree plugins by its annotation."""

    name: str
    limits: Mapping[str, int | None]
    migrated: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StorageCapacity:
    """A CSIStorageCapacity."""

    name: str
    class_name: str
    nodes: Selector
    capacity: Quantity | None
    largest: Quantity | None


def volume_claim(item: KubeObject) -> VolumeClaim:
    """Reads a PersistentVolumeClaim."""
    spec: Raw = item.raw.get("spec") or {}
    requests = (spec.get("resources") or {}).get("requests") or {}
    selector = spec.get("selector")
    owner = item.controller
    return VolumeClaim(
        namespace=item.namespace,
        name=item.name,
        uid=item.uid,
        class_name=_class_name(item, spec),
        volume_name=str(spec.get("volumeName") or ""),
        bound=bool(spec.get("volumeName")) and BOUND_ANNOTATION in item.annotations,
        requested=None if requests.get("storage") is None else parse_quantity(requests["storage"]),
        access_modes=tuple(spec.get("accessModes") or ()),
        mode=str(spec.get("volumeMode") or "Filesystem"),
        selector=None if selector is None else label_selector(selector),
        attributes_class=str(spec.get("volumeAttributesClassName") or ""),
        selected_node=item.annotations.get(SELECTED_NODE_ANNOTATION),
        phase=str((item.raw.get("status") or {}).get("phase") or ""),
        deleted=item.deleted is not None,
        owner_uid=owner.uid if owner else "",
    )


def volume(item: KubeObject) -> Volume:
    """Reads a PersistentVolume."""
    spec: Raw = item.raw.get("spec") or {}
    required = (spec.get("nodeAffinity") or {}).get("required")
    reference = spec.get("claimRef")
    csi = spec.get("csi")
    return Volume(
        name=item.name,
        labels=item.labels,
        class_name=_class_name(item, spec),
        capacity=parse_quantity((spec.get("capacity") or {}).get("storage") or "0"),
        access_modes=tuple(spec.get("accessModes") or ()),
        mode=str(spec.get("volumeMode") or "Filesystem"),
        attributes_class=str(spec.get("volumeAttributesClassName") or ""),
        nodes=None if required is None else node_selector(required.get("nodeSelectorTerms") or ()),
        claim=None if reference is None else tuple(str(reference.get(key) or "") for key in ("namespace", "name", "uid")),  # type: ignore[arg-type]
        phase=str((item.raw.get("status") or {}).get("phase") or ""),
        deleted=item.deleted is not None,
        csi=None if csi is None else (str(csi.get("driver") or ""), str(csi.get("volumeHandle") or "")),
        in_tree=translated(spec, item.labels),
    )


def storage_class(item: KubeObject) -> StorageClass:
    """Reads a StorageClass."""
    return StorageClass(
        name=item.name,
        provisioner=str(item.raw.get("provisioner") or ""),
        binding_mode=str(item.raw.get("volumeBindingMode") or "Immediate"),
        topologies=tuple(
            tuple((str(one.get("key")), frozenset(one.get("values") or ())) for one in term.get("matchLabelExpressions") or ())
            for term in item.raw.get("allowedTopologies") or ()
        ),
    )


def csi_driver(item: KubeObject) -> CsiDriver:
    """Reads a CSIDriver."""
    spec: Raw = item.raw.get("spec") or {}
    return CsiDriver(item.name, spec.get("storageCapacity") is True, spec.get("preventPodSchedulingIfMissing") is True)


def csi_node(item: KubeObject) -> CsiNode:
    """Reads a CSINode."""
    drivers = (item.raw.get("spec") or {}).get("drivers") or ()
    limits = {str(one.get("name")): (one.get("allocatable") or {}).get("count") for one in drivers}
    return CsiNode(item.name, limits, frozenset(item.annotations.get(MIGRATED_ANNOTATION, "").split(",")))


def storage_capacity(item: KubeObject) -> StorageCapacity:
    """Reads a CSIStorageCapacity."""
    topology = item.raw.get("nodeTopology")
    return StorageCapacity(
        name=item.name,
        class_name=str(item.raw.get("storageClassName") or ""),
        nodes=NOTHING if topology is None else label_selector(topology),
        capacity=_optional(item.raw.get("capacity")),
        largest=_optional(item.raw.get("maximumVolumeSize")),
    )


@dataclass(frozen=True, slots=True)
class PodVolume:
    """A volume of a pod that has a claim; `ephemeral` claims belong to the pod."""

    claim: str
    ephemeral: bool


def claims_of(pod: Pod) -> Iterator[PodVolume]:
    """The claims that a pod's volumes name, in order; an ephemeral volume's claim is called POD-VOLUME."""
    for item in pod.spec.get("volumes") or ():
        if item.get("persistentVolumeClaim") is not None:
            yield PodVolume(str(item["persistentVolumeClaim"].get("claimName") or ""), False)
        elif item.get("ephemeral") is not None:
            yield PodVolume(f"{pod.name}-{item.get('name')}", True)


def _class_name(item: KubeObject, spec: Raw) -> str:
    return item.annotations.get(CLASS_ANNOTATION, str(spec.get("storageClassName") or ""))


def _optional(raw: Any) -> Quantity | None:
    return None if raw is None else parse_quantity(raw)
