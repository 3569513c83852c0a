"""Programs of the vendor that rendered manifests refer to: newest version seen, image, chart and its repository."""

from __future__ import annotations

from dataclasses import dataclass

from ragstow.facts.table import Date, Table, Text, Version


@dataclass(frozen=True, slots=True)
class Program:
    """One program."""

    name: Text
    version: Version
    source: Text
    checked: Date
    image: str | None = None
    chart: str | None = None
    repository: str | None = None


TABLE = Table("charts.yaml", Program, ("name",))


class Charts:
    """Lookups by name."""

    def __init__(self, rows: tuple[Program, ...]) -> None:
        self.rows = rows
        self._by_name = {row.name: row for row in rows}

    def get(self, name: str) -> Program | None:
        """The program of this name."""
        return self._by_name.get(name)

    def __getitem__(self, name: str) -> Program:
        """The program of this name; KeyError where there is none."""
        return self._by_name[name]
