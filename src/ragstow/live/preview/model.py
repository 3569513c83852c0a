"""What a dry run found about each object. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ragstow.live.failures import Owned

What = Literal["create", "change", "delete", "same", "unknown"]


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field that gets another value. `path` is as kubectl writes it, list items by name where they have one."""

    path: str
    before: Any
    """None where the field is not there."""
    after: Any


@dataclass(frozen=True, slots=True)
class ObjectPreview:
    """One object.

    `what`: "unknown" where it could not be tried (`note` says why) or the server refused it (`problem`). `before` and `after`
    are the object without what the server keeps for itself; None where it does not exist. `conflicts` are fields that other
    managers own and that would be taken over.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    what: What
    fields: tuple[FieldChange, ...] = ()
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    conflicts: tuple[Owned, ...] = ()
    warnings: tuple[str, ...] = ()
    problem: str = ""
    note: str = ""
    anew: bool = False
    """A field of it cannot be changed, so it is deleted and made again."""

    @property
    def ref(self) -> str:
        """ "Kind ns/name" or "Kind name"."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"
