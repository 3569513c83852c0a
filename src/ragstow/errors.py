"""The error tree and the reasons of refusals.

Every error that a user can meet is a `RagstowError`: it has a code, a place, what is wrong and a hint, and it knows the exit
code of the command line. Library code raises these and neither prints nor exits. This room imports nothing of ours.

    RagstowError          70  a bug unless a subclass says otherwise
    |- UsageError          2  wrong flags or flag values
    |- InputError          2  one thing wrong in what the user gave
    |- InputErrors         2  all the things wrong in what the user gave, at once
    |- FactsError          2  a facts file (ours or the user's) that breaks its schema
    |- ClusterError        3  the cluster cannot be reached, or a right is missing
    |- TimeoutReached      4  says where it stands and how to go on

A refusal that is an answer (a node that does not fit, a mode that is not possible) is no error: it is a `Reason`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is wrong: any of file, line (1-based), object ("Kind ns/name") and field ("spec.components[0].model")."""

    file: str | None = None
    line: int | None = None
    object: str | None = None
    field: str | None = None

    def __str__(self) -> str:
        where = self.file or ""
        if self.line is not None:
            where = f"{where}:{self.line}" if where else f"line {self.line}"
        return ", ".join(part for part in (where, self.object, self.field) if part)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something was refused: a stable code, a sentence with node, card and number, and what would help (may be empty)."""

    code: str
    text: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.hint})" if self.hint else self.text


class RagstowError(Exception):
    """The root of the tree.

    Args:
        code: stable slug, for scripts and documentation.
        message: what is wrong, one sentence.
        place: where.
        hint: what to do about it.
    """

    exit_code = 70

    def __init__(self, code: str, message: str, *, place: Place | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.place = place or Place()
        self.hint = hint

    def __str__(self) -> str:
        place = str(self.place)
        text = f"{place}: {self.message}" if place else self.message
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class UsageError(RagstowError):
    """A wrong flag or a wrong value of one."""

    exit_code = 2


class InputError(RagstowError):
    """One thing that is wrong in a file, an object or a value that the user gave."""

    exit_code = 2


class InputErrors(RagstowError):
    """Everything that is wrong in what the user gave, reported at once.

    Args:
        errors: at least one; kept in the order given.
    """

    exit_code = 2

    def __init__(self, errors: Iterable[RagstowError]) -> None:
        self.errors = tuple(errors)
        if not self.errors:
            raise ValueError("InputErrors needs at least one error")
        super().__init__("input-errors", f"{len(self.errors)} errors")

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


class FactsError(RagstowError):
    """A facts file, ours or the user's, that breaks its schema."""

    exit_code = 2


class ClusterError(RagstowError):
    """The cluster cannot be reached, or a right is missing without which the answer would be wrong."""

    exit_code = 3


class TimeoutReached(RagstowError):
    """Time ran out; the message says where things stand and the hint how to go on."""

    exit_code = 4
