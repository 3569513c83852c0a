"""Two versions of an object: which fields differ, and the difference as a unified diff. Pure.

What the server keeps for itself (status, managed fields, versions) is left out, and values of Secrets are never shown.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragstow.live.preview.model import FieldChange
from ragstow.render.names import PLAN
from ragstow.render.yamltext import dump

_OF_THE_SERVER = ("managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink", "deletionTimestamp")
_NO_NEWS = (PLAN, "kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision")
"""Annotations that change without anything being different."""
_HIDDEN, _OTHER = "(hidden)", "(hidden, another value)"
_KEYS = ("name", "key", "containerPort", "mountPath", "port", "ip")
"""What list items are known by, the first that all of them have."""


def shown(item: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """An object without what the server keeps for itself."""
    if item is None:
        return None
    made = {key: value for key, value in item.items() if key != "status"}
    meta = {key: value for key, value in (item.get("metadata") or {}).items() if key not in _OF_THE_SERVER}
    annotations = {key: value for key, value in (meta.get("annotations") or {}).items() if key not in _NO_NEWS}
    meta.pop("annotations", None)
    made["metadata"] = {**meta, **({"annotations": annotations} if annotations else {})}
    return made


def hidden(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """Both versions with the values of a Secret taken out; one sees only that a value changes."""
    if "Secret" not in ((before or {}).get("kind"), (after or {}).get("kind")):
        return before, after

    def masked(item: Mapping[str, Any], other: Mapping[str, Any] | None) -> dict[str, Any]:
        made = dict(item)
        for part in ("data", "stringData"):
            values, others = item.get(part), (other or {}).get(part) or {}
            if isinstance(values, Mapping):
                made[part] = {
                    key: _HIDDEN if other is None or key not in others or others[key] == value else _OTHER
                    for key, value in values.items()
                }
        return made

    return (
        masked(before, None) if before is not None else None,
        masked(after, before) if after is not None else None,
    )


def changes(before: Any, after: Any, path: str = "") -> Iterator[FieldChange]:
    """The fields that differ, in the order in which they stand."""
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in (*before, *(key for key in after if key not in before)):
            yield from changes(before.get(key), after.get(key), f"{path}{_step(str(key))}")
        return
    if isinstance(before, list) and isinstance(after, list) and (key := _key(before, after)) is not None:
        old, new = {item[key]: item for item in before}, {item[key]: item for item in after}
        for name in (*old, *(name for name in new if name not in old)):
            yield from changes(old.get(name), new.get(name), f"{path}[{key}={name}]")
        if len(old) == len(new) and list(old) != list(new) and set(old) == set(new):
            yield FieldChange(path, list(old), list(new))
        return
    yield FieldChange(path or ".", before, after)


def _step(key: str) -> str:
    plain = key.replace("_", "").replace("-", "").isalnum()
    return f".{key}" if plain else f"['{key}']"


def _key(before: Sequence[Any], after: Sequence[Any]) -> str | None:
    items = [*before, *after]
    if not items or not all(isinstance(item, Mapping) for item in items):
        return None
    for key in _KEYS:
        values = [[item.get(key) for item in side] for side in (before, after)]
        if all(None not in side and len(set(map(str, side))) == len(side) for side in values):
            return key
    return None


def unified(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, name: str, *, context: int = 3) -> list[str]:
    """The lines of a unified diff of both versions as YAML; empty where they are the same."""
    old = dump(dict(before)).splitlines() if before is not None else []
    new = dump(_ordered(after, before)).splitlines() if after is not None else []
    start = f"live/{name}" if before is not None else "/dev/null"
    end = f"applied/{name}" if after is not None else "/dev/null"
    return list(difflib.unified_diff(old, new, start, end, lineterm="", n=context))


def _ordered(value: Any, like: Any) -> Any:
    """A value with the keys of its mappings in the order of another one, so that only differences differ."""
    if isinstance(value, Mapping):
        other = like if isinstance(like, Mapping) else {}
        keys = [*(key for key in other if key in value), *(key for key in value if key not in other)]
        return {key: _ordered(value[key], other.get(key)) for key in keys}
    if isinstance(value, list):
        others = like if isinstance(like, list) and len(like) == len(value) else [None] * len(value)
        return [_ordered(item, other) for item, other in zip(value, others, strict=True)]
    return value
