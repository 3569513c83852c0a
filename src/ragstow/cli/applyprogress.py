"""Progress of a run on stderr: one line for each action; on a terminal the present one with a moving sign and its wait."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ragstow.cli.output import note

if TYPE_CHECKING:
    from ragstow.live.apply import Step


@contextmanager
def progress() -> Iterator[Callable[[Step], None]]:
    """A teller of steps for the time of the block."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield _line
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    with console.status("") as status:

        def tell(step: Step) -> None:
            if step.phase in ("start", "wait"):
                status.update(console.render_str(_text(step), markup=False))
            if step.phase in ("done", "note"):
                console.print(_text(step), markup=False, soft_wrap=True)

        yield tell


def _line(step: Step) -> None:
    # What is done was announced when it began.
    if step.phase == "done" and not step.text:
        return
    note(f"{_place(step)}   {step.text}" if step.phase == "wait" else _text(step))


def _text(step: Step) -> str:
    if step.phase == "note":
        return f"note: {step.text}"
    return f"{_place(step)} {step.title}" + (f": {step.text}" if step.text else "")


def _place(step: Step) -> str:
    return f"[{step.number:>{len(str(step.total))}}/{step.total}]"
