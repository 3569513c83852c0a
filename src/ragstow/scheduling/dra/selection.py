"""Which devices on a node a request may take at all: by class, selectors and, where devices say so themselves, by node.

This never depends on what is taken. Source: isSelectable and selectorsMatch of k8s.io/dynamic-resource-allocation/structured.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragstow.cluster.objects import Node
from ragstow.scheduling.dra.cel import Selectors
from ragstow.scheduling.dra.model import Claim, Device, DeviceId
from ragstow.scheduling.dra.pools import Pool, device_reaches
from ragstow.scheduling.dra.requests import AllocationError, Candidate, Key, RequestData
from ragstow.scheduling.dra.rules import DraRules

_HINT = ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields"


class Selection:
    """Verdicts for one node, each found once.

    Args:
        rules: the release.
        selectors: evaluates CEL.
        node: the node.
        claims: those to allocate; named in errors.
    """

    def __init__(self, rules: DraRules, selectors: Selectors, node: Node, claims: Sequence[Claim]) -> None:
        self._rules = rules
        self._selectors = selectors
        self._node = node
        self._claims = claims
        self._known: dict[tuple[Key, DeviceId], bool] = {}

    def forget(self) -> None:
        """Between preparation and search: before 1.36 a verdict may lie under a neighbour's key until then."""
        self._known.clear()

    def allows(self, key: Key, data: RequestData, candidate: Candidate) -> bool:
        """Whether the request may take the device.

        Raises:
            AllocationError: a selector failed on the device.
            NotEvaluated: a selector cannot be evaluated here.
        """
        _, item, device = candidate
        if device.has_binding_conditions and not self._rules.binding:
            return False
        known = self._known.get((key, device.id))
        if known is None:
            known = self._known[(key, device.id)] = self._passes(key[0], data, device) and (
                not item.per_device or device_reaches(device, self._node)
            )
        return known

    def _passes(self, claim: int, data: RequestData, device: Device) -> bool:
        for owner, expressions in (
            (f"class {data.device_class.name}", data.device_class.selectors),
            (f"claim {self._claims[claim].key}", data.request.selectors),
        ):
            for index, expression in enumerate(expressions):
                verdict = self._selectors.verdict(expression or "", device)
                if isinstance(verdict, str):
                    raise AllocationError(self._runtime_error(f"{owner}: selector #{index}", device, verdict))
                if not verdict:
                    return False
        return True

    def _runtime_error(self, where: str, device: Device, text: str) -> str:
        if not self._rules.device_in_error:
            return f"{where}: CEL runtime error: {text}"
        return f"{where} on device {device.id}: CEL runtime error: {text}{_HINT if 'no such key:' in text else ''}"


def candidates(pools: Sequence[Pool], rules: DraRules) -> tuple[Candidate, ...]:
    """The devices to try, in order; where the search must stop at an invalid pool, its first device stands for it."""
    found: list[Candidate] = []
    for pool in pools:
        devices = [(pool, item, device) for item in pool.here for device in item.devices]
        if pool.invalid:
            found.extend(devices[:1] if rules.invalid_is_error else ())
        elif not pool.incomplete or rules.incomplete_used:
            found.extend(devices)
    return tuple(found)
