"""From what pydantic found wrong to errors with file, line, field and hint, all of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from ragstow.errors import InputError, Place
from ragstow.spec.fields import Path, allowed_at, names_at


class Where:
    """Where the fields of one document stand in its file."""

    def __init__(self, file: str | None, lines: Mapping[Path, int], first_line: int, title: str | None = None) -> None:
        self.file = file
        self._lines = lines
        self._first = first_line
        self.title = title

    def place(self, path: Path) -> Place:
        """The place of a field; of the nearest field around it that the file has."""
        at = path
        while at and at not in self._lines:
            at = at[:-1]
        line = self._lines.get(at, self._first) if self._lines else None
        return Place(self.file, line, self.title, spelled(path))

    def error(self, code: str, path: Path, message: str, hint: str = "") -> InputError:
        """An error at a field."""
        return InputError(code, message, place=self.place(path), hint=hint)


def spelled(path: Path) -> str:
    """A path as people write it: spec.components[0].model."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text


def translate(found: Iterable[Mapping[str, Any]], where: Where) -> list[InputError]:
    """pydantic's list of errors in our words."""
    return [_translate(item, where) for item in found]


_SHORT = 4


def near(word: str, known: Iterable[str]) -> str:
    """A hint that names the known word that looks like this one; empty where none does."""
    listed = list(known)
    matches = difflib.get_close_matches(word, listed, 3, 0.55)
    # Two letters in the wrong order are the likeliest slip.
    swapped = [item for item in matches if sorted(item) == sorted(word)]
    folded = {item.casefold(): item for item in listed}
    # Of short words another first letter makes another word ("zone" is no slip of "none").
    alike = [item for item in matches if len(word) > _SHORT or item[:1].casefold() == word[:1].casefold()]
    best = folded.get(word.casefold()) or next(iter([*swapped, *alike]), None)
    return f"did you mean {best}?" if best is not None else ""


def _translate(item: Mapping[str, Any], where: Where) -> InputError:
    path: Path = tuple(item["loc"])
    kind, value, context = str(item["type"]), item.get("input"), item.get("ctx") or {}
    name = path[-1] if path else "document"
    if kind == "extra_forbidden":
        known = names_at(path[:-1])
        hint = near(str(name), known) or f"known here: {', '.join(known)}"
        return where.error("spec-unknown-field", path, f"unknown field {name}", hint)
    if kind == "missing":
        return where.error("spec-missing-field", path, f"{name} is missing", f"ragstow explain {_explained(path)}")
    if kind == "literal_error":
        words = allowed_at(path)
        said = f"{value!r} is not one of {', '.join(words)}"
        return where.error("spec-value", path, said, near(str(value), words))
    message = {
        "int_type": f"must be a whole number, not {value!r:.40}",
        "int_from_float": f"must be a whole number, not {value!r:.40}",
        "string_type": f"must be text, not {value!r:.40}",
        "list_type": f"must be a list, not {value!r:.40}",
        "dict_type": f"must be a mapping, not {value!r:.40}",
        "model_type": f"must be a mapping, not {value!r:.40}",
        "model_attributes_type": f"must be a mapping, not {value!r:.40}",
        "greater_than_equal": f"must be at least {context.get('ge')}, not {value}",
        "less_than_equal": f"must be at most {context.get('le')}, not {value}",
        "too_short": "must not be empty",
        "string_too_short": "must not be empty",
    }.get(kind)
    hint = ""
    if kind == "string_type" and isinstance(value, bool | int | float):
        hint = f'write it in quotes: "{str(value).lower() if isinstance(value, bool) else value}"'
    if kind == "int_type" and isinstance(value, str) and value.strip().isdigit():
        hint = "write it without quotes"
    if kind == "string_pattern_mismatch":
        message = f"{value!r:.80} is not allowed here"
        hint = _pattern_hint(str(name), str(context.get("pattern", "")))
    if kind == "value_error":
        message = str(context.get("error", item["msg"])) + (f", not {value!r:.40}" if value is not None else "")
    return where.error("spec-value", path, f"{name}: {message or item['msg']}", hint)


def _pattern_hint(name: str, pattern: str) -> str:
    if name == "version":
        return "a version such as 0.19.0"
    if "a-zA-Z" in pattern:
        return "letters, digits, _ . - and no digit first"
    return "lower-case letters, digits and -, at most 63, starting and ending with a letter or digit (a DNS label)"


def _explained(path: Path) -> str:
    return ".".join(str(part) for part in path if not isinstance(part, int))
