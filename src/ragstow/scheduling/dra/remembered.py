"""What attempts on nodes found, kept while it must stay true.

The outcome for a node depends on the node, what is asked for, and which devices of the node's pools are in use (for shared
counters: of any pool with the same name). So a later pod of the same shape meets a known answer on every node whose pools have
not changed since. Only outcomes without names of claims are kept: allocations, and refusals with a fixed text.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragstow.scheduling.dra.model import Allocation, Claim
from ragstow.scheduling.dra.pools import Pool
from ragstow.scheduling.dra.state import AllocatedDevices
from ragstow.scheduling.framework import Status

Outcome = tuple[Allocation, ...] | Status

LIMIT = 100_000
"""Kept outcomes at most; then all are forgotten."""


def shape(claims: Sequence[Claim]) -> str:
    """What claims ask for, without their names."""
    return repr([(claim.requests, claim.constraints) for claim in claims])


class Remembered:
    """See the module.

    Args:
        allocated: the devices in use, whose changes are followed.
    """

    def __init__(self, allocated: AllocatedDevices) -> None:
        self._changes = allocated.changes
        self._known: dict[tuple[str, str], tuple[tuple[int, ...], Outcome]] = {}

    def find(self, node: str, shape: str, pools: Sequence[Pool]) -> Outcome | None:
        """The outcome of the same attempt before, if nothing has changed since."""
        known = self._known.get((node, shape))
        return known[1] if known is not None and known[0] == self._now(pools) else None

    def keep(self, node: str, shape: str, pools: Sequence[Pool], outcome: Outcome) -> None:
        """Keeps an outcome."""
        if len(self._known) >= LIMIT:
            self._known.clear()
        self._known[(node, shape)] = (self._now(pools), outcome)

    def _now(self, pools: Sequence[Pool]) -> tuple[int, ...]:
        return tuple(self._changes[pool.name] for pool in pools)
