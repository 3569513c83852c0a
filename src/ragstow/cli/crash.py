"""Writes what is needed to report a bug into a file, so that the terminal shows one line. No user data beyond the traceback."""

from __future__ import annotations

import tempfile
import traceback


def report(error: BaseException) -> str:
    """Write the traceback to a new file and return its path."""
    with tempfile.NamedTemporaryFile("w", prefix="ragstow-bug-", suffix=".txt", delete=False, encoding="utf-8") as file:
        file.write("".join(traceback.format_exception(error)))
        return file.name
