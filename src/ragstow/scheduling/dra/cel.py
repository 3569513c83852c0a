"""Device selectors: one CEL expression against one device, through cel-expr-python.

`Selectors` compiles an expression once and keeps its verdict for each device, because both never change. Where the library is
missing (extra `cel`), or an expression uses what our environment lacks, the answer is `NotEvaluated` with a Reason: never a
guess. What a selector sees (k8s.io/dynamic-resource-allocation/cel): `device.driver`, `device.attributes[domain].name`,
`device.capacity[domain].name`, `device.allowMultipleAllocations`; names without a domain belong to the driver's, and a domain
that the device lacks is an empty map.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from ragstow.errors import Reason
from ragstow.scheduling.dra import cel_library
from ragstow.scheduling.dra.model import Device

_LITERAL = r"""(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
_LOOKUP = re.compile(
    rf"""(?P<skip>[rRbB]?{_LITERAL})|\bdevice\s*\.\s*(?P<map>attributes|capacity)\s*\[\s*(?P<key>{_LITERAL}|device\s*\.\s*driver)\s*\]"""
)
_TEXTS = (
    (re.compile(r'^NOT_FOUND: Key not found in map : "?(.*?)"?$', re.DOTALL), r"no such key: \1"),
    (re.compile(r"^UNKNOWN: No matching overloads found.*$", re.DOTALL), "no such overload"),
    (re.compile(r"^INVALID_ARGUMENT: Applying SELECT to non-message type$"), "no such overload"),
    (re.compile(r"^UNKNOWN: Index error: index=(-?\d+) size=\d+$"), r"index out of bounds: \1"),
    (re.compile(r"^INVALID_ARGUMENT: divide by zero$"), "division by zero"),
    (re.compile(r"^[A-Z_]+: (.*)$", re.DOTALL), r"\1"),
)


class NotEvaluated(Exception):
    """A selector that this installation cannot evaluate; `reason` says why and what would help."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


class Program:
    """One compiled expression.

    Args:
        expression: the text of the selector.

    Raises:
        NotEvaluated: the library is missing, or it cannot compile the expression.
    """

    def __init__(self, expression: str) -> None:
        self._maps: dict[str, tuple[str, str | None]] = {}
        source = _LOOKUP.sub(self._name_lookup, expression)
        kind = _module().Type
        try:
            env = _environment(tuple(self._maps)) if len(self._maps) <= 8 else None
            if env is None:
                raise RuntimeError("more than 8 different domains")
            self._compiled = env.compile(source)
        except RuntimeError as error:
            text = str(error).split("\n")[0]
            raise NotEvaluated(
                Reason(
                    "cel-not-evaluated",
                    f"the selector {expression!r} cannot be compiled here: {text}",
                    "supported: the CEL standard functions, strings, bindings, optional, quantity, semver, regex, lists, sets",
                )
            ) from None
        self._error_type = kind.ERROR

    def matches(self, device: Device) -> bool | str:
        """Whether the device matches, or the text of the run-time error (as cel-go words it)."""
        view = _view(device)
        if isinstance(view, str):
            return view
        data: dict[str, Any] = {"device": view}
        for name, (source, domain) in self._maps.items():
            data[name] = view[source].get(device.id.driver if domain is None else domain, {})
        value = self._compiled.eval(data=data)
        kind = value.type()
        if kind == self._error_type:
            return _error_text(str(value.value()))
        result = value.value()
        if isinstance(result, bool):
            return result
        return f"CEL result of type {kind.name().lower()} could not be converted to bool: type conversion error"

    def _name_lookup(self, match: re.Match[str]) -> str:
        if match["skip"]:
            return match[0]
        key = match["key"]
        domain = None if not key.startswith(('"', "'")) else key[1:-1]
        if domain is not None and "\\" in domain:
            return match[0]
        wanted = (match["map"], domain)
        for name, known in self._maps.items():
            if known == wanted:
                return name
        name = f"domain_{len(self._maps)}"
        self._maps[name] = wanted
        return name


class Selectors:
    """Verdicts of expressions on devices, each found once."""

    def __init__(self) -> None:
        self._programs: dict[str, Program] = {}
        self._verdicts: dict[str, dict[Device, bool | str]] = {}

    def verdict(self, expression: str, device: Device) -> bool | str:
        """True, False, or the text of the CEL run-time error.

        Raises:
            NotEvaluated: this installation cannot evaluate the expression.
        """
        known = self._verdicts.get(expression)
        if known is None:
            known = self._verdicts[expression] = {}
        found = known.get(device)
        if found is None:
            program = self._programs.get(expression)
            if program is None:
                program = self._programs[expression] = Program(expression)
            found = known[device] = program.matches(device)
        return found


def available() -> bool:
    """Whether the CEL library is installed."""
    try:
        _module()
    except NotEvaluated:
        return False
    return True


@lru_cache(maxsize=1)
def _module() -> Any:
    try:
        from cel_expr_python import cel
    except ImportError:
        raise NotEvaluated(
            Reason(
                "cel-missing",
                "device selectors are not evaluated: the CEL library is not installed",
                "pip install 'ragstow[cel]'",
            )
        ) from None
    return cel


@lru_cache(maxsize=64)
def _environment(maps: tuple[str, ...]) -> Any:
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

    cel = _module()
    kind = cel.Type
    dynamic = kind.Map(kind.STRING, kind.DYN)
    return cel.NewEnv(
        variables={"device": dynamic} | dict.fromkeys(maps, dynamic),
        functions=cel_library.functions(cel),
        extensions=[ext_bindings.ExtBindings(), ext_strings.ExtStrings(), ext_optional.ExtOptional()],
    )


def _view(device: Device) -> dict[str, Any] | str:
    attributes: dict[str, dict[str, Any]] = {}
    for name, (kind, value) in device.attributes.items():
        domain, identifier = _split(name, device.id.driver)
        try:
            attributes.setdefault(domain, {})[identifier] = _plain(kind, value)
        except ValueError as error:
            return f"attribute {name}: parse semantic version: {error}"
    capacity: dict[str, dict[str, Any]] = {}
    for name, amount in device.capacity.items():
        domain, identifier = _split(name, device.id.driver)
        capacity.setdefault(domain, {})[identifier] = cel_library.mark_quantity(amount.value.nano)
    return {
        "driver": device.id.driver,
        "allowMultipleAllocations": device.shareable,
        "attributes": attributes,
        "capacity": capacity,
    }


def _plain(kind: str, value: Any) -> Any:
    if kind == "version":
        return cel_library.mark_version(value)
    if kind == "versions":
        return [cel_library.mark_version(item) for item in value]
    return list(value) if isinstance(value, tuple) else value


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _error_text(text: str) -> str:
    for pattern, wording in _TEXTS:
        if pattern.match(text):
            return pattern.sub(wording, text)
    return text
