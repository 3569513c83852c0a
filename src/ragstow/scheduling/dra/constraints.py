"""Constraints over the devices of one claim: all share an attribute, or all differ in it.

They keep what has been taken so far; `add` takes or refuses a device, `remove` gives one back. Source: matchAttributeConstraint
and distinctAttributeConstraint of k8s.io/dynamic-resource-allocation/structured.
"""

from __future__ import annotations

from typing import Protocol

from ragstow.scheduling.dra.model import Attribute, Constraint, Device


class Tracker(Protocol):
    """A constraint at work."""

    def concerns(self, request: str, alternative: str) -> bool:
        """Whether devices of this request count (`alternative` is "" for an exact request)."""

    def add(self, request: str, alternative: str, device: Device) -> bool:
        """Takes the device if the constraint allows it."""

    def remove(self, request: str, alternative: str) -> None:
        """Gives back the device taken last for this request."""


class MatchAttribute:
    """All devices must have the same value."""

    def __init__(self, spec: Constraint, attribute: str) -> None:
        self._requests = frozenset(spec.requests)
        self._attribute = attribute
        self._value: Attribute | None = None
        self._count = 0

    def concerns(self, request: str, alternative: str) -> bool:
        """See `Tracker`."""
        return _concerns(self._requests, request, alternative)

    def add(self, request: str, alternative: str, device: Device) -> bool:
        """See `Tracker`."""
        if not self.concerns(request, alternative):
            return True
        value = lookup(device, self._attribute)
        if value is None:
            return False
        if self._count == 0:
            self._value = value
        elif value != self._value or not value[0]:
            return False
        self._count += 1
        return True

    def remove(self, request: str, alternative: str) -> None:
        """See `Tracker`."""
        if self.concerns(request, alternative):
            self._count -= 1


class DistinctAttribute:
    """All devices must have the attribute, with different values.

    Args:
        spec: the constraint.
        attribute: the attribute's full name.
        mode: "exists" compares nothing, "latest" compares with the latest device of each request, else with all.
    """

    def __init__(self, spec: Constraint, attribute: str, mode: str) -> None:
        self._requests = frozenset(spec.requests)
        self._attribute = attribute
        self._mode = mode
        self._values: list[Attribute] = []
        self._latest: dict[str, Attribute] = {}

    def concerns(self, request: str, alternative: str) -> bool:
        """See `Tracker`."""
        return _concerns(self._requests, request, alternative)

    def add(self, request: str, alternative: str, device: Device) -> bool:
        """See `Tracker`."""
        if not self.concerns(request, alternative):
            return True
        value = lookup(device, self._attribute)
        if value is None:
            return False
        known = self._latest.values() if self._mode == "latest" else self._values
        if self._mode != "exists" and known and (value in known or not value[0]):
            return False
        self._values.append(value)
        self._latest[request] = value
        return True

    def remove(self, request: str, alternative: str) -> None:
        """See `Tracker`; the latest value of a request is then forgotten, not restored."""
        if self.concerns(request, alternative):
            self._values.pop()
            self._latest.pop(request, None)


def lookup(device: Device, name: str) -> Attribute | None:
    """The attribute of a fully qualified name; one of the driver's own domain may be published without it."""
    found = device.attributes.get(name)
    if found is None:
        domain, slash, identifier = name.partition("/")
        if slash and domain == device.id.driver:
            found = device.attributes.get(identifier)
    return found


def _concerns(requests: frozenset[str], request: str, alternative: str) -> bool:
    if not requests or request in requests:
        return True
    return bool(alternative) and f"{request}/{alternative}" in requests
