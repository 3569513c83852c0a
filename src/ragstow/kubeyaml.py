"""YAML as kubectl reads it.

kubectl goes through sigs.k8s.io/yaml, whose scalar rules (go-yaml v2) no Python parser shares: yes/on/y are booleans, 0777
and 0o777 are octal, 1e3 is a number, while 1:30 and dates stay strings. `load_all` gives the documents of a text with those
rules; JSON is tried first, since it is many times faster. Duplicate keys keep the last value, as kubectl does, and are
reported. This room knows YAML and nothing of Kubernetes kinds.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Generator, Iterator
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
_INT = re.compile(r"^[-+]?(?:0[bB]_*[01][01_]*|0[oO]_*[0-7][0-7_]*|0[xX]_*[0-9a-fA-F][0-9a-fA-F_]*|[0-9][0-9_]*)$")
_FLOAT = re.compile(r"^[-+]?(?:\.[0-9][0-9_]*|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?$")
_SPECIAL = re.compile(r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$")


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a stream: its value, the line it starts on (1-based) and what is worth a warning."""

    value: Any
    line: int
    warnings: tuple[str, ...] = ()
    lines: dict[tuple[str | int, ...], int] = field(default_factory=dict, compare=False, repr=False)
    """Path -> line of every key and item; filled only by `load_all(..., lines=True)`."""


def load_all(text: str | bytes, *, file: str | None = None, lines: bool = False) -> list[Document]:
    """The documents of a JSON or YAML text; empty documents are left out.

    Several JSON values one after the other (`cat a.json b.json`, JSON lines) are several documents.

    Args:
        text: the whole text; bytes are UTF-8, or UTF-16 where they start with its byte order mark.
        file: its name, for messages.
        lines: also note the line of every key and item (slower; for files that a person wrote).

    Raises:
        InputError: the text is neither JSON nor YAML.
    """
    try:
        if isinstance(text, bytes):
            if not lines and _JSON_BYTES.match(text):
                try:
                    return [Document(msgspec.json.decode(text), 1)]  # the common case, without a second copy of a large text
                except msgspec.DecodeError:
                    pass
            text = _decode(text, file)
        text = text.removeprefix("\ufeff")
        if not lines and _JSON.match(text):
            documents = _json(text, file)
            if documents is not None:
                return documents
        return [document for part, line in _parts(text) for document in _yaml(part, line, file, lines)]
    except RecursionError:
        raise InputError("yaml-too-deep", "nested too deeply to be a Kubernetes object", place=Place(file)) from None


_JSON = re.compile(r"\s*[{\[]")
_JSON_BYTES = re.compile(rb"\s*[{\[]")
_BIG = 1 << 20
"""Characters from which JSON is not tried as YAML any more (that would take seconds), and a YAML list is read item by item."""
_TRAILING = "trailing characters"


def _decode(data: bytes, file: str | None) -> str:
    try:
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return data.decode("utf-16")  # PowerShell's > writes this
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            "not-text", "is not UTF-8 text", place=Place(file, line), hint="JSON or YAML from kubectl is expected"
        ) from None


def _json(text: str, file: str | None) -> list[Document] | None:
    """The JSON values in `text`; None where it may be YAML in flow style instead."""
    try:
        return [Document(msgspec.json.decode(text), 1)]
    except msgspec.DecodeError as error:
        if _TRAILING not in str(error) and len(text) < _BIG:
            return None
    decoder = json.JSONDecoder()
    found: list[Document] = []
    at = _skip_blanks(text, 0)
    line = 1
    while at < len(text):
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            if not found and len(text) < _BIG:
                return None
            cut = error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated")
            hint = "the file was cut off: save it again" if cut else ""
            raise InputError(
                "json-invalid", f"not valid JSON: {error.msg}", place=Place(file, error.lineno), hint=hint
            ) from None
        found.append(Document(value, line))
        after = _skip_blanks(text, end)
        line += text.count("\n", at, after)
        at = after
    return found


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _parts(text: str) -> Iterator[tuple[str, int]]:
    """The text in pieces that can be read one after the other, with the line each starts on; small texts are one piece."""
    if len(text) < _BIG or text.startswith("%"):
        yield text, 1
        return
    start, line = 0, 1
    for mark in re.finditer(r"^---(?=\s|$)", text, re.MULTILINE):
        if mark.start() > start:
            yield text[start : mark.start()], line
        line += text.count("\n", start, mark.start())
        start = mark.start()
    yield text[start:], line


def _yaml(text: str, first_line: int, file: str | None, lines: bool) -> Iterator[Document]:
    pieces = _split_list(text) if len(text) >= _BIG and not lines else None
    if pieces is None:
        yield from _documents(text, first_line, file, lines)
    else:
        yield _read_list(pieces, text, first_line, file)


def _documents(
    text: str, first_line: int, file: str | None, lines: bool = False, nulls: bool = False
) -> Generator[Document, None, None]:
    loader: Any = _Loader(text)
    loader.first_line = first_line
    aliases = _ALIAS.search(text) is not None
    try:
        while loader.check_node():
            node = loader.get_node()
            if aliases:
                _refuse_bomb(node, file)
            loader.warnings = []
            value = loader.construct_document(node)
            if value is None and not nulls:
                continue
            where: dict[tuple[str | int, ...], int] = {}
            if lines:
                _note_lines(node, (), first_line, where)
            yield Document(value, node.start_mark.line + first_line, tuple(loader.warnings), where)
    except yaml.YAMLError as error:
        raise _refuse(error, text, file, first_line) from None
    finally:
        loader.dispose()


_ALIAS = re.compile(r"(?:^|[\s,\[{])\*[^\s,\]}*]", re.MULTILINE)
_ANCHOR = re.compile(r"(?:^|[\s,\[{])[&*!][^\s,\]}]", re.MULTILINE)
_MAX_NODES = 5_000_000


def _split_list(text: str) -> tuple[int, list[int], int] | None:
    """Where the items of a `List` as kubectl prints it start: (start of the items, starts, end), or None.

    Lines at column 0 that start with "- " between `items:` and the next key are its items: everything inside an item is
    indented, block texts too. With anchors, aliases or tags in the text nothing is taken apart.
    """
    head = re.search(r"^items:[ ]*\n(?=- )", text, re.MULTILINE)
    if head is None or _ANCHOR.search(text):
        return None
    tail = re.compile(r"^[^\s#-]", re.MULTILINE).search(text, head.end())
    end = tail.start() if tail else len(text)
    return (
        head.end(),
        [mark.start() for mark in re.finditer(r"^- ", text[:end], re.MULTILINE) if mark.start() >= head.end()],
        end,
    )


def _read_list(pieces: tuple[int, list[int], int], text: str, first_line: int, file: str | None) -> Document:
    """A document read item by item: the same value as in one go, in a fraction of the memory."""
    begin, starts, end = pieces
    rest = list(_documents(text[:begin] + "  []\n" + text[end:], first_line, file))
    document = rest[0] if rest else Document({}, first_line)
    items: list[Any] = []
    warnings = list(document.warnings)
    line = first_line + text.count("\n", 0, begin)
    for start, stop in zip(starts, [*starts[1:], end], strict=True):
        for part in _documents(text[start:stop], line, file):
            items.extend(part.value)
            warnings.extend(part.warnings)
        line += text.count("\n", start, stop)
    document.value["items"] = items
    return Document(document.value, document.line, tuple(warnings))


def _refuse_bomb(root: Any, file: str | None) -> None:
    """Refuse aliases that refer to themselves or blow up, as kubectl does ("document contains excessive aliasing")."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: Any) -> int:
        key = id(node)
        if key in open_nodes:
            raise InputError("yaml-alias", "an alias refers to what contains it", place=Place(file, node.start_mark.line + 1))
        if key not in sizes:
            open_nodes.add(key)
            if isinstance(node, yaml.MappingNode):
                sizes[key] = 1 + sum(size(name) + size(value) for name, value in node.value)
            elif isinstance(node, yaml.SequenceNode):
                sizes[key] = 1 + sum(size(item) for item in node.value)
            else:
                sizes[key] = 1
            open_nodes.discard(key)
        return sizes[key]

    if size(root) > _MAX_NODES:
        raise InputError("yaml-alias", "aliases multiply to more than a Kubernetes object can be", place=Place(file))


def first(text: str, *, file: str | None = None) -> Document | None:
    """The first document of a YAML text, null documents included, as programs read it that decode one document only.

    What follows that document is not looked at, be it broken. None where there is no document at all.

    Raises:
        InputError: the first document is not YAML.
    """
    documents = _documents(text.removeprefix("\ufeff"), 1, file, nulls=True)
    try:
        return next(documents, None)
    except RecursionError:
        raise InputError("yaml-too-deep", "nested too deeply to be a Kubernetes object", place=Place(file)) from None
    finally:
        documents.close()


def is_text(scalar: str) -> bool:
    """Whether kubectl takes this unquoted scalar for a text, not for a number, a boolean or null."""
    return not any(pattern.match(scalar) for pattern in (_NULL, _BOOL, _INT, _FLOAT, _SPECIAL))


class _Loader(_Base):  # type: ignore[misc]  # the C loader is untyped
    """CSafeLoader with kubectl's implicit types."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own protocol
    warnings: list[str]
    first_line: int

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise yaml.constructor.ConstructorError(None, None, "expected a mapping", node.start_mark)
        merged: set[str] = set()
        if any(key.tag == _MERGE for key, _ in node.value):
            own = {id(key) for key, _ in node.value}
            self.flatten_mapping(node)
            merged = {str(key.value) for key, _ in node.value if id(key) not in own}
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value if key_node.tag == _TEXT else self._key(key_node)
            if key in mapping and key not in merged:
                first = next(other for other, _ in node.value if other.value == key_node.value)
                self.warnings.append(
                    f"line {key_node.start_mark.line + self.first_line}: key {key!r} again "
                    f"(first on line {first.start_mark.line + self.first_line}); the last one counts"
                )
            mapping[key] = self.construct_object(value_node, deep=deep)
        return mapping

    def _key(self, node: Any) -> str:
        """sigs.k8s.io/yaml turns every key into a JSON string, and refuses lists and mappings."""
        key = self.construct_object(node, deep=True)
        if isinstance(key, bool):
            return "true" if key else "false"
        if isinstance(key, str | int | float):
            return str(key)
        raise yaml.constructor.ConstructorError(None, None, "a key must be a text or a number", node.start_mark)


_MERGE = "tag:yaml.org,2002:merge"
_TEXT = "tag:yaml.org,2002:str"


def _integer(loader: Any, node: Any) -> int | float:
    text = str(loader.construct_scalar(node)).replace("_", "")
    sign = -1 if text.startswith("-") else 1
    text = text.lstrip("+-")
    for prefix, base in (("0b", 2), ("0o", 8), ("0x", 16)):
        if text[:2].lower() == prefix:
            return sign * int(text[2:], base)
    if len(text) > 1 and text.startswith("0") and not set(text) - set("01234567"):
        return sign * int(text, 8)
    if len(text) > 20:
        return sign * float(text)  # more than 64 bits: go-yaml falls back to a float
    return sign * int(text)


def _float(loader: Any, node: Any) -> float | int | str:
    written = str(loader.construct_scalar(node))
    text = written.lower().replace("_", "")
    if "inf" in text:
        return float("-inf") if text.startswith("-") else float("inf")
    if "nan" in text:
        return float("nan")
    number = float(text)
    if math.isinf(number):
        return written  # out of range for go-yaml: stays text
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _boolean(loader: Any, node: Any) -> bool:
    return _BOOLS[str(loader.construct_scalar(node))]


def _checked(read: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A value that its explicit tag does not fit (`!!int abc`) is an error of the text, as in go-yaml."""

    def checked(loader: Any, node: Any) -> Any:
        try:
            return read(loader, node)
        except (KeyError, ValueError):
            raise yaml.constructor.ConstructorError(
                None, None, f"cannot decode {str(node.value)[:40]!r} as {node.tag.rpartition(':')[2]}", node.start_mark
            ) from None

    return checked


def _untagged(loader: Any, node: Any) -> Any:
    """go-yaml passes over tags that it does not know; binary data becomes text."""
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    if node.tag == "tag:yaml.org,2002:binary":
        return base64.b64decode("".join(node.value.split()), validate=True).decode("utf-8", "replace")
    return loader.construct_scalar(node)


for _tag, _pattern, _first in (
    ("null", _NULL, ["~", "n", "N", ""]),
    ("bool", _BOOL, list("yYnNtTfFoO")),
    ("int", _INT, list("-+0123456789")),
    ("float", _FLOAT, list("-+0123456789.")),
    ("float", _SPECIAL, list("-+.")),
    ("merge", re.compile(r"^<<$"), ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, _first)
_Loader.add_constructor("tag:yaml.org,2002:bool", _checked(_boolean))
_Loader.add_constructor("tag:yaml.org,2002:int", _checked(_integer))
_Loader.add_constructor("tag:yaml.org,2002:float", _checked(_float))
for _tag in ("binary", "set", "omap", "pairs"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _checked(_untagged))
_Loader.add_constructor(None, _untagged)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda loader, node: loader.construct_scalar(node))


def _note_lines(node: Any, path: tuple[str | int, ...], first_line: int, into: dict[tuple[str | int, ...], int]) -> None:
    into.setdefault(path, node.start_mark.line + first_line)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                into[(*path, str(key.value))] = key.start_mark.line + first_line
                _note_lines(value, (*path, str(key.value)), first_line, into)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _note_lines(item, (*path, index), first_line, into)


def _refuse(error: yaml.YAMLError, text: str, file: str | None, first_line: int) -> InputError:
    mark = getattr(error, "problem_mark", None)
    line = mark.line if mark is not None else None
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    written = text.splitlines()
    bad = written[line] if line is not None and line < len(written) else ""
    hint = "YAML forbids tabs for indentation: use spaces" if "\t" in bad[: len(bad) - len(bad.lstrip())] else ""
    if not hint and _JSON.match(text):
        hint = "this looks like JSON that was cut off or damaged"
    return InputError(
        "yaml-invalid",
        f"not valid YAML or JSON: {problem}",
        place=Place(file, None if line is None else line + first_line),
        hint=hint,
    )
