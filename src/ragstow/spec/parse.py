"""From text to the checked shapes of a document; finds the RagService in a file and salvages what can be checked further."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ragstow import kubeyaml
from ragstow.errors import InputError, Place
from ragstow.spec.document import API_VERSION, KIND, DocumentShape
from ragstow.spec.fields import Path
from ragstow.spec.problems import Where, near, translate

_MOST_BYTES = 2**20
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document with its faults. `shape` leaves out what was wrong, and is None where nothing usable is left; `raw` is the
    document as read, without nulls."""

    raw: Mapping[str, Any]
    shape: DocumentShape | None
    where: Where
    errors: list[InputError]
    warnings: tuple[str, ...]
    dropped: bool


def parse_text(text: str, file: str | None) -> Parsed:
    """Read a file's text.

    Raises:
        InputError: it is no YAML or JSON, too large, or holds no RagService, or more than one.
    """
    if len(text) > _MOST_BYTES:
        raise InputError(
            "spec-too-large",
            f"a RagService has a few kilobytes, this has {len(text) / 2**20:.0f} MiB",
            place=Place(file),
            hint="is this a cluster's state? then it belongs behind --from",
        )
    documents = kubeyaml.load_all(text, file=file, lines=True)
    if not documents:
        raise InputError("spec-empty", "there is nothing in it", place=Place(file), hint=_example())
    ours = [item for item in documents if isinstance(item.value, dict) and item.value.get("kind") == KIND]
    if not ours and len(documents) == 1 and isinstance(documents[0].value, dict):
        ours = _nearly(documents[0], file)
    if not ours:
        raise InputError("spec-none", _found(documents), place=Place(file, documents[0].line), hint=_example())
    if len(ours) > 1:
        places = ", ".join(str(item.line) for item in ours)
        raise InputError("spec-many", f"one RagService a file; they start on lines {places}", place=Place(file))
    return parse_document(ours[0].value, file=file, lines=ours[0].lines, line=ours[0].line, warnings=ours[0].warnings)


def parse_document(
    document: Mapping[str, Any],
    *,
    file: str | None = None,
    lines: Mapping[Path, int] | None = None,
    line: int = 1,
    warnings: tuple[str, ...] = (),
) -> Parsed:
    """Check the shapes of a document that is data already."""
    raw = _without_nulls(document)
    where = Where(file, lines or {}, line)
    try:
        return Parsed(raw, DocumentShape.model_validate(raw), where, [], warnings, False)
    except ValidationError as found:
        listed = [dict(item) for item in found.errors(include_url=False)]
    errors = translate(listed, where)
    return Parsed(raw, _salvage(raw, listed), where, errors, warnings, True)


def _salvage(raw: Mapping[str, Any], listed: list[dict[str, Any]]) -> DocumentShape | None:
    """The document without its wrong parts, so that the checks across fields can report as well."""
    rest = copy.deepcopy(dict(raw))
    # The head is known whatever it says; a wrong one should not hide what is wrong below.
    rest.update({"apiVersion": API_VERSION, "kind": KIND})
    if any(item["loc"][:1] == ("metadata",) for item in listed):
        rest["metadata"] = {"name": "service"}
    listed = [item for item in listed if item["loc"][:1] not in (("apiVersion",), ("kind",), ("metadata",))]
    for _ in range(_ROUNDS):
        for item in listed:
            _remove(rest, tuple(item["loc"]), missing=item["type"] == "missing")
        _compact(rest)
        try:
            return DocumentShape.model_validate(rest)
        except ValidationError as found:
            listed = [dict(item) for item in found.errors(include_url=False)]
    return None


def _remove(rest: Any, path: Path, *, missing: bool) -> None:
    """Take out what is at the path; for a missing field, the whole around it, which means nothing without it."""
    if missing:
        path = path[:-1]
    for part in path[:-1]:
        try:
            rest = rest[part]
        except (KeyError, IndexError, TypeError):
            return
    if not path:
        return
    last = path[-1]
    if isinstance(rest, dict):
        rest.pop(last, None)
    elif isinstance(rest, list) and isinstance(last, int) and last < len(rest):
        rest[last] = None


def _compact(value: Any) -> None:
    """Drop the list items that were taken out."""
    if isinstance(value, dict):
        for item in value.values():
            _compact(item)
    elif isinstance(value, list):
        value[:] = [item for item in value if item is not None]
        for item in value:
            _compact(item)


def _without_nulls(value: Any) -> Any:
    # The API server drops a field that is null, so it means the same as an absent one.
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(item) for item in value]
    return value


def _nearly(document: kubeyaml.Document, file: str | None) -> list[kubeyaml.Document]:
    """A lone mapping that looks like a service: report what is wrong with it rather than that it is none."""
    kind = document.value.get("kind")
    if kind is None and "spec" in document.value:
        return [document]
    hint = near(str(kind), [KIND]) if kind is not None else ""
    if hint:
        place = Place(file, document.lines.get(("kind",), document.line), field="kind")
        raise InputError("spec-kind", f"kind {kind!r} is not {KIND}", place=place, hint=hint)
    return []


def _found(documents: list[kubeyaml.Document]) -> str:
    kinds = [str(item.value.get("kind")) for item in documents if isinstance(item.value, dict) and item.value.get("kind")]
    if kinds:
        return f"no RagService in it, but {', '.join(list(dict.fromkeys(kinds))[:5])}"
    return "no RagService in it, only text" if isinstance(documents[0].value, str) else "no RagService in it"


def _example() -> str:
    return f"a service starts with apiVersion: {API_VERSION} and kind: {KIND}"
