"""--logs: texts that came beside a saved cluster, attached as if they lay in its `logs/` folder."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import InputError, Place

_MOST_BYTES = 16 << 20
"""Of a longer log the end is read: the last lines say why a program ended."""


def with_logs(snapshot: Snapshot, paths: Sequence[Path]) -> Snapshot:
    """The snapshot with these files and folders added to its logs.

    Raises:
        InputError: a path does not exist or cannot be read.
    """
    added: dict[str, str] = {}
    for path in paths:
        for name, file in _files(path):
            added[_free(f"logs/{name}", {*snapshot.attachments, *added})] = _text(file)
    return replace(snapshot, attachments={**snapshot.attachments, **added})


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts):
                yield file.relative_to(path).as_posix(), file
    elif path.exists():
        yield path.name, path
    else:
        raise InputError("logs-missing", "no such file or folder", place=Place(str(path)))


def _free(name: str, taken: set[str]) -> str:
    """A name that is not taken: logs of one name from two folders are both kept."""
    stem, dot, suffix = name.rpartition(".")
    number = 2
    candidate = name
    while candidate in taken:
        candidate = f"{stem} {number}{dot}{suffix}" if dot else f"{name} {number}"
        number += 1
    return candidate


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            if file.suffix == ".gz":
                data = gzip.GzipFile(fileobj=stream).read()
            else:
                stream.seek(max(0, file.stat().st_size - _MOST_BYTES))
                data = stream.read()
    except (OSError, EOFError) as error:
        raise InputError("logs-unreadable", f"cannot be read: {error}", place=Place(str(file))) from None
    return data[-_MOST_BYTES:].decode("utf-8", "replace")
