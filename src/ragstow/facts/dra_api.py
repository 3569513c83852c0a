"""What of the DRA API (resource.k8s.io) a Kubernetes release serves: versions of the group, and features behind gates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ragstow.facts.table import Date, Table, Text, Version


@dataclass(frozen=True, slots=True)
class DraApi:
    """A version of the API group, or a feature by its gate.

    `field` is the key in a request or class that the feature is for, `words` what it does; releases are minors such as 1.34:
    `since` it exists, `beta` it is on by default, `ga` it is final, `until` it was last there. `switch` turns a version on that
    is not served by itself.
    """

    id: Text
    kind: Literal["version", "feature"]
    since: Version
    source: Text
    checked: Date
    field: str = ""
    words: str = ""
    beta: str = ""
    ga: str = ""
    until: str = ""
    switch: str = ""


def _check(row: DraApi) -> Iterable[str]:
    if row.kind == "feature" and not (row.field and row.words):
        yield "a feature has a field and words"


TABLE = Table("dra_api.yaml", DraApi, ("id",), _check)


def minor(text: str) -> tuple[int, int]:
    """(1, 34) of "1.34" or "1.34.2"."""
    first, second = text.split(".")[:2]
    return int(first), int(second)


@dataclass(frozen=True, slots=True)
class DraApis:
    """Versions and features."""

    rows: tuple[DraApi, ...]

    def version(self, name: str) -> DraApi | None:
        """The version of this name."""
        return next((row for row in self.rows if row.kind == "version" and row.id == name), None)

    @property
    def features(self) -> tuple[DraApi, ...]:
        """Features, in the order of the file."""
        return tuple(row for row in self.rows if row.kind == "feature")
