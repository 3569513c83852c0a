"""A Plan back from its JSON: the inverse of printing it, with every fault named by its path.

Names are the camelCase of the fields; unknown fields are left aside, so that a plan of a newer ragstow can still be read.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from ragstow.errors import InputError, InputErrors, Place, RagstowError
from ragstow.plan.model import Plan

KIND = "Plan"


def load_plan(document: Mapping[str, Any], *, file: str | None = None) -> Plan:
    """The plan that a document of kind Plan holds.

    Raises:
        InputErrors: a field is missing or has the wrong shape; all are named.
    """
    errors: list[RagstowError] = []
    plan = _dataclass(Plan, document, "", file, errors)
    if errors:
        raise InputErrors(errors)
    assert isinstance(plan, Plan)
    return plan


def json_name(name: str) -> str:
    """The JSON name of a field."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest).replace("Mib", "MiB")


def _dataclass(kind: type, value: Any, path: str, file: str | None, errors: list[RagstowError]) -> Any:
    if not isinstance(value, Mapping):
        errors.append(_wrong(value, "a mapping", path, file))
        return None
    hints = typing.get_type_hints(kind)
    made: dict[str, Any] = {}
    before = len(errors)
    for field in dataclasses.fields(kind):
        name = json_name(field.name)
        where = f"{path}.{name}" if path else name
        if name in value:
            made[field.name] = _value(hints[field.name], value[name], where, file, errors)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            errors.append(InputError("plan-incomplete", f"{where} is missing", place=Place(file, field=where)))
    return kind(**made) if len(errors) == before else None


def _value(hint: Any, value: Any, path: str, file: str | None, errors: list[RagstowError]) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        return _value(next(item for item in arguments if item is not type(None)), value, path, file, errors)
    if origin is typing.Literal:
        if value not in arguments:
            errors.append(_wrong(value, f"one of {', '.join(map(str, arguments))}", path, file))
        return value
    if origin is tuple:
        return _tuple(arguments, value, path, file, errors)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            errors.append(_wrong(value, "a mapping", path, file))
            return {}
        keys, values = arguments
        return {
            _key(keys, key, path, file, errors): _value(values, item, f"{path}.{key}", file, errors)
            for key, item in value.items()
        }
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _dataclass(hint, value, path, file, errors)
    return _scalar(hint, value, path, file, errors)


def _tuple(arguments: tuple[Any, ...], value: Any, path: str, file: str | None, errors: list[RagstowError]) -> Any:
    if not isinstance(value, Sequence) or isinstance(value, str):
        errors.append(_wrong(value, "a list", path, file))
        return ()
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_value(arguments[0], item, f"{path}[{index}]", file, errors) for index, item in enumerate(value))
    if len(value) != len(arguments):
        errors.append(_wrong(value, f"a list of {len(arguments)}", path, file))
        return ()
    return tuple(
        _value(kind, item, f"{path}[{index}]", file, errors)
        for index, (kind, item) in enumerate(zip(arguments, value, strict=True))
    )


def _key(hint: Any, key: Any, path: str, file: str | None, errors: list[RagstowError]) -> Any:
    # JSON has no other keys than texts.
    if hint is int:
        if isinstance(key, int) or (isinstance(key, str) and key.isdigit()):
            return int(key)
        errors.append(_wrong(key, "a number as key", path, file))
    return key


def _scalar(hint: Any, value: Any, path: str, file: str | None, errors: list[RagstowError]) -> Any:
    wanted = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
    good = isinstance(value, (int, float) if hint is float else hint) and not (isinstance(value, bool) and hint is not bool)
    if not good:
        errors.append(_wrong(value, wanted.get(hint, getattr(hint, "__name__", str(hint))), path, file))
    return float(value) if good and hint is float else value


def _wrong(value: Any, wanted: str, path: str, file: str | None) -> InputError:
    return InputError(
        "plan-shape", f"{path or 'the document'} must be {wanted}, not {value!r:.60}", place=Place(file, field=path or None)
    )
