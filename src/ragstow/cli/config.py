"""The configuration file of the command line: `ragstow.yaml` or `.ragstow.yaml` in the current folder or one above it.

    apiVersion: ragstow.dev/v1alpha1
    kind: Config
    lint: {failOn: low, ignore: [startup-probe-too-short], rules: [], baseline: lint-baseline.yaml}
    diagnose: {failOn: high}

Paths in it are relative to the file. Only the command line reads it; the library never does.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from ragstow.errors import InputError, InputErrors, Place

if TYPE_CHECKING:
    from ragstow.rules.model import Severity

NAMES = ("ragstow.yaml", ".ragstow.yaml")
_KIND = "Config"
_API = "ragstow.dev/"
_SECTIONS: Mapping[str, frozenset[str]] = {
    "lint": frozenset({"failOn", "rules", "ignore", "baseline"}),
    "diagnose": frozenset({"failOn"}),
}


@dataclass(frozen=True, slots=True)
class Section:
    """What one command is told: the failing level, rules to run alone, rules to leave out, a baseline."""

    fail_on: Severity | None = None
    rules: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    baseline: Path | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration file, or the absence of one."""

    sections: Mapping[str, Section] = field(default_factory=dict)

    def section(self, name: str) -> Section:
        """What it says to a command."""
        return self.sections.get(name, Section())


def load_config(start: Path | None = None) -> Config:
    """The nearest configuration file at or above `start` (default: the current folder).

    Raises:
        InputErrors: everything that is wrong in it.
    """
    folder = (start or Path.cwd()).resolve()
    for parent in (folder, *folder.parents):
        for name in NAMES:
            path = parent / name
            if path.is_file():
                found = _read(path)
                if found is not None:
                    return found
    return Config()


def _read(path: Path) -> Config | None:
    """The file, or None where it is something else of that name (a service description, say)."""
    from ragstow import kubeyaml

    documents = kubeyaml.load_all(path.read_bytes(), file=str(path), lines=True)
    value = documents[0].value if documents else None
    if not isinstance(value, Mapping) or value.get("kind") != _KIND or not str(value.get("apiVersion")).startswith(_API):
        return None
    lines = documents[0].lines
    errors: list[InputError] = []

    def wrong(key: tuple[str | int, ...], message: str, hint: str = "") -> None:
        errors.append(
            InputError(
                "config-invalid", message, place=Place(str(path), lines.get(key), field=".".join(map(str, key))), hint=hint
            )
        )

    sections = {}
    for name, inner in value.items():
        if name in ("apiVersion", "kind", "metadata"):
            continue
        if name not in _SECTIONS:
            wrong((str(name),), "is no section", _near(str(name), _SECTIONS))
        elif not isinstance(inner, Mapping):
            wrong((str(name),), "must be a mapping")
        else:
            sections[str(name)] = _section(str(name), inner, path.parent, wrong)
    if errors:
        raise InputErrors(errors)
    return Config(sections)


def _section(name: str, value: Mapping[str, Any], folder: Path, wrong: Any) -> Section:
    from ragstow.rules.model import Severity

    for key in value:
        if key not in _SECTIONS[name]:
            wrong((name, str(key)), "is no setting", _near(str(key), _SECTIONS[name]))
    level = value.get("failOn")
    if level is not None and level not in get_args(Severity):
        wrong((name, "failOn"), f"{level!r} is no severity", ", ".join(get_args(Severity)))
        level = None
    baseline = value.get("baseline")
    if baseline is not None and not isinstance(baseline, str):
        wrong((name, "baseline"), "must be a path")
        baseline = None
    return Section(
        level,
        _names(name, "rules", value, wrong),
        _names(name, "ignore", value, wrong),
        folder / baseline if baseline else None,
    )


def _names(section: str, key: str, value: Mapping[str, Any], wrong: Any) -> tuple[str, ...]:
    from ragstow.rules.registry import names

    listed = value.get(key, [])
    if not isinstance(listed, list):
        wrong((section, key), "must be a list of rules")
        return ()
    for index, name in enumerate(listed):
        if name not in names():
            wrong((section, key, index), f"there is no rule {name!r}", _near(str(name), names()))
    return tuple(str(name) for name in listed)


def _near(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, sorted(known), 1, 0.5)
    return f"did you mean {near[0]}?" if near else "there are: " + ", ".join(sorted(known))
