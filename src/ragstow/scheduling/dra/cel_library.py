"""The CEL functions of Kubernetes that device selectors may use, for cel-expr-python.

Quantities and semantic versions travel through CEL as marked texts, because the Python binding has no opaque values: a text of
a slice never starts with the mark (attribute values are printable). Functions and their meaning: quantity, semver, regex, lists
and sets of k8s.io/apiserver/pkg/cel/library. Not here: url, ip, cidr, format; a selector that calls them is "not evaluated".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from ragstow import quantity
from ragstow.errors import InputError
from ragstow.quantity import NANO
from ragstow.scheduling.dra import semver

_QUANTITY = "\x01q:"
_VERSION = "\x01v:"


def mark_quantity(nano: int) -> str:
    """A quantity as CEL sees it; equal amounts are equal texts."""
    return f"{_QUANTITY}{nano}"


def mark_version(text: str) -> str:
    """A semantic version as CEL sees it.

    Raises:
        ValueError: not a semantic version.
    """
    return _VERSION + semver.canonical(text)


def functions(cel: Any) -> Sequence[Any]:
    """The function declarations, made with the module `cel_expr_python.cel`."""
    kind = cel.Type
    text, truth, whole, real, anything = kind.STRING, kind.BOOL, kind.INT, kind.DOUBLE, kind.DYN
    items = kind.List(anything)

    def declare(name: str, *overloads: tuple[Any, Sequence[Any], Callable[..., Any]], member: bool = False) -> Any:
        return cel.FunctionDecl(
            name,
            [
                cel.Overload(f"{name}_{index}", return_type=result, parameters=list(parameters), is_member=member, impl=body)
                for index, (result, parameters, body) in enumerate(overloads)
            ],
        )

    return [
        declare("quantity", (text, [text], _quantity)),
        declare("isQuantity", (truth, [text], _is_quantity)),
        declare("semver", (text, [text], mark_version), (text, [text, truth], _loose_version)),
        declare("isSemver", (truth, [text], _is_version), (truth, [text, truth], _is_loose_version)),
        declare("compareTo", (whole, [text, text], _compare), member=True),
        declare("isGreaterThan", (truth, [text, text], lambda a, b: _compare(a, b) > 0), member=True),
        declare("isLessThan", (truth, [text, text], lambda a, b: _compare(a, b) < 0), member=True),
        declare(
            "add",
            (text, [text, text], _add),
            (text, [text, whole], lambda a, b: mark_quantity(_nano(a) + b * NANO)),
            member=True,
        ),
        declare(
            "sub",
            (text, [text, text], _sub),
            (text, [text, whole], lambda a, b: mark_quantity(_nano(a) - b * NANO)),
            member=True,
        ),
        declare("sign", (whole, [text], lambda a: (_nano(a) > 0) - (_nano(a) < 0)), member=True),
        declare("isInteger", (truth, [text], lambda a: _nano(a) % NANO == 0), member=True),
        declare("asInteger", (whole, [text], _as_integer), member=True),
        declare("asApproximateFloat", (real, [text], lambda a: _nano(a) / NANO), member=True),
        declare("major", (whole, [text], lambda a: semver.parse(_version(a))[0]), member=True),
        declare("minor", (whole, [text], lambda a: semver.parse(_version(a))[1]), member=True),
        declare("patch", (whole, [text], lambda a: semver.parse(_version(a))[2]), member=True),
        declare("find", (text, [text, text], _find), member=True),
        declare("findAll", (items, [text, text], _find_all), (items, [text, text, whole], _find_some), member=True),
        declare("isSorted", (truth, [items], lambda a: all(x <= y for x, y in pairwise(a))), member=True),
        declare("sum", (anything, [items], sum), member=True),
        declare("min", (anything, [items], _smallest), member=True),
        declare("max", (anything, [items], _largest), member=True),
        declare("sets.contains", (truth, [items, items], lambda a, b: all(x in a for x in b))),
        declare("sets.intersects", (truth, [items, items], lambda a, b: any(x in a for x in b))),
        declare("sets.equivalent", (truth, [items, items], lambda a, b: all(x in a for x in b) and all(x in b for x in a))),
    ]


def _nano(value: str) -> int:
    if not value.startswith(_QUANTITY):
        raise ValueError("no such overload")
    return int(value[len(_QUANTITY) :])


def _version(value: str) -> str:
    if not value.startswith(_VERSION):
        raise ValueError("no such overload")
    return value[len(_VERSION) :]


def _compare(left: str, right: str) -> int:
    if left.startswith(_VERSION):
        return semver.compare(_version(left), _version(right))
    a, b = _nano(left), _nano(right)
    return (a > b) - (a < b)


def _add(left: str, right: str) -> str:
    return mark_quantity(_nano(left) + _nano(right))


def _sub(left: str, right: str) -> str:
    return mark_quantity(_nano(left) - _nano(right))


def _as_integer(value: str) -> int:
    amount, rest = divmod(_nano(value), NANO)
    if rest:
        raise ValueError("cannot convert value to integer")
    return amount


def _quantity(text: str) -> str:
    try:
        return mark_quantity(quantity.parse(text).nano)
    except InputError as error:
        raise ValueError(error.message) from None


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except InputError:
        return False
    return True


def _loose_version(text: str, normalize: bool) -> str:
    return mark_version(semver.normalize(text) if normalize else text)


def _is_version(text: str) -> bool:
    return _is_loose_version(text, False)


def _is_loose_version(text: str, normalize: bool) -> bool:
    try:
        _loose_version(text, normalize)
    except ValueError:
        return False
    return True


def _find(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found.group(0) if found else ""


def _find_all(text: str, pattern: str) -> list[str]:
    return _find_some(text, pattern, -1)


def _find_some(text: str, pattern: str, limit: int) -> list[str]:
    found = [match.group(0) for match in re.finditer(pattern, text)]
    return found if limit < 0 else found[:limit]


def _smallest(items: list[Any]) -> Any:
    if not items:
        raise ValueError("min called on empty list")
    return min(items)


def _largest(items: list[Any]) -> Any:
    if not items:
        raise ValueError("max called on empty list")
    return max(items)
