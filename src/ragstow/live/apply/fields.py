"""Server-side apply read backwards: the part of an object that a set of managed fields (FieldsV1) names.

Format: kubernetes.io/docs/reference/using-api/server-side-apply; `f:` is a field, `k:` a list item by its keys, `v:` a value
of a set, `.` the item itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def extract(item: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an object that `fields` names, with what an apply of them needs besides (keys of list items)."""
    made: dict[str, Any] = {}
    for key, below in fields.items():
        kind, _, name = key.partition(":")
        if kind == "f" and name in item:
            made[name] = _value(item[name], below)
    return made


def _value(value: Any, below: Mapping[str, Any]) -> Any:
    deeper = {key: rest for key, rest in below.items() if key != "."}
    if not deeper:
        return value
    if isinstance(value, Mapping):
        return extract(value, deeper)
    if isinstance(value, list):
        return _items(value, deeper)
    return value


def _items(values: list[Any], below: Mapping[str, Any]) -> list[Any]:
    made: list[Any] = []
    for value in values:
        for key, rest in below.items():
            kind, _, text = key.partition(":")
            if kind == "v" and json.loads(text) == value:
                made.append(value)
            elif kind == "k" and isinstance(value, Mapping):
                keys = json.loads(text)
                if all(value.get(name) == wanted for name, wanted in keys.items()):
                    made.append({**{name: value[name] for name in keys if name in value}, **extract(value, rest)})
    return made
