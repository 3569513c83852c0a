"""Cloud instances with GPUs: what a node of that type offers once it has joined a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ragstow.facts.table import Count, Date, Mib, Table, Text


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance type of a cloud.

    `cpu` and `memory_mib` are what it is sold with, `allocatable_*` and `pods` what the kubelet leaves to pods with the cloud's
    default reservations (None: not known, then the whole is taken). `product` is a label of the cards table.
    """

    instance: Text
    cloud: Text
    product: Text
    cards: Count
    arch: Text
    cpu: Count
    memory_mib: Mib
    source: Text
    checked: Date
    allocatable_cpu_milli: Count | None = None
    allocatable_memory_mib: Mib | None = None
    pods: Count = 110


TABLE = Table("instances.csv", Instance, ("instance",))


class Instances:
    """Lookups over instance types."""

    def __init__(self, rows: tuple[Instance, ...]) -> None:
        self.rows = rows
        self._by_name = {row.instance: row for row in rows}

    def find(self, name: str) -> Instance | None:
        """The instance type of this name."""
        return self._by_name.get(name)

    def like(self, name: str) -> Iterable[str]:
        """Names that begin alike, for a hint."""
        family = name.partition(".")[0].partition("-")[0].lower()
        return [row.instance for row in self.rows if family and row.instance.lower().startswith(family)]
