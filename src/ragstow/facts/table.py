"""Tables of facts: files in, checked rows out, faults with file and line.

A table is a CSV file (wide, flat) or a YAML file (structured). Its schema is a frozen dataclass: field names are the columns,
types and `msgspec.Meta` constraints are the checks, a default makes a column optional. Every row class has `source` and
`checked`. This module knows files and rows and nothing of what they say.
"""

from __future__ import annotations

import csv
import dataclasses
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, Protocol, TypeVar

import msgspec

from ragstow import kubeyaml
from ragstow.errors import FactsError, InputError, Place

DATA = Path(__file__).resolve().parent / "data"
LIST_SEPARATOR = ";"

Text = Annotated[str, msgspec.Meta(min_length=1)]
Date = Annotated[str, msgspec.Meta(pattern=r"^20[0-9]{2}-[01][0-9]-[0-3][0-9]$")]
Version = Annotated[str, msgspec.Meta(pattern=r"^[0-9]+(\.[0-9]+)*$")]
Mib = Annotated[int, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class Sourced(Protocol):
    """What every row says beside its facts: where they come from and when that was last looked at (YYYY-MM-DD)."""

    @property
    def source(self) -> str: ...
    @property
    def checked(self) -> str: ...


R = TypeVar("R", bound=Sourced)


@dataclasses.dataclass(frozen=True, slots=True)
class Table(Generic[R]):
    """A kind of facts file.

    `file` is its name in our data folder and in a user's folder, `row` the dataclass of a row, `key` the fields that name a
    row (a user's row with the same key replaces ours), `check` looks at one row as a whole and gives what is wrong with it.
    A YAML file is a mapping with `rows:` and, for all rows that do not say their own, `source:` and `checked:`.
    """

    file: str
    row: type[R]
    key: tuple[str, ...]
    check: Callable[[R], Iterable[str]] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong in a facts file."""

    place: Place
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


def read(table: Table[R], overlay: Path | None = None) -> tuple[R, ...]:
    """The rows of our file in its order, with a user's rows put in the place of ours of the same key, new ones at the end.

    Args:
        table: which file.
        overlay: a user's folder, already known to be one; the file may be absent there.

    Raises:
        FactsError: a row breaks the schema; the message lists every fault with file and line.
    """
    faults: list[Fault] = []
    rows = _rows(table, DATA / table.file, faults)
    if overlay is not None and (overlay / table.file).is_file():
        rows.update(_rows(table, overlay / table.file, faults))
    refuse(faults)
    return tuple(rows.values())


def refuse(faults: Sequence[Fault]) -> None:
    """Raise a FactsError that lists all faults; nothing where there are none."""
    if not faults:
        return
    if len(faults) == 1:
        raise FactsError("facts-invalid", faults[0].message, place=faults[0].place)
    listed = "\n".join(f"  {fault}" for fault in faults)
    raise FactsError("facts-invalid", f"{len(faults)} faults in the facts:\n{listed}")


def _rows(table: Table[R], path: Path, faults: list[Fault]) -> dict[tuple[Any, ...], R]:
    fields = _fields(table.row)
    found: dict[tuple[Any, ...], R] = {}
    for line, raw, line_of in _csv(path, fields, faults) if path.suffix == ".csv" else _yaml(path, faults):
        before = len(faults)
        _unknown_fields(raw, fields, path, line, line_of, faults)
        row = _convert(table.row, raw, fields, path, line, line_of, faults)
        if row is None or len(faults) > before:
            continue
        faults.extend(Fault(Place(str(path), line), message) for message in (table.check(row) if table.check else ()))
        key = tuple(getattr(row, name) for name in table.key)
        if key in found:
            faults.append(Fault(Place(str(path), line), f"{', '.join(map(str, key))} is given twice in this file"))
        found[key] = row
    return found


LineOf = Callable[[tuple[str | int, ...]], int]


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    type: Any
    listed: bool
    required: bool


_FIELDS: dict[type, dict[str, _Field]] = {}


def _fields(row: type) -> dict[str, _Field]:
    if row not in _FIELDS:
        hints = typing.get_type_hints(row, include_extras=True)
        _FIELDS[row] = {
            field.name: _Field(
                hints[field.name],
                typing.get_origin(hints[field.name]) is tuple,
                field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
            )
            for field in dataclasses.fields(row)
        }
    return _FIELDS[row]


def _csv(path: Path, fields: Mapping[str, _Field], faults: list[Fault]) -> Iterable[tuple[int, dict[str, Any], LineOf]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        header = next(reader, [])
        for cells in reader:
            line = reader.line_num
            if not any(cells):
                continue
            if len(cells) != len(header):
                faults.append(Fault(Place(str(path), line), f"{len(cells)} cells, but the header has {len(header)}"))
                continue
            row: dict[str, Any] = {}
            for name, cell in zip(header, cells, strict=True):
                text = cell.strip()
                if not text:
                    continue
                known = fields.get(name)
                row[name] = [item.strip() for item in text.split(LIST_SEPARATOR)] if known and known.listed else text
            yield line, row, lambda _, line=line: line  # type: ignore[misc]  # mypy cannot type a default in a lambda


def _yaml(path: Path, faults: list[Fault]) -> Iterable[tuple[int, dict[str, Any], LineOf]]:
    try:
        documents = kubeyaml.load_all(path.read_text(encoding="utf-8"), file=str(path), lines=True)
    except InputError as error:
        faults.append(Fault(Place(str(path), error.place.line), error.message))
        return
    document = documents[0] if documents else None
    if len(documents) > 1 or document is None or not isinstance(document.value, dict):
        faults.append(Fault(Place(str(path), 1), "expected one mapping with source, checked and rows"))
        return
    lines = document.lines
    faults.extend(Fault(Place(str(path)), warning) for warning in document.warnings)
    faults.extend(
        Fault(Place(str(path), lines.get((name,))), f"unknown field {name!r} beside source, checked and rows")
        for name in document.value
        if name not in ("source", "checked", "rows")
    )
    rows = document.value.get("rows")
    if not isinstance(rows, list):
        faults.append(Fault(Place(str(path), lines.get(("rows",), 1)), "rows must be a list"))
        return
    defaults = {name: document.value[name] for name in ("source", "checked") if name in document.value}
    for index, row in enumerate(rows):
        line = lines.get(("rows", index), 1)
        if not isinstance(row, dict):
            faults.append(Fault(Place(str(path), line), "a row must be a mapping"))
            continue

        def line_of(path: tuple[str | int, ...], index: int = index, line: int = line) -> int:
            while path:
                if (at := lines.get(("rows", index, *path))) is not None:
                    return at
                path = path[:-1]
            return line

        yield line, {**defaults, **row}, line_of


def _unknown_fields(
    raw: Mapping[str, Any], fields: Mapping[str, _Field], path: Path, line: int, line_of: LineOf, faults: list[Fault]
) -> None:
    for at, names in _strangers(raw, fields, ()):
        import difflib  # only where something is wrong: it is slow to load

        near = difflib.get_close_matches(str(at[-1]), names, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        faults.append(Fault(Place(str(path), line_of(at) or line), f"unknown field {str(at[-1])!r}{hint}"))
    for name, field in fields.items():
        if field.required and name not in raw:
            faults.append(Fault(Place(str(path), line), f"{name} is missing"))


def _strangers(
    raw: Mapping[str, Any], fields: Mapping[str, _Field], at: tuple[str | int, ...]
) -> Iterable[tuple[tuple[str | int, ...], list[str]]]:
    """Every key that no field has, inside nested rows too: its path, and the names that would be right there."""
    for name, value in raw.items():
        if name not in fields:
            yield (*at, name), list(fields)
        elif isinstance(value, dict | list) and (inner := _row_inside(fields[name].type)) is not None:
            items = enumerate(value) if isinstance(value, list) else ((None, value),)
            for index, item in items:
                if isinstance(item, dict):
                    yield from _strangers(item, _fields(inner), (*at, name) if index is None else (*at, name, index))


def _row_inside(type_: Any) -> type | None:
    """The dataclass in a field's type: itself, an optional one, or a tuple of them."""
    if dataclasses.is_dataclass(type_):
        return type_ if isinstance(type_, type) else None
    if typing.get_origin(type_) in (tuple, typing.Union, types.UnionType):
        return next((found for part in typing.get_args(type_) if (found := _row_inside(part)) is not None), None)
    return None


def _convert(
    row: type[R],
    raw: Mapping[str, Any],
    fields: Mapping[str, _Field],
    path: Path,
    line: int,
    line_of: LineOf,
    faults: list[Fault],
) -> R | None:
    try:
        return msgspec.convert(raw, row, strict=path.suffix != ".csv")
    except msgspec.ValidationError:
        pass
    # The fast way stops at the first fault; the slow one names all.
    for name, value in raw.items():
        if name not in fields:
            continue
        try:
            msgspec.convert(value, fields[name].type, strict=path.suffix != ".csv")
        except msgspec.ValidationError as error:
            message, _, inside = str(error).partition(" - at `$")
            inner = _inner_path(inside)
            where = name + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in inner)
            faults.append(Fault(Place(str(path), line_of((name, *inner)) or line), f"{where}: {message}, not {value!r:.60}"))
    return None


def _inner_path(text: str) -> tuple[str | int, ...]:
    parts = re.findall(r"\.([A-Za-z0-9_]+)|\[(\d+|\.\.\.)\]", text)
    return tuple(name or (int(index) if index.isdigit() else index) for name, index in parts)
