"""What a ResourceClaim counts in quotas, as the API server's admission counts it: by device class, not by what it is given.

Source: pkg/quota/v1/evaluator/core/resource_claims.go (1.34 to 1.37) and "Quota for DRA resource claims" of the Kubernetes
documentation. A claim counts one object; of each request the devices of its class, and where extended resources can be backed
by classes also those of the class's implicit name and of the name that the class stands behind. A template counts nothing:
the claims made of it do, one for each pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragstow.cluster import dra
from ragstow.cluster.objects import KubeObject
from ragstow.cluster.release import detect
from ragstow.cluster.snapshot import Snapshot
from ragstow.facts import Facts
from ragstow.facts.dra_api import minor
from ragstow.scheduling.behaviours import NEWEST

CLAIMS = "count/resourceclaims.resource.k8s.io"
_PER_CLASS = ".deviceclass.resource.k8s.io/devices"
_IMPLICIT = "deviceclass.resource.kubernetes.io/"
_FEATURE = "DRAExtendedResource"
_ALL = 32
"""Devices that a request for all of them counts: the most that one claim can be given (AllocationResultsMaxSize)."""


def extended_names(snapshot: Snapshot, facts: Facts) -> Mapping[str, str] | None:
    """Device class -> the extended resource that it stands behind; None where this is not switched on.

    A class that names one shows that it is: else the API server would have dropped the field.
    """
    named = {
        item.name: name
        for item in snapshot.of("DeviceClass", dra.GROUP)
        if (name := str(_mapping(item.raw.get("spec")).get("extendedResourceName") or ""))
    }
    if named:
        return named
    feature = next((row for row in facts.dra_apis.features if row.id == _FEATURE), None)
    release = detect(snapshot, newest_recorded=str(NEWEST)).numbers[:2]
    default = feature is not None and feature.beta is not None and release >= minor(feature.beta)
    return {} if default else None


def counted_as(device_class: str, extended: Mapping[str, str] | None) -> tuple[str, ...]:
    """The names under which quotas count a device that is claimed by class, without the prefix "requests.".

    Args:
        device_class: name of the DeviceClass.
        extended: see `extended_names`.
    """
    names = [f"{device_class}{_PER_CLASS}"]
    if extended is not None:
        names.append(f"{_IMPLICIT}{device_class}")
        if device_class in extended:
            names.append(extended[device_class])
    return tuple(names)


def charged(claim: KubeObject, extended: Mapping[str, str] | None) -> dict[str, int]:
    """Name -> what one ResourceClaim counts."""
    found: dict[str, int] = {CLAIMS: 1}
    devices = _mapping(_mapping(claim.raw.get("spec")).get("devices"))
    # What the scheduler claims for an extended resource is counted under that name with the pod already.
    known = claim.annotations.get(dra.EXTENDED_CLAIM) == "true"
    for raw in _sequence(devices.get("requests")):
        request = _mapping(raw)
        worst: dict[str, int] = {}
        for choice in _sequence(request.get("firstAvailable")) or [request.get("exactly") or request]:
            wanted = _mapping(choice)
            name, number = str(wanted.get("deviceClassName") or ""), _number(wanted)
            if name:
                worst[name] = max(number, worst.get(name, 0))
        for name, number in worst.items():
            for key in counted_as(name, extended):
                if not (known and extended is not None and key == extended.get(name)):
                    found[key] = found.get(key, 0) + number
    return found


def _number(request: Mapping[str, Any]) -> int:
    mode = request.get("allocationMode") or "ExactCount"
    if mode == "All":
        return _ALL
    count = request.get("count")
    return (count if isinstance(count, int) else 1) if mode == "ExactCount" else 0


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()
