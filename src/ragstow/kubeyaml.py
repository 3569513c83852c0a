"""YAML as kubectl reads it.

kubectl goes through sigs.k8s.io/yaml, whose scalar rules (go-yaml v2) no Python parser shares: yes/on/y are booleans, 0777
and 0o777 are octal, 1e3 is a number, while 1:30 and dates stay strings. `load_all` gives the documents of a text with those
rules; JSON is tried first, since it is many times faster. Duplicate keys keep the last value, as kubectl does, and are
reported. This room knows YAML and nothing of Kubernetes kinds.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from ragstow.errors import InputError, Place

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_BOOLS = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_NULL = re.compile(r"^(?:~|null|Null|NULL|)$")
_BOOL = re.compile("^(?:" + "|".join(sorted(_BOOLS)) + ")$")
_INT = re.compile(r"^[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)$")
_FLOAT = re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$")
_SPECIAL = re.compile(r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$")


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a stream: its value, the line it starts on (1-based) and what is worth a warning."""

    value: Any
    line: int
    warnings: tuple[str, ...] = ()
    lines: dict[tuple[str | int, ...], int] = field(default_factory=dict, compare=False, repr=False)
    """Path -> line of every key and item; filled only by `load_all(..., lines=True)`."""


def load_all(text: str, *, file: str | None = None, lines: bool = False) -> list[Document]:
    """The documents of a JSON or YAML text; empty documents are left out.

    Args:
        text: the whole text.
        file: its name, for messages.
        lines: also note the line of every key and item (slower; for files that a person wrote).

    Raises:
        InputError: the text is neither JSON nor YAML.
    """
    text = text.removeprefix("\ufeff")
    if not lines and text.lstrip()[:1] in ("{", "["):
        try:
            return [Document(msgspec.json.decode(text), 1)]
        except msgspec.DecodeError:
            pass  # flow-style YAML looks like JSON too; the YAML parser decides and gives the place
    documents: list[Document] = []
    loader: Any = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            loader.warnings = []
            value = loader.construct_document(node)
            if value is None:
                continue
            where: dict[tuple[str | int, ...], int] = {}
            if lines:
                _note_lines(node, (), where)
            documents.append(Document(value, node.start_mark.line + 1, tuple(loader.warnings), where))
    except yaml.YAMLError as error:
        raise _refuse(error, text, file) from None
    except RecursionError:
        raise InputError("yaml-too-deep", "nested too deeply to be a Kubernetes object", place=Place(file)) from None
    finally:
        loader.dispose()
    return documents


class _Loader(_Base):  # type: ignore[misc]  # the C loader is untyped
    """CSafeLoader with kubectl's implicit types."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own protocol
    warnings: list[str]

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        if isinstance(node, yaml.MappingNode):
            seen: dict[str, int] = {}
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if key.value in seen:
                        self.warnings.append(
                            f"line {key.start_mark.line + 1}: key {key.value!r} again (first on line {seen[key.value]}); "
                            "the last one counts"
                        )
                    else:
                        seen[key.value] = key.start_mark.line + 1
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
        return {_key(key): value for key, value in mapping.items()}


def _key(key: Hashable) -> Hashable:
    # sigs.k8s.io/yaml turns every key into a JSON string.
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key) if isinstance(key, int | float) else key


def _integer(loader: Any, node: Any) -> int:
    text = str(loader.construct_scalar(node)).replace("_", "")
    sign = -1 if text.startswith("-") else 1
    text = text.lstrip("+-")
    for prefix, base in (("0b", 2), ("0o", 8), ("0x", 16)):
        if text.startswith(prefix):
            return sign * int(text[2:], base)
    if len(text) > 1 and text.startswith("0") and not set(text) - set("01234567"):
        return sign * int(text, 8)
    return sign * int(text)


def _float(loader: Any, node: Any) -> float | int:
    text = str(loader.construct_scalar(node)).lower()
    if "inf" in text:
        return float("-inf") if text.startswith("-") else float("inf")
    if "nan" in text:
        return float("nan")
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _boolean(loader: Any, node: Any) -> bool:
    return _BOOLS[str(loader.construct_scalar(node))]


for _tag, _pattern, _first in (
    ("null", _NULL, ["~", "n", "N", ""]),
    ("bool", _BOOL, list("yYnNtTfFoO")),
    ("int", _INT, list("-+0123456789")),
    ("float", _FLOAT, list("-+0123456789.")),
    ("float", _SPECIAL, list("-+.")),
    ("merge", re.compile(r"^<<$"), ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, _first)
_Loader.add_constructor("tag:yaml.org,2002:bool", _boolean)
_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda loader, node: loader.construct_scalar(node))


def _note_lines(node: Any, path: tuple[str | int, ...], into: dict[tuple[str | int, ...], int]) -> None:
    into.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                into[(*path, str(key.value))] = key.start_mark.line + 1
                _note_lines(value, (*path, str(key.value)), into)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _note_lines(item, (*path, index), into)


def _refuse(error: yaml.YAMLError, text: str, file: str | None) -> InputError:
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark is not None else None
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    written = text.splitlines()
    bad = written[line - 1] if line is not None and line <= len(written) else ""
    hint = "YAML forbids tabs for indentation: use spaces" if "\t" in bad[: len(bad) - len(bad.lstrip())] else ""
    if not hint and text.lstrip()[:1] in ("{", "["):
        hint = "this looks like JSON that was cut off or damaged"
    return InputError("yaml-invalid", f"not valid YAML or JSON: {problem}", place=Place(file, line), hint=hint)
