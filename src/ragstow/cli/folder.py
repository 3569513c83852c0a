"""Folders that commands write: `--out DIR` of render and capture.

A folder that is not empty is only written to when ragstow made it (it holds the marker) or `--force` is given. Either the
whole new state is there or the whole old one: everything is written beside the folder first and then put in its place. Files
that ragstow did not write stay.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ragstow.cli.output import API_VERSION
from ragstow.errors import InputError, Place

MARKER = ".ragstow.json"


def write_folder(target: Path, files: Mapping[str, str], *, command: str, force: bool = False) -> None:
    """Make `target` hold `files` (path with forward slashes -> text), and nothing of what ragstow wrote there before.

    Raises:
        InputError: `target` is a file, or holds things that are not ragstow's and `force` is not given, or cannot be written.
    """
    target = Path(os.path.realpath(target))
    before = _refuse_or_list(target, force)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise _cannot(target, error) from None
    try:
        new = staging / "new"
        new.mkdir()
        if target.exists():
            _copy_others(target, new, before)
        for path, text in files.items():
            file = new / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="\n")
        marker = {"apiVersion": API_VERSION, "kind": "Folder", "command": command, "files": sorted(files)}
        (new / MARKER).write_text(json.dumps(marker, indent=2) + "\n", encoding="utf-8")
        _swap(target, new, staging / "old")
    except OSError as error:
        raise _cannot(target, error) from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def made_by(folder: Path) -> str | None:
    """The command that wrote a folder; None where it is none of ragstow's."""
    try:
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    command = marker.get("command") if isinstance(marker, dict) else None
    return command if isinstance(command, str) else None


def refuse(target: Path, *, force: bool = False) -> None:
    """Say at once, before any work, that a folder must not be written to; errors as `write_folder`."""
    _refuse_or_list(Path(os.path.realpath(target)), force)


def _refuse_or_list(target: Path, force: bool) -> set[str]:
    """The files that ragstow wrote there before; refuses what must not be touched."""
    if not target.exists():
        return set()
    if not target.is_dir():
        raise InputError("out-not-a-folder", "this is a file, not a folder", place=Place(str(target)))
    before = _marked(target)
    if before is None and not force and any(target.iterdir()):
        raise InputError(
            "out-not-empty",
            "the folder is not empty and was not made by ragstow",
            place=Place(str(target)),
            hint="give another folder, or --force (files that ragstow does not write stay)",
        )
    return before or set()


def _marked(target: Path) -> set[str] | None:
    try:
        marker = json.loads((target / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    files = marker.get("files") if isinstance(marker, dict) else None
    return {str(path) for path in files} if isinstance(files, list) else None


def _copy_others(target: Path, new: Path, before: set[str]) -> None:
    ours = {MARKER, *before}

    def skip(folder: str, names: list[str]) -> list[str]:
        inside = Path(folder).relative_to(target)
        return [name for name in names if (inside / name).as_posix() in ours]

    shutil.copytree(target, new, symlinks=True, ignore=skip, dirs_exist_ok=True)
    # Folders that only held files of ours are gone with them.
    for folder, _, _ in sorted(os.walk(new), reverse=True):
        if folder != str(new) and not os.listdir(folder):
            os.rmdir(folder)


def _swap(target: Path, new: Path, old: Path) -> None:
    os.chmod(new, target.stat().st_mode if target.exists() else 0o777 & ~_umask())
    try:
        if target.exists():
            os.rename(target, old)
        os.rename(new, target)
    except BaseException:
        # Ctrl-C between the two must not leave the old folder where it is swept away.
        if old.exists() and not target.exists():
            os.rename(old, target)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _cannot(target: Path, error: OSError) -> InputError:
    return InputError("out-unwritable", f"cannot be written: {error.strerror or error}", place=Place(str(target)))
