"""What the flags of `apply` ask for, and the questions that follow from them: how long, whether to go on."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragstow.errors import UsageError

if TYPE_CHECKING:
    from ragstow.facts import Facts
    from ragstow.live.apply import Options
    from ragstow.plan.model import Plan


@dataclass(frozen=True, slots=True)
class Wish:
    """The flags, as given."""

    source: str
    undo: bool
    resume: bool
    yes: bool
    dry_run: str
    timeout_seconds: float | None
    force_conflicts: bool
    delete_claims: bool
    allow_disturb: bool
    namespace: str | None
    from_: str | None
    assumed: tuple[str, ...]
    release: str | None
    facts: str | None
    output: str

    @property
    def json(self) -> bool:
        """Whether the answer is a document."""
        return self.output in ("json", "yaml")

    @property
    def by_name(self) -> bool:
        """Whether the service is named instead of its plan."""
        return (self.undo or self.resume) and self.source != "-" and not Path(self.source).exists()

    def load_facts(self) -> Facts:
        """The facts of this run."""
        from ragstow.facts import load

        return load(Path(self.facts) if self.facts is not None else None)

    def options(self) -> Options:
        """What the engine is told."""
        from ragstow.cli.live import helm_flags, typed
        from ragstow.live.apply import Options

        return Options(
            timeout_seconds=self.timeout_seconds,
            force_conflicts=self.force_conflicts,
            helm=helm_flags() or (),
            delete_claims=self.delete_claims,
            typed=typed(),
        )

    def check(self) -> None:
        """Refuse flags that do not go together.

        Raises:
            UsageError: which.
        """
        if self.undo and self.resume:
            raise UsageError("apply-both", "--undo takes a run back, --resume finishes it", hint="give one of them")
        if self.delete_claims and not self.undo:
            raise UsageError("apply-claims", "--delete-claims says what --undo does with volume claims", hint="add --undo")
        if self.from_ is not None and (self.dry_run != "client" or self.undo or self.resume):
            raise UsageError(
                "apply-from", "a saved cluster can only be looked at", hint="add --dry-run=client, or leave --from out"
            )

    def confirm(self, question: str) -> bool:
        """Whether to go on: --yes, or the answer on a terminal.

        Raises:
            UsageError: there is nobody to ask.
        """
        if self.yes:
            return True
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError(
                "apply-yes",
                "nobody can be asked here (no terminal), so nothing was done",
                hint="--yes carries it out, --dry-run=server only looks",
            )
        return click.confirm(question, err=True)


def seconds(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """A duration as kubectl writes it ("90s", "10m", "1h30m"), or a number of seconds."""
    if value is None:
        return None
    from ragstow.sharing.goduration import parse
    from ragstow.sharing.gojson import Refused

    try:
        found = float(value) if value.replace(".", "", 1).isdigit() else parse(value) / 10**9
    except Refused:
        raise click.BadParameter(f"{value} is no duration: 90s, 10m, 1h30m") from None
    if found <= 0:
        raise click.BadParameter("it must be more than 0")
    return found


def plan_of(source: str) -> Plan:
    """The plan in a file or folder, for its service's name.

    Raises:
        InputError, InputErrors: there is none.
    """
    from ragstow.cli.planfile import NAME, find_plan, read_text
    from ragstow.errors import InputError, Place
    from ragstow.plan.load import load_plan

    file = str(Path(source) / NAME) if source != "-" and Path(source).is_dir() else source
    document = find_plan(read_text(file), None if file == "-" else file)
    if document is None:
        raise InputError(
            "apply-no-plan", "this is no plan", place=Place(file), hint="give a plan, or the service's name and -n"
        )
    return load_plan(document, file=file)
