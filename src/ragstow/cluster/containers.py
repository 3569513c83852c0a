"""Where the bytes of a saved cluster lie: a folder, a file, an archive or a stream; everything becomes a list of `Entry`.

Nothing is ever written to disk: members of an archive are read into memory one by one, within limits, and their names are
only names, so a path that climbs out of the archive reaches nothing. Links inside archives and special files are left out.
What the bytes mean is `documents`' work.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, Protocol

from ragstow.cluster.snapshot import Problem
from ragstow.errors import InputError, Place

MAX_FILE_BYTES = 1 << 30
MAX_TOTAL_BYTES = 2 << 30
MAX_ENTRIES = 200_000
_SAFE_EXPANSION_BYTES = 64 << 20
_MAX_RATIO = 250
"""JSON of real clusters packs 15 to 60 times; a bomb packs 1,000 times and more."""

Kind = Literal["folder", "file", "archive", "stdin"]
_BROKEN_ARCHIVE = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, OSError, ValueError)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a saved cluster.

    `name` is its path within the folder or archive ("logs/vllm.txt"), `shown` how a person finds it, `read` gives its bytes
    (raises InputError where they cannot be had). `named` says that the user named this very file.
    """

    name: str
    shown: str
    read: Callable[[], bytes]
    named: bool = False


def open_path(path: str, stdin: IO[bytes] | None = None) -> tuple[Kind, list[Entry], list[Problem]]:
    """The entries at `path` in the order of their names, what kind of thing it is, and what had to be left out.

    Args:
        path: a folder, a file, an archive, or "-" for `stdin`.
        stdin: the stream to read when the path is "-".

    Raises:
        InputError: there is nothing at the path, or it cannot be read at all.
    """
    if path == "-":
        if stdin is None:
            raise InputError("stdin-absent", "nothing is connected to standard input", hint="pipe kubectl's output into it")
        return _from_bytes(_limited(stdin, "-"), "-", "stdin")
    root = Path(path)
    try:
        mode = root.stat().st_mode
    except FileNotFoundError:
        raise InputError(
            "path-absent", "there is no such file or folder", place=Place(path), hint="--from takes a folder, file or archive"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError("path-unreadable", f"cannot be read: {_why(error)}", place=Place(path)) from None
    if stat.S_ISDIR(mode):
        entries, problems = _folder(root, path)
        return "folder", entries, problems
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        raise InputError("path-special", "is neither a file nor a folder", place=Place(path))
    return _from_bytes(_read_file(root, path), path, "file")


def _from_bytes(data: bytes, path: str, kind: Kind) -> tuple[Kind, list[Entry], list[Problem]]:
    name = "stdin" if path == "-" else os.path.basename(path)
    if data[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        entries, problems = _archive(_zip, data, path)
    elif data[:2] == b"\x1f\x8b" or data[:3] == b"BZh" or data[:6] == b"\xfd7zXZ\x00":
        if not _is_tar(data):
            return kind, [Entry(name, path, lambda: _unpack(data, path), named=True)], []
        entries, problems = _archive(_tar, data, path)
    elif data[257:262] == b"ustar":
        entries, problems = _archive(_tar, data, path)
    else:
        return kind, [Entry(name, path, lambda: data, named=True)], []
    return ("stdin" if kind == "stdin" else "archive"), entries, problems


def _folder(root: Path, path: str) -> tuple[list[Entry], list[Problem]]:
    entries: list[Entry] = []
    problems: list[Problem] = []
    seen: set[tuple[int, int]] = set()

    def walk(folder: Path, prefix: str) -> None:
        try:
            status = folder.stat()
            if (status.st_dev, status.st_ino) in seen:
                return  # a link back to a folder that was read already
            seen.add((status.st_dev, status.st_ino))
            listed = sorted(os.scandir(folder), key=lambda item: item.name)
        except OSError as error:
            problems.append(Problem("folder-unreadable", f"cannot be read: {_why(error)}; left out", Place(str(folder))))
            return
        for item in listed:
            if item.name.startswith("."):
                continue
            name, shown = f"{prefix}{item.name}", os.path.join(path, prefix, item.name)
            try:
                if item.is_dir():
                    walk(Path(item.path), f"{name}/")
                elif item.is_file():
                    entries.append(Entry(name, shown, lambda file=Path(item.path), shown=shown: _read_any(file, shown)))  # type: ignore[misc]
                elif item.is_symlink():
                    problems.append(Problem("link-broken", "is a link that leads nowhere; left out", Place(shown)))
            except OSError as error:
                problems.append(Problem("file-unreadable", f"cannot be read: {_why(error)}; left out", Place(shown)))
            if len(entries) > MAX_ENTRIES:
                raise InputError(
                    "too-many-files",
                    f"holds more than {MAX_ENTRIES} files",
                    place=Place(path),
                    hint="is this the right folder?",
                )

    walk(root, "")
    return sorted(entries, key=lambda entry: entry.name), problems


def _archive(
    members: Callable[[bytes, str], Iterator[tuple[str, Callable[[], bytes]]]], data: bytes, path: str
) -> tuple[list[Entry], list[Problem]]:
    try:
        listed = [(_clean(name), read) for name, read in members(data, path)]
    except _BROKEN_ARCHIVE as error:
        raise InputError(
            "archive-broken", f"the archive is damaged or cut off: {_why(error)}", place=Place(path), hint="save it again"
        ) from None
    total = 0

    def counted(read: Callable[[], bytes], shown: str) -> bytes:
        nonlocal total
        try:
            content = read()
        except _BROKEN_ARCHIVE as error:
            raise InputError("file-unreadable", f"cannot be unpacked: {_why(error)}", place=Place(shown)) from None
        total += len(content)
        if total > MAX_TOTAL_BYTES:
            raise _too_big(shown, MAX_TOTAL_BYTES)
        return content

    top = _common_folder([name for name, _ in listed])
    entries = [
        Entry(name[len(top) :], f"{path}:{name}", lambda read=read, shown=f"{path}:{name}": counted(read, shown))  # type: ignore[misc]
        for name, read in listed
        if name and not any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))
    ]
    return sorted(entries, key=lambda entry: entry.name), []


def _zip(data: bytes, path: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    archive = zipfile.ZipFile(io.BytesIO(data))
    for member in archive.infolist()[: MAX_ENTRIES + 1]:
        if member.is_dir() or stat.S_ISLNK(member.external_attr >> 16):
            continue

        def read(member: zipfile.ZipInfo = member) -> bytes:
            try:
                with archive.open(member) as stream:
                    return _limited(stream, f"{path}:{member.filename}", packed=member.compress_size)
            except (RuntimeError, NotImplementedError) as error:  # encrypted, or packed in a way zipfile does not know
                raise InputError(
                    "file-unreadable", f"cannot be unpacked: {error}", place=Place(f"{path}:{member.filename}")
                ) from None

        yield member.filename, read


def _tar(data: bytes, path: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Members are unpacked in one pass and kept, since going back in a packed stream would unpack it again for each."""
    packed, unpacked = len(data), 0
    with tarfile.open(fileobj=io.BytesIO(data), mode="r|*") as archive:
        for count, member in enumerate(archive):
            if count > MAX_ENTRIES:
                raise InputError("too-many-files", f"holds more than {MAX_ENTRIES} files", place=Place(path))
            stream = archive.extractfile(member) if member.isreg() else None
            if stream is None:
                continue
            if not _worth_reading(member.name):
                continue
            content = _limited(stream, f"{path}:{member.name}", packed=packed, before=unpacked)
            unpacked += len(content)
            if unpacked > MAX_TOTAL_BYTES:
                raise _too_big(path, MAX_TOTAL_BYTES)
            yield member.name, lambda content=content: content  # type: ignore[misc]


def _worth_reading(name: str) -> bool:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return bool(parts) and not any(part.startswith(".") for part in parts if part != "..")


def _is_tar(data: bytes) -> bool:
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r|*") as archive:
            return archive.next() is not None
    except _BROKEN_ARCHIVE:
        return False


def _unpack(data: bytes, shown: str) -> bytes:
    try:
        if data[:2] == b"\x1f\x8b":
            return _limited(gzip.GzipFile(fileobj=io.BytesIO(data)), shown, packed=len(data))
        if data[:3] == b"BZh":
            import bz2

            return _limited(bz2.BZ2File(io.BytesIO(data)), shown, packed=len(data))
        return _limited(lzma.LZMAFile(io.BytesIO(data)), shown, packed=len(data))
    except _BROKEN_ARCHIVE as error:
        raise InputError("file-unreadable", f"cannot be unpacked: {_why(error)}", place=Place(shown)) from None


def _read_any(file: Path, shown: str) -> bytes:
    data = _read_file(file, shown)
    return _unpack(data, shown) if data[:2] == b"\x1f\x8b" else data


def _read_file(file: Path, shown: str) -> bytes:
    try:
        with file.open("rb") as stream:
            return _limited(stream, shown)
    except OSError as error:
        raise InputError("file-unreadable", f"cannot be read: {_why(error)}", place=Place(shown)) from None


def _limited(stream: _Readable, shown: str, *, packed: int | None = None, before: int = 0) -> bytes:
    """All of a stream, or an InputError once it is larger than any saved cluster, or grows like a bomb."""
    chunks: list[bytes] = []
    size = 0
    while chunk := stream.read(1 << 20):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_FILE_BYTES:
            raise _too_big(shown, MAX_FILE_BYTES)
        if packed is not None and before + size > max(_SAFE_EXPANSION_BYTES, packed * _MAX_RATIO):
            raise InputError(
                "archive-bomb",
                f"unpacks to more than {_MAX_RATIO} times its size; not read further",
                place=Place(shown),
                hint="unpack it by hand and give the folder, if it is what you think",
            )
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _common_folder(names: list[str]) -> str:
    """The folder that holds everything in an archive ("cluster/"), so that archive and folder give the same names."""
    top = ""
    while True:
        heads = {name[len(top) :].split("/", 1)[0] if "/" in name[len(top) :] else "" for name in names}
        head = next(iter(heads)) if len(heads) == 1 else ""
        if not head or head in ("logs", "files"):
            return top
        top += f"{head}/"


def _clean(name: str) -> str:
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    return "/".join(part.replace("\0", "") for part in parts)


def _too_big(shown: str, limit: int) -> InputError:
    return InputError(
        "file-too-big", f"is larger than {limit >> 20} MiB", place=Place(shown), hint="is this the output of kubectl get?"
    )


def _why(error: BaseException) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error) or type(error).__name__
