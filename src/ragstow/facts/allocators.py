"""Who hands out GPUs in a cluster, and by what each is recognised: containers, images, node annotations, DRA drivers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ragstow.facts.table import Date, Table, Text


@dataclass(frozen=True, slots=True)
class Allocator:
    """A kind of allocator.

    `scope` node: a pod of it on a node serves that node; cluster: one for all. A container is its own when its name is one of
    `containers`, or its image contains one of `images` and its name starts with none of `not_containers` (images are shared by
    helpers). `node_annotations` mark nodes that it manages, `dra_drivers` are the drivers whose ResourceSlices are its own.
    """

    allocator: Text
    name: Text
    scope: Literal["node", "cluster"]
    source: Text
    checked: Date
    containers: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    not_containers: tuple[str, ...] = ()
    node_annotations: tuple[str, ...] = ()
    dra_drivers: tuple[str, ...] = ()

    def owns(self, container: str, image: str) -> bool:
        """Whether a container of this name and image is the allocator itself."""
        if container in self.containers:
            return True
        return any(part in image for part in self.images) and not any(
            container.startswith(part) for part in self.not_containers
        )


TABLE = Table("allocators.yaml", Allocator, ("allocator",))


class Allocators:
    """Lookups over the kinds of allocators."""

    def __init__(self, rows: tuple[Allocator, ...]) -> None:
        self.rows = rows
        self._by_name = {row.allocator: row for row in rows}

    def get(self, allocator: str) -> Allocator | None:
        """The allocator of this name."""
        return self._by_name.get(allocator)

    def of_container(self, container: str, image: str) -> Allocator | None:
        """The allocator that a container is, or None."""
        return next((row for row in self.rows if row.owns(container, image)), None)

    def of_annotations(self, annotations: Mapping[str, str]) -> tuple[Allocator, ...]:
        """The allocators that manage a node with these annotations."""
        return tuple(row for row in self.rows if any(mark in annotations for mark in row.node_annotations))

    def of_driver(self, driver: str) -> Allocator | None:
        """The allocator behind a DRA driver's name, or None where the driver hands out no GPUs."""
        return next((row for row in self.rows if driver in row.dra_drivers), None)
