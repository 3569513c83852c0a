"""Which pods decide alike: everything of a pod that a plugin may read, as a key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ragstow.scheduling.podinfo import PodInfo

# Volumes that no scheduler plugin looks at.
_INERT_VOLUMES = frozenset(
    {"name", "configMap", "secret", "projected", "downwardAPI", "emptyDir", "hostPath", "nfs", "gitRepo", "image"}
)
_SPEC_FIELDS = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "overhead", "resources")
_CONTAINER_FIELDS = ("image", "resources", "ports", "restartPolicy", "restartPolicyRules")

_encode = msgspec.msgpack.Encoder().encode


def shape_of(pod: PodInfo) -> bytes:
    """The key: pods with equal keys get the same answer from every plugin that remembers nothing of single pods."""
    spec = pod.pod.spec
    owner = pod.pod.controller
    return _encode(
        (
            pod.namespace,
            pod.labels,
            None if owner is None else (owner.api_version, owner.kind, owner.name),
            [spec.get(field) for field in _SPEC_FIELDS],
            [[raw.get(field) for field in _CONTAINER_FIELDS] for raw in spec.get("containers") or ()],
            [[raw.get(field) for field in _CONTAINER_FIELDS] for raw in spec.get("initContainers") or ()],
            [volume for volume in spec.get("volumes") or () if not _inert(volume)],
            [volume["image"] for volume in spec.get("volumes") or () if "image" in volume],
            spec.get("resourceClaims"),
            pod.pod.node,
            pod.pod.name if needs_objects(pod) else None,
        )
    )


def needs_objects(pod: PodInfo) -> bool:
    """Whether volumes or claims of the pod must be looked up: then plugins that remember such things are asked each time."""
    spec = pod.pod.spec
    return bool(spec.get("resourceClaims")) or any(not _inert(volume) for volume in spec.get("volumes") or ())


def _inert(volume: Mapping[str, Any]) -> bool:
    return all(key in _INERT_VOLUMES for key in volume)
