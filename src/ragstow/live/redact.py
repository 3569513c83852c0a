"""Takes out of an object what no rule reads: values of environment, annotations, arguments and ConfigMaps, by allow-list.

Pure: an object in, an object out, twice is once. Live objects pass through here before anything looks at them, so that an
answer about a live cluster equals the one about its capture. What is dropped becomes `(redacted)`, so that one sees that
something was there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ragstow.live import allowed

REDACTED = "(redacted)"

_SHELL_WORD = re.compile(r"(\s+|[;&|<>]+|\((?!redacted\))|(?<!\(redacted)\))")
_PARENTHESES = re.compile(r"\$\((\w+)\)")
_REFERENCE = re.compile(r"\$[(\x02]\w+[)\x03]|\$\{?\w+\}?|\$\$|\\")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_MANAGED = ("manager", "operation", "time", "subresource")


def redact(item: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of an object without what must stay in the cluster."""
    made = {key: _value(key, value) for key, value in item.items()}
    kind = item.get("kind")
    if kind == "ConfigMap":
        if isinstance(item.get("data"), Mapping):
            made["data"] = {str(key): _configuration(text) for key, text in item["data"].items()}
        if isinstance(item.get("binaryData"), Mapping):
            made["binaryData"] = dict.fromkeys(item["binaryData"], "")
    elif kind == "Secret":
        for key in ("data", "stringData"):
            if isinstance(item.get(key), Mapping):
                made[key] = dict.fromkeys(item[key], "")
    return made


def text(value: str) -> str:
    """A log or message without secrets that are known by their look or by the name before them."""
    return allowed.SECRET_LINE.sub(rf"\1{REDACTED}", allowed.SECRET_TEXT.sub(REDACTED, value))


def _value(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        if key == "annotations":
            return {str(name): _annotation(str(name), item) for name, item in value.items()}
        if key == "volumeAttributes":
            return dict.fromkeys(value, REDACTED)
        return {name: _value(str(name), item) for name, item in value.items()}
    if isinstance(value, list):
        if key == "env":
            return [_variable(item) for item in value]
        if key in ("args", "command"):
            return words(value)
        if key == "managedFields":
            # Who changed something and when is asked; what, is in the object.
            return [{name: item[name] for name in _MANAGED if name in item} for item in value if isinstance(item, Mapping)]
        if key == "httpHeaders":
            return [{**item, "value": REDACTED} if isinstance(item, Mapping) else item for item in value]
        return [_value("", item) for item in value]
    if key in ("message", "note") and isinstance(value, str):
        return text(value)
    return value


def _annotation(name: str, value: Any) -> Any:
    kept = name in allowed.ANNOTATIONS or name.startswith(allowed.ANNOTATION_PREFIXES)
    return value if kept and not allowed.SECRET_NAME.search(name) else REDACTED


def _variable(item: Any) -> Any:
    if not isinstance(item, Mapping) or not item.get("value"):
        return item
    return {**item, "value": _assigned(str(item.get("name")), item["value"])}


def _assigned(name: str, value: Any) -> Any:
    kept = name in allowed.ENVIRONMENT or name.startswith(allowed.ENVIRONMENT_PREFIXES)
    if not kept or allowed.SECRET_NAME.search(name):
        return value if isinstance(value, str) and _REFERENCE.fullmatch(value) else REDACTED
    return allowed.SECRET_TEXT.sub(REDACTED, value) if isinstance(value, str) else value


def _configuration(value: Any) -> Any:
    if not isinstance(value, str) or not value.strip():
        return value
    return text(value) if allowed.CONFIGURATION.search(value) else REDACTED


def words(listed: list[Any]) -> list[Any]:
    """Command words without values of flags that are not on the list; a shell script is redacted word by word."""
    reader = _Words()
    made: list[Any] = []
    for index, item in enumerate(listed):
        if not isinstance(item, str):
            made.append(item if isinstance(item, int | float | bool) and reader.kept else REDACTED)
        elif any(sign in item.strip() for sign in " \n\t"):
            made.append(_script(item) if not (reader.value_follows and reader.kept) else reader.take(item))
        else:
            made.append(reader.take(item, first=index == 0 and item.startswith("/") and "=" not in item))
    return made


def _script(script: str) -> str:
    reader = _Words()
    # $(NAME) is Kubernetes' reference to a variable, no subshell: its parentheses are no signs of the shell.
    parts = _SHELL_WORD.split(_PARENTHESES.sub("$\x02\\1\x03", script))
    made: list[str] = []
    for index, part in enumerate(parts):
        if index % 2:
            if not part.isspace():
                reader = _Words()
            made.append(part)
        else:
            made.append(reader.take(part) if part else part)
    return "".join(made).replace("\x02", "(").replace("\x03", ")")


class _Words:
    """Reads command words one after the other; knows whose value comes next."""

    def __init__(self) -> None:
        self.value_follows = False
        self.kept = False

    def take(self, word: str, *, first: bool = False) -> str:
        """The word, or what is left of it."""
        bare = word.strip("\"'")
        if bare.startswith("-") and len(bare) > 1 and not _number(bare):
            return self._flag(word, bare)
        expected, kept = self.value_follows, self.kept
        self.value_follows = self.kept = False
        if _REFERENCE.fullmatch(bare):
            return word
        if expected and kept:
            return allowed.SECRET_TEXT.sub(REDACTED, word)
        if bare == "serve" or bare in ("python", "python3"):
            # What is served, a model's name or folder, comes next.
            self.value_follows, self.kept = bare == "serve", bare == "serve"
            return word
        if not expected or bare in ("sh", "bash"):
            if first or bare in allowed.PROGRAMS or bare.startswith(allowed.PROGRAM_PREFIXES):
                return allowed.SECRET_TEXT.sub(REDACTED, word)
            assigned = _ASSIGNMENT.fullmatch(bare)
            if assigned is not None:
                return f"{assigned[1]}={_assigned(assigned[1], assigned[2])}"
        return word if bare == "\\" or not bare else REDACTED

    def _flag(self, word: str, bare: str) -> str:
        name, equals, value = bare.partition("=")
        plain = name.lstrip("-").lower()
        kept = (plain in allowed.FLAGS or plain.replace("_", "-") in allowed.FLAGS) and not allowed.SECRET_NAME.search(plain)
        if equals:
            self.value_follows = self.kept = False
            if kept or _REFERENCE.fullmatch(value):
                return allowed.SECRET_TEXT.sub(REDACTED, word)
            return f"{name}={REDACTED}"
        if not name.startswith("--") and len(name) > 2 and not kept and name not in allowed.PROGRAMS:
            # -pPASSWORD: the value sticks to a short flag.
            self.value_follows = self.kept = False
            return f"{name[:2]}{REDACTED}"
        self.value_follows = name not in allowed.PROGRAMS or name in ("-m", "-f", "-d")
        self.kept = kept or name in ("-m", "-f", "-d")
        return allowed.SECRET_TEXT.sub(REDACTED, word)


def _number(text_: str) -> bool:
    return text_.lstrip("-").replace(".", "", 1).isdecimal()
