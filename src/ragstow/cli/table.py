"""Plain tables that are readable on a narrow terminal and in a pipe: columns aligned, long cells wrapped at their commas."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

_GAP = "  "
_PIPE_WIDTH = 110
_LEAST_WRAPPED = 20


def width() -> int:
    """The width to write for: COLUMNS or the terminal's, at most 160; in a pipe always the same."""
    if os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty():
        return max(60, min(160, shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns))
    return _PIPE_WIDTH


def render(head: Sequence[str], rows: Sequence[Sequence[str] | str], room: int, *, indent: str = "") -> list[str]:
    """The lines of a table.

    Args:
        head: names of the columns; a column without any text is left out.
        rows: cells, or a text that stands on a line of its own (a heading between rows).
        room: the width in characters; the last two columns are wrapped to fit, the others are never cut.
        indent: put before every line but headings.
    """
    cells = [list(row) for row in rows if not isinstance(row, str)]
    kept = [index for index, _ in enumerate(head) if any(row[index] for row in cells)]
    widths = {index: max(len(head[index]), *(len(row[index]) for row in cells)) for index in kept}
    _shrink(widths, kept[-2:], room - len(indent) - len(_GAP) * (len(kept) - 1))
    lines = [indent + _GAP.join(head[index].ljust(widths[index]) for index in kept).rstrip()]
    for row in rows:
        if isinstance(row, str):
            lines.append(row)
            continue
        wrapped = {index: wrap(row[index], widths[index]) for index in kept}
        for number in range(max(len(parts) for parts in wrapped.values())):
            texts = [(wrapped[index][number] if number < len(wrapped[index]) else "").ljust(widths[index]) for index in kept]
            lines.append((indent + _GAP.join(texts)).rstrip())
    return lines


def wrap(text: str, room: int) -> list[str]:
    """A text in pieces of at most `room` characters, broken after commas; a piece without a comma stays whole."""
    lines = [""]
    for part in text.split(", "):
        joined = f"{lines[-1]}, {part}" if lines[-1] else part
        if lines[-1] and len(joined) > room:
            lines[-1] += ","
            lines.append(part)
        else:
            lines[-1] = joined
    return lines


def _shrink(widths: dict[int, int], flexible: Sequence[int], room: int) -> None:
    """Take what is too much from the flexible columns, the widest first."""
    while (excess := sum(widths.values()) - room) > 0:
        widest = max(flexible, key=lambda index: widths[index], default=None)
        if widest is None or widths[widest] <= _LEAST_WRAPPED:
            return
        second = max((widths[index] for index in flexible if index != widest), default=0)
        step = min(excess, max(1, widths[widest] - max(second, _LEAST_WRAPPED)))
        widths[widest] -= step
