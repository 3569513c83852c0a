"""Capacity that requests take from devices (KEP-5075): rounding by policy, and whether it still fits.

Source: consumable_capacity.go of k8s.io/dynamic-resource-allocation/structured. Sums are in nano units.
"""

from __future__ import annotations

from collections.abc import Mapping

from ragstow.quantity import NANO, Quantity
from ragstow.scheduling.dra.model import Capacity, Device, RequestPolicy

Amounts = Mapping[str, int]
Requested = Mapping[str, Quantity] | None

_NONE: Amounts = {}


def fits(device: Device, requested: Requested, used: Amounts = _NONE, planned: Amounts = _NONE) -> bool:
    """Whether the request keeps every capacity of the device within its value and its policy.

    Args:
        device: the candidate.
        requested: the capacity requests by name.
        used: taken by claims allocated before, nano units.
        planned: taken in the search so far, nano units.
    """
    if requested and any(name not in device.capacity for name in requested):
        return False
    for name, capacity in device.capacity.items():
        amount = consumed(requested, name, capacity)
        if _violates(amount, capacity.policy):
            return False
        if used.get(name, 0) + amount.nano + planned.get(name, 0) > capacity.value.nano:
            return False
    return True


def consumption(device: Device, requested: Requested, *, step_format: bool = True) -> dict[str, Quantity]:
    """What the request takes of each capacity of the device; `step_format` see `consumed`."""
    return {name: consumed(requested, name, item, step_format=step_format) for name, item in device.capacity.items()}


def consumed(requested: Requested, name: str, capacity: Capacity, *, step_format: bool = True) -> Quantity:
    """What a request takes of one capacity.

    Without a request the policy's default, else everything; with one the request, rounded up to the policy's range or values.

    Args:
        requested: the capacity requests by name.
        name: of this capacity.
        capacity: what the device has.
        step_format: an amount rounded to a step is written like the step, else as a binary quantity.
    """
    asked = requested.get(name) if requested else None
    policy = capacity.policy
    if asked is None:
        return policy.default if policy and policy.default is not None else capacity.value
    if policy is None:
        return asked
    if policy.has_range and policy.minimum is not None:
        if asked.nano < policy.minimum.nano:
            return policy.minimum
        step = policy.step
        if step is None or not step.value:
            return asked
        steps = -(-(asked.value - policy.minimum.value) // step.value)
        return Quantity((policy.minimum.value + step.value * steps) * NANO, step.format if step_format else "binary")
    return next((value for value in policy.values if asked.nano <= value.nano), asked)


def _violates(amount: Quantity, policy: RequestPolicy | None) -> bool:
    if policy is None or (policy.default is not None and amount == policy.default):
        return False
    if policy.has_range:
        if policy.maximum is not None and amount.nano > policy.maximum.nano:
            return True
        if policy.step is not None and policy.step.value:
            minimum = policy.minimum.value if policy.minimum is not None else 0
            return (amount.value - minimum) % policy.step.value != 0
        return False
    return bool(policy.values) and all(amount.nano != value.nano for value in policy.values)
