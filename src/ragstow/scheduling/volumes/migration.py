"""Volumes of in-tree plugins under the CSI driver that serves them now, as far as attach limits need it.

Source: k8s.io/csi-translation-lib and isCSIMigrationOn of plugins/nodevolumelimits. Azure file and vSphere volumes are
translated as well, but no limit counts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Raw = Mapping[str, Any]

PORTWORX = "kubernetes.io/portworx-volume"

DRIVERS: Mapping[str, str] = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    PORTWORX: "pxd.portworx.com",
}
"""In-tree plugin (the provisioner of its classes) -> CSI driver."""

UNCOUNTED = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})
"""In-tree plugins that are translated but never counted."""

_SOURCES = {
    "awsElasticBlockStore": ("kubernetes.io/aws-ebs", "volumeID"),
    "gcePersistentDisk": ("kubernetes.io/gce-pd", "pdName"),
    "azureDisk": ("kubernetes.io/azure-disk", "diskURI"),
    "cinder": ("kubernetes.io/cinder", "volumeID"),
    "portworxVolume": (PORTWORX, "volumeID"),
}
_DASHES = 2
"""In a Google zone: locale-region-zone."""
_ZONES = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")


def translated(source: Raw, labels: Mapping[str, str] | None = None) -> tuple[str, str] | None:
    """(in-tree plugin, volume handle) of a pod's volume or of a volume's spec; None where nothing is to be counted.

    Args:
        source: what holds the volume source.
        labels: those of the volume, which say where a GCE disk is.
    """
    for key, (plugin, field) in _SOURCES.items():
        if source.get(key) is not None:
            name = str(source[key].get(field) or "")
            handle = _handle(plugin, name, labels or {})
            return (plugin, handle) if handle else None
    return None


def _handle(plugin: str, name: str, labels: Mapping[str, str]) -> str:
    if plugin == "kubernetes.io/aws-ebs" and name.startswith("aws://"):
        return name.removeprefix("aws://").partition("/")[2].strip("/")
    if plugin != "kubernetes.io/gce-pd":
        return name
    zones = next((labels[key] for key in _ZONES if labels.get(key)), "").split("__")
    if len(zones) == 1:
        return f"projects/UNSPECIFIED/zones/{zones[0] or 'UNSPECIFIED'}/disks/{name}"
    regions = {zone.rpartition("-")[0] for zone in zones}
    known = len(regions) == 1 and all(zone.count("-") == _DASHES for zone in zones)
    return f"projects/UNSPECIFIED/regions/{regions.pop()}/disks/{name}" if known else ""
