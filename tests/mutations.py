"""Objects as no API server gives them: fields dropped, of the wrong type, or in the wrong place. Reproducible by a seed."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

WRONG: tuple[Any, ...] = (
    None,
    "",
    "x",
    "true",
    7,
    -1,
    2.5,
    True,
    [],
    {},
    ["x"],
    [None],
    [{}],
    {"x": "y"},
    [[]],
    {"x": None},
    "a/b:c",
    "1e9Gi",
)
_KEPT = (("apiVersion",), ("kind",), ("metadata", "name"))


def mutated(objects: list[dict[str, Any]], seed: int, most: int = 6) -> list[dict[str, Any]]:
    """A copy with up to `most` places changed: dropped, replaced by a wrong value, or given twice."""
    draw = random.Random(seed)
    made = copy.deepcopy(objects)
    for _ in range(draw.randint(1, most)):
        item = draw.choice(made)
        places = [place for place in _places(item, ()) if place not in _KEPT]
        if places:
            _change(item, draw.choice(places), draw)
    return made


def _places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    listed = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in listed:
        yield (*path, key)
        yield from _places(inner, (*path, key))


def _change(item: dict[str, Any], place: tuple[Any, ...], draw: random.Random) -> None:
    inner: Any = item
    for key in place[:-1]:
        inner = inner[key]
    last = place[-1]
    match draw.randrange(4):
        case 0:
            del inner[last]
        case 1 if isinstance(inner, list):
            inner.append(copy.deepcopy(inner[last]))
        case _:
            inner[last] = copy.deepcopy(draw.choice(WRONG))
