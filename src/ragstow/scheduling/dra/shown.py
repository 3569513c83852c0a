"""How an answer shows the devices that a pod was given: in the words of a claim's status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstow.scheduling.dra.extended import NodeClaim
from ragstow.scheduling.dra.model import Allocation, DeviceResult

EXTENDED_KEY = "extended-resources"
"""What the claim for extended resources is called in the answer."""


def devices(allocation: Allocation) -> Mapping[str, Any]:
    """The allocation of one claim."""
    shown: dict[str, Any] = {"results": [_result(item) for item in allocation.results]}
    if allocation.scope is not None:
        shown["nodeSelector"] = allocation.scope.raw
    return shown


def _result(item: DeviceResult) -> Mapping[str, Any]:
    shown: dict[str, Any] = {
        "request": item.request,
        "driver": item.device.driver,
        "pool": item.device.pool,
        "device": item.device.device,
    }
    if item.admin:
        shown["adminAccess"] = True
    if item.shared:
        shown["shared"] = True
    if item.consumed is not None:
        shown["consumedCapacity"] = {name: str(amount) for name, amount in item.consumed.items()}
    if item.tolerations:
        shown["tolerations"] = len(item.tolerations)
    return shown


def extended_requests(made: NodeClaim) -> Mapping[str, Any]:
    """The requests of the claim for extended resources, and which container each serves."""
    requests = (request.exactly for request in made.claim.requests)
    return {
        "extended_requests": [f"{item.name}={item.class_name} x{item.count}" for item in requests if item],
        "extended_mappings": [
            {"containerName": item.container, "resourceName": item.resource, "requestName": item.request}
            for item in made.mappings
        ],
    }
