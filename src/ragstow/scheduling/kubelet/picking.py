"""Who decides where the kubelet follows the order of a Go map: any k ids of a set are correct, and any order of resources.

The default takes the first ids in the plugin's own order (one of the picks that do occur) and resources by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Picker(Protocol):
    """Decides the free choices of one admission."""

    def order(self, container: str, resources: Sequence[str], calls: int) -> Sequence[str]:
        """The order in which the resources of a container are handled; `calls` to plugins were made so far."""
        ...

    def pick(
        self, container: str, resource: str, taken: frozenset[str], pool: Sequence[str], count: int, calls: int
    ) -> Sequence[str]:
        """`count` ids of `pool` (given in the plugin's order), for a container that has `taken` already."""
        ...


class FirstPicker:
    """The first ids in the plugin's order; resources by name."""

    def order(self, container: str, resources: Sequence[str], calls: int) -> Sequence[str]:  # noqa: ARG002 - protocol
        """By name."""
        return sorted(resources)

    def pick(
        self,
        container: str,  # noqa: ARG002 - protocol
        resource: str,  # noqa: ARG002
        taken: frozenset[str],  # noqa: ARG002
        pool: Sequence[str],
        count: int,
        calls: int,  # noqa: ARG002
    ) -> Sequence[str]:
        """The first `count`."""
        return pool[:count]
