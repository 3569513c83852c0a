"""What the API server of a release drops from DRA objects whose feature gates are off.

An object that came through that server has none of these fields; an object that is not valid without them does not exist there.
Source: the strategies under pkg/registry/resource of each release (dropDisabledFields).
"""

from __future__ import annotations

from dataclasses import replace

from ragstow.scheduling.dra.model import Claim, Device, DeviceClass, DeviceRequest, Request, Slice
from ragstow.scheduling.dra.rules import DraRules


def admit_class(item: DeviceClass, rules: DraRules) -> DeviceClass:
    """The class as the release stores it."""
    return item if rules.extended else replace(item, extended_resource="")


def admit_slice(item: Slice, rules: DraRules) -> Slice | None:
    """The slice as the release stores it; None where it would be refused."""
    if rules.partitionable and rules.consumable and rules.taints and rules.binding:
        return item
    if not rules.partitionable and item.per_device:
        return None
    return replace(
        item,
        devices=tuple(_admit_device(device, rules) for device in item.devices),
        counter_sets=item.counter_sets if rules.partitionable else (),
    )


def admit_claim(item: Claim, rules: DraRules) -> Claim | None:
    """The claim as the release stores it; None where it would be refused."""
    if rules.distinct == "dropped" and any(
        entry.distinct_attribute is not None and entry.match_attribute is None for entry in item.constraints
    ):
        return None
    if rules.consumable and rules.taints:
        return item
    return replace(item, requests=tuple(_admit_request(request, rules) for request in item.requests))


def _admit_device(device: Device, rules: DraRules) -> Device:
    if not rules.partitionable:
        device = replace(device, consumes=(), node_name="", all_nodes=False, scope=None)
    if not rules.consumable:
        capacity = {name: replace(amount, policy=None) for name, amount in device.capacity.items()}
        device = replace(device, shareable=False, capacity=capacity)
    if not rules.taints:
        device = replace(device, taints=())
    if not rules.binding:
        device = replace(device, has_binding_conditions=False, binds_to_node=False)
    return device


def _admit_request(request: DeviceRequest, rules: DraRules) -> DeviceRequest:
    exactly = request.exactly and _admit_exact(request.exactly, rules)
    return replace(request, exactly=exactly, alternatives=tuple(_admit_exact(sub, rules) for sub in request.alternatives))


def _admit_exact(request: Request, rules: DraRules) -> Request:
    if not rules.consumable:
        request = replace(request, capacity=None)
    if not rules.taints:
        request = replace(request, tolerations=())
    return request
