"""Reads a saved cluster: a folder, a file, an archive or a stream of `kubectl get -o json|yaml`, in any mix.

The same objects give the same Snapshot whatever they lie in. What cannot be used is reported in `Snapshot.problems` and left
out; only when nothing is usable is it an error. No API server, no GPU knowledge.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import IO

from ragstow.cluster.build import build
from ragstow.cluster.containers import Entry, open_path
from ragstow.cluster.documents import Contents
from ragstow.cluster.objects import KubeObject
from ragstow.cluster.scope import DEFAULT_NAMESPACE
from ragstow.cluster.snapshot import Problem, Snapshot, Source
from ragstow.errors import InputError, Place

Objects = Mapping[tuple[str, str], Mapping[tuple[str, str], KubeObject]]

_HOW = "kubectl get nodes,pods,configmaps,daemonsets -A -o json > cluster.json"
_SUFFIXES = (".json", ".yaml", ".yml", ".jsonl", ".ndjson")
_ATTACHMENT_FOLDERS = ("logs", "files")
_MAX_ATTACHMENT_BYTES = 16 << 20


def read(path: str, *, stdin: IO[bytes] | None = None, as_listed: bool = False) -> Snapshot:
    """The cluster saved at `path`.

    Args:
        path: a folder (read with all its subfolders), a file, a .tar, .tar.gz or .zip, or "-" for `stdin`.
        stdin: the stream behind "-".
        as_listed: keep the order in which objects are listed, for the few who need it; else they are sorted by name.

    Raises:
        InputError: the path cannot be read, nothing in it is usable, or it holds more than one cluster.
    """
    snapshot, _ = _read(path, stdin)
    return snapshot if as_listed else replace(snapshot, objects=in_name_order(snapshot.objects))


_MANIFESTS = "-f takes a manifest, a folder or archive of manifests, or - for standard input"


def read_manifests(path: str, *, stdin: IO[bytes] | None = None) -> tuple[tuple[KubeObject, ...], tuple[Problem, ...]]:
    """The objects at `path` in the order they are written, over all kinds, and what could not be used; else as `read`."""
    try:
        snapshot, contents = _read(path, stdin, any_shape=True)
    except InputError as error:
        if error.code in ("path-absent", "nothing-usable"):
            raise InputError(error.code, error.message, place=error.place, hint=_MANIFESTS) from None
        raise
    found: dict[int, KubeObject] = {}
    for item in contents.objects:
        value = item.value if isinstance(item.value, dict) else {}
        meta = value.get("metadata")
        meta = meta if isinstance(meta, dict) else {}
        group = str(value.get("apiVersion") or "v1").rpartition("/")[0]
        kind, name = str(value.get("kind")), str(meta.get("name") or meta.get("generateName") or "")
        for namespace in (str(meta.get("namespace") or ""), DEFAULT_NAMESPACE):
            made = snapshot.get(kind, name, namespace, group)
            if made is not None:
                found.setdefault(id(made), made)
                break
    return tuple(found.values()), snapshot.problems


def _read(path: str, stdin: IO[bytes] | None, *, any_shape: bool = False) -> tuple[Snapshot, Contents]:
    with _collector_paused():
        kind, entries, problems = open_path(path, stdin)
        contents, attachments = _contents(entries, problems)
        _refuse_several(contents, path)
        snapshot = build(
            contents.objects,
            source=Source(kind, path, contents.taken_at),
            version=contents.version,
            problems=contents.problems,
            attachments=attachments,
            any_shape=any_shape,
        )
        if not any(snapshot.objects.values()) and (any_shape or not attachments):
            raise _nothing(path, snapshot.problems, contents.passed_over)
        return snapshot, contents


def _contents(entries: list[Entry], problems: list[Problem]) -> tuple[Contents, dict[str, str]]:
    """Objects and attachments, entry after entry; an entry and its bytes are let go before the next is read."""
    contents = Contents(problems=problems)
    attachments: dict[str, str] = {}
    entries.reverse()
    while entries:
        entry = entries.pop()
        attached = _attachment_name(entry)
        if attached is None and not _parsed(entry):
            contents.passed_over.append(f"{entry.shown}: neither JSON nor YAML by its name")
            continue
        try:
            data = entry.read()
        except InputError as error:
            contents.problems.append(Problem(error.code, f"{error.message}; left out", error.place, error.hint))
            continue
        if attached is None:
            contents.add(data, entry.shown, named=entry.named)
        else:
            attachments[attached] = data[-_MAX_ATTACHMENT_BYTES:].decode("utf-8", "replace")
        del data, entry
    return contents, attachments


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Nothing that is read is garbage, and looking for some takes longer than reading (12 s instead of 4 s for 280 MB)."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            # What is there becomes old without being looked at; else the next allocation would look at all of it.
            gc.freeze()
            gc.unfreeze()
            gc.enable()


def in_name_order(objects: Objects) -> Objects:
    """By kind, namespace and name: the order of files and lists is chance, and kubectl sorts the same way."""
    return {kind: dict(sorted(table.items())) for kind, table in sorted(objects.items())}


def _parsed(entry: Entry) -> bool:
    return entry.named or entry.name.lower().removesuffix(".gz").endswith(_SUFFIXES)


def _attachment_name(entry: Entry) -> str | None:
    """The path from `logs/` or `files/` on, wherever that folder lies; `kubectl cluster-info dump` writes <pod>/logs.txt."""
    parts = entry.name.split("/")
    for index, part in enumerate(parts[:-1]):
        if part in _ATTACHMENT_FOLDERS:
            return "/".join(parts[index:])
    return entry.name if len(parts) > 1 and parts[-1] == "logs.txt" else None


def _refuse_several(contents: Contents, path: str) -> None:
    """Two clusters read as one would count holders twice; the uid of the namespace kube-system tells clusters apart."""
    found: dict[str, list[str]] = defaultdict(list)
    for item in contents.objects:
        value = item.value
        if (
            value.get("kind") == "Namespace"
            and isinstance(meta := value.get("metadata"), dict)
            and meta.get("name") == "kube-system"
        ):
            uid = str(meta.get("uid") or "")
            if uid and item.file is not None:
                found[uid].append(item.file)
    if len(found) > 1:
        files = ", ".join(sorted(files[0] for files in found.values())[:5])
        raise InputError(
            "several-clusters",
            f"holds {len(found)} clusters, not one ({files})",
            place=Place(path),
            hint="give the folder of one of them",
        )


def _nothing(path: str, problems: tuple[Problem, ...], passed_over: list[str]) -> InputError:
    shown = "standard input" if path == "-" else path
    lines = [f"{problem.place}: {problem.message}" for problem in problems] + passed_over
    more = f"; and {len(lines) - 5} more" if len(lines) > 5 else ""
    why = f" ({'; '.join(lines[:5])}{more})" if lines else ": it is empty"
    hint = next((problem.hint for problem in problems if problem.hint), f"save a cluster with: {_HOW}")
    return InputError("nothing-usable", f"no Kubernetes object in it{why}", place=Place(shown), hint=hint)
