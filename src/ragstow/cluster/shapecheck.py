"""Whether an object has the shape of its kind. An API server sends nothing else; a file that somebody edited may.

What does not have its shape is left out of a snapshot with a word about it, so that nobody below has to ask what kind of thing
a field is. Only shapes are checked, never values; null is as good as absent, as for the API server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, reduce
from operator import or_
from types import GenericAlias
from typing import Any

import msgspec

from ragstow import quantity
from ragstow.cluster.shapes import SHAPES, Amount, Each, Shape
from ragstow.errors import InputError

_SAID = re.compile(r"Expected `(?P<wanted>[^`]+)`, got `(?P<got>[^`]+)`(?: - at `\$\.?(?P<where>[^`]*)`)?")
_WORDS = {
    "object": "a mapping",
    "array": "a list",
    "str": "a text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}


def misfit(group: str, kind: str, value: Mapping[str, Any]) -> tuple[str, str] | None:
    """(field, what is wrong with it) of the first field that does not have its shape; None where all have."""
    if (group, kind) not in SHAPES:
        return None
    try:
        msgspec.convert(value, _of_kind(group, kind), dec_hook=_amount)
    except msgspec.ValidationError as error:
        return _told(str(error))
    return None


@cache
def _of_kind(group: str, kind: str) -> Any:
    return _type(SHAPES[(group, kind)])


def _type(shape: Shape) -> Any:
    """A shape as a type of msgspec, which checks it many times faster than Python could."""
    if isinstance(shape, dict):
        fields = [(name, _type(inner) | None, None) for name, inner in shape.items()]
        return msgspec.defstruct("Fields", fields, gc=False)
    if isinstance(shape, list):
        return GenericAlias(list, (_type(shape[0]),))
    if isinstance(shape, tuple):
        return reduce(or_, map(_type, shape))
    if isinstance(shape, Each):
        return GenericAlias(dict, (str, _type(shape.shape)))
    return shape


def _amount(wanted: type, value: Any) -> Any:
    if wanted is not Amount:
        raise NotImplementedError(f"no hook for {wanted}")
    try:
        quantity.parse(value)
    except InputError as error:
        raise ValueError(error.message) from None
    return Amount()


def _told(text: str) -> tuple[str, str]:
    found = _SAID.search(text)
    if found is None:
        said, _, where = text.partition(" - at `$")
        field = where.rstrip("`").lstrip(".")
        return field, f"{field}: {said}"
    field = found["where"] or ""
    kinds = [_WORDS.get(kind, kind) for kind in found["wanted"].split(" | ") if kind != "null"]
    return field, f"{field} is {_WORDS.get(found['got'], found['got'])}, not {' or '.join(dict.fromkeys(kinds))}"
