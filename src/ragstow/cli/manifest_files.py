"""The manifests that -f names, with their lines: files, folders, or what `helm template` and `kubectl kustomize` print."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragstow import kubeyaml
from ragstow.cluster.build import RawObject, build
from ragstow.cluster.snapshot import Problem
from ragstow.errors import InputError, Place
from ragstow.rules.manifests import Manifest

_SUFFIXES = (".yaml", ".yml", ".json")
_RENDER = "a template: render it first, helm template ... | ragstow lint -f -"
_MOST_NESTING = 20


@dataclass(slots=True)
class Manifests:
    """What was read: the manifests, the files they may lie in, and what could not be used."""

    manifests: list[Manifest] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def read_manifests(paths: Sequence[str]) -> Manifests:
    """Everything under these paths.

    A file that a person names must be readable; in a folder what cannot be read (Helm templates, say) is a problem and the
    rest goes on.

    Raises:
        InputError: a named path is missing or no YAML, or there is no Kubernetes object at all.
    """
    found = Manifests()
    for path in paths:
        if path == "-":
            _take(sys.stdin.buffer.read(), "-", found, named=True)
            continue
        place = Path(path)
        if not place.exists():
            raise InputError("path-missing", "no such file or folder", place=Place(path))
        for file in _files(place):
            try:
                data = file.read_bytes()
            except OSError as error:
                raise InputError("path-unreadable", f"cannot be read: {error.strerror}", place=Place(str(file))) from None
            _take(data, str(file), found, named=place.is_file())
    if not found.manifests:
        why = "; ".join(f"{problem.place}: {problem.message}" for problem in found.problems[:3])
        text = "no Kubernetes object in it" + (f" ({why})" if why else "")
        raise InputError("nothing-usable", text, place=Place(", ".join(paths)))
    return found


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for file in sorted(path.rglob("*")):
        hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
        if file.is_file() and file.suffix.lower() in _SUFFIXES and not hidden:
            yield file


def _take(data: bytes, name: str, found: Manifests, *, named: bool) -> None:
    try:
        documents = kubeyaml.load_all(data, file=name, lines=True)
    except InputError as error:
        hint = _RENDER if b"{{" in data else error.hint
        if named:
            raise InputError(error.code, error.message, place=error.place, hint=hint) from None
        found.problems.append(Problem(error.code, f"{error.message}; left out", error.place, hint))
        return
    before = len(found.manifests)
    for document in documents:
        found.problems.extend(Problem("yaml-key-twice", text, Place(name, document.line)) for text in document.warnings)
        for value, base in _objects(document.value, ()):
            _add(value, base, document, name, found)
    if len(found.manifests) > before:
        found.files.append(name)


def _objects(value: Any, base: tuple[str | int, ...]) -> Iterator[tuple[Mapping[str, Any], tuple[str | int, ...]]]:
    """The objects of a document, lists taken apart; what has no kind (Helm values, notes) is none."""
    if not isinstance(value, Mapping) or len(base) > _MOST_NESTING:
        return
    items = value.get("items")
    kind = value.get("kind")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        for index, item in enumerate(items):
            yield from _objects(item, (*base, "items", index))
    elif "apiVersion" in value and kind:
        yield value, base


def _add(
    value: Mapping[str, Any], base: tuple[str | int, ...], document: kubeyaml.Document, name: str, found: Manifests
) -> None:
    line = document.lines.get(base, document.line)
    snapshot = build([RawObject(value, name, line)])
    found.problems.extend(snapshot.problems)
    found.manifests.extend(Manifest(item, name, line, document.lines, base) for item in snapshot.everything)
