"""The fields of the document by path: which exist below a place, and what each means. For hints and for `explain`."""

from __future__ import annotations

import difflib
import types
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from ragstow.errors import InputError
from ragstow.spec.document import Amount, DocumentShape, LargeCount

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class FieldPage:
    """What `explain` says of a field: path, meaning, type and default in words, an example, the fields below it."""

    path: str
    meaning: str
    type: str
    required: bool
    default: str
    example: Any
    fields: tuple[str, ...] = ()


def names_at(path: Path) -> tuple[str, ...]:
    """The names that a mapping at this path of the document may have; empty where it holds anything or is no mapping."""
    shape = _shape_at(path)
    return tuple(_aliases(shape)) if shape is not None else ()


def allowed_at(path: Path) -> tuple[str, ...]:
    """The words that a field allows, where it allows a list of words only."""
    if not path:
        return ()
    parent, name = path[:-1], path[-1]
    if isinstance(name, int):
        return allowed_at(parent)
    shape = _shape_at(parent)
    if shape is None or name not in _aliases(shape):
        return ()
    return _words(shape.model_fields[_aliases(shape)[name]].annotation)


def page(path: str) -> FieldPage:
    """The page of a field, for example of `spec.components.model` (list indexes may be left out or given).

    Raises:
        InputError: no field has that path; the hint names one that looks like it.
    """
    parts = [part for part in path.replace("[]", "").split(".") if part]
    shape: type[BaseModel] | None = DocumentShape
    walked: list[str] = []
    found: FieldPage | None = None
    for raw in parts:
        name = raw.partition("[")[0]
        known = _aliases(shape) if shape is not None else {}
        if name not in known:
            raise _unknown(path, ".".join(walked), name, list(known))
        walked.append(name)
        assert shape is not None
        info = shape.model_fields[known[name]]
        inner = _inner_shape(info.annotation)
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        found = FieldPage(
            path=".".join(walked),
            meaning=info.description or "",
            type=type_words(info.annotation),
            required=info.is_required(),
            default=str(extra.get("x-default", "")),
            example=info.examples[0] if info.examples else None,
            fields=tuple(_aliases(inner)) if inner is not None else (),
        )
        shape = inner
    if found is None:
        raise _unknown(path, "", path, list(_aliases(DocumentShape)))
    return found


def all_paths() -> tuple[str, ...]:
    """Every path below spec, parents first."""
    found: list[str] = []

    def walk(shape: type[BaseModel], before: str) -> None:
        for name, field in _aliases(shape).items():
            path = f"{before}.{name}"
            found.append(path)
            inner = _inner_shape(shape.model_fields[field].annotation)
            if inner is not None:
                walk(inner, path)

    spec = _inner_shape(DocumentShape.model_fields["spec"].annotation)
    assert spec is not None
    walk(spec, "spec")
    return tuple(found)


def type_words(annotation: Any) -> str:
    """A type in a person's words."""
    if get_origin(annotation) is Annotated:
        if annotation == Amount:
            return "quantity"
        if annotation == LargeCount:
            return "number, with k or M if you like"
        return type_words(get_args(annotation)[0])
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join(type_words(item) for item in arguments if item is not type(None))
    if origin is Literal:
        return "one of " + ", ".join(str(item) for item in arguments)
    if origin is list:
        return f"list of {type_words(arguments[0])}"
    if origin is dict:
        return "mapping"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping"
    names = {str: "text", int: "whole number", bool: "true or false"}
    return names.get(annotation, "quantity") if isinstance(annotation, type) else "anything"


def _unknown(path: str, below: str, name: str, known: list[str]) -> InputError:
    near = difflib.get_close_matches(name, known, 1, 0.5)
    if not near:
        near = [item for item in all_paths() if item.rpartition(".")[2].casefold() == name.casefold()][:1]
    elif below:
        near = [f"{below}.{near[0]}"]
    hint = f"did you mean {near[0]}?" if near else (f"below {below}: {', '.join(known)}" if known else "")
    return InputError("explain-unknown", f"there is no field {path}", hint=hint)


def _aliases(shape: type[BaseModel]) -> dict[str, str]:
    return {info.alias or name: name for name, info in shape.model_fields.items()}


def _shape_at(path: Path) -> type[BaseModel] | None:
    shape: type[BaseModel] | None = DocumentShape
    for part in path:
        if isinstance(part, int):
            continue
        if shape is None or part not in _aliases(shape):
            return None
        shape = _inner_shape(shape.model_fields[_aliases(shape)[part]].annotation)
    return shape


def _inner_shape(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for item in get_args(annotation):
        found = _inner_shape(item)
        if found is not None:
            return found
    return None


def _words(annotation: Any) -> tuple[str, ...]:
    if get_origin(annotation) is Literal:
        return tuple(str(item) for item in get_args(annotation))
    for item in get_args(annotation):
        found = _words(item)
        if found:
            return found
    return ()
