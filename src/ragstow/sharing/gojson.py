"""How Go programs read and print JSON values, as far as a plugin configuration needs it.

`sigs.k8s.io/yaml` turns YAML into JSON and `encoding/json` puts that into structs: keys match without regard to case, in sorted
order; a wrong type is remembered and reading goes on, and the first one is reported at the end, unless a type's own reader
refuses earlier. This module knows those rules and no configuration (Go documentation: encoding/json, Unmarshal).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

Source = Literal["plugin", "yaml", "json", "duration", "flags"]
"""Whose words a text is: the plugin's own, or those of a library it uses."""


class Refused(Exception):
    """A value is refused; reading ends here. `source` says whose words the text is."""

    def __init__(self, text: str, source: Source = "plugin") -> None:
        super().__init__(text)
        self.text = text
        self.source: Source = source


def kind(value: object) -> str:
    """The JSON kind of a value, in encoding/json's words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def number(value: int | float) -> str:
    """The text Go prints for a number: integers that fit 64 bits as they are, everything else as a float64."""
    if isinstance(value, int) and -(2**63) <= value < 2**64:
        return str(value)
    real = float(value)
    if real == 0 or 1e-6 <= abs(real) < 1e21:
        return format(Decimal(repr(real)), "f").removesuffix(".0")
    mantissa, _, exponent = repr(real).partition("e")
    power = int(exponent)
    return f"{mantissa.removesuffix('.0')}e{'-' if power < 0 else '+'}{abs(power):0{2 if power > 0 else 1}d}"


def finite(value: object) -> bool:
    """Whether JSON can hold every number inside (infinity and NaN it cannot)."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list):
        return all(finite(item) for item in value)
    if isinstance(value, Mapping):
        return all(finite(item) for item in value.values())
    return True


def dumps(value: object) -> str:
    """The compact JSON text of a value as Go prints it (keys sorted, HTML characters escaped)."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        for character in "<>&\u2028\u2029":
            text = text.replace(character, f"\\u{ord(character):04x}")
        return text
    if isinstance(value, list):
        return "[" + ",".join(dumps(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{dumps(str(key))}:{dumps(value[key])}" for key in sorted(value, key=_bytes)) + "}"
    raise TypeError(type(value).__name__)


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


@dataclass(slots=True)
class Context:
    """Where in the structs the reader is, and the first wrong type it met."""

    struct: str = ""
    path: list[str] = field(default_factory=list)
    first: str | None = None

    def type_text(self, what: str, type_name: str) -> str:
        """encoding/json's sentence for a value of the wrong type at this place."""
        where = f"struct field {self.struct}.{'.'.join(self.path)}" if self.struct or self.path else "value"
        return f"json: cannot unmarshal {what} into Go {where} of type {type_name}"

    def mismatch(self, value: object, type_name: str) -> None:
        """Remember a wrong type; only the first one is ever reported."""
        if self.first is None:
            self.first = self.type_text(kind(value), type_name)

    def refuse_type(self, value: object, type_name: str) -> Refused:
        """The refusal of a type's own reader that met a wrong type."""
        return Refused(self.type_text(kind(value), type_name), "json")


Reader = Callable[[Context, Any, Any], Any]
"""(context, value, what the field holds so far) -> what it holds then."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct: its name in JSON, how it is read, and the embedded structs it is promoted from."""

    name: str
    read: Reader
    through: tuple[str, ...] = ()


def read_struct(
    context: Context, struct: str, type_name: str, fields: tuple[Field, ...], value: object, held: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Read an object into a struct, field by field, on top of what it holds; null changes nothing."""
    if value is None:
        return dict(held) if held is not None else None
    if not isinstance(value, Mapping):
        context.mismatch(value, type_name)
        return dict(held) if held is not None else None
    made = dict(held or {})
    for key in sorted(value, key=_bytes):
        found = next((item for item in fields if item.name == key), None) or next(
            (item for item in fields if item.name.casefold() == key.casefold()), None
        )
        if found is None:
            continue
        outer, depth = context.struct, len(context.path)
        context.struct = struct
        context.path += [*found.through, found.name]
        made[found.name] = found.read(context, value[key], made.get(found.name))
        context.struct = outer
        del context.path[depth:]
    return made


def text(context: Context, value: Any, held: Any) -> Any:
    """A string, or a pointer to one."""
    return _scalar(context, value, held, str, "string")


def boolean(context: Context, value: Any, held: Any) -> Any:
    """A bool, or a pointer to one."""
    return _scalar(context, value, held, bool, "bool")


def _scalar(context: Context, value: Any, held: Any, wanted: type, name: str) -> Any:
    if value is None:
        return held
    if isinstance(value, wanted):
        return value
    context.mismatch(value, name)
    return held


def integer(context: Context, value: Any) -> int | None:
    """An int; None (and a mismatch) where the value is none."""
    if kind(value) == "number":
        whole = as_int(value)
        if whole is not None:
            return whole
        if context.first is None:
            context.first = context.type_text(f"number {number(value)}", "int")
        return None
    context.mismatch(value, "int")
    return None


def as_int(value: Any) -> int | None:
    """The value as Go's ParseInt reads its JSON text into 64 bits, or None."""
    if kind(value) != "number":
        return None
    printed = number(value)
    if re.fullmatch(r"-?[0-9]+", printed) is None or not -(2**63) <= int(printed) < 2**63:
        return None
    return int(printed)
