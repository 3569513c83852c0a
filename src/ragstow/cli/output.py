"""How answers leave the program: text, JSON or YAML on stdout, talk on stderr, colour only on a terminal.

JSON names are the camelCase of our field names; every document carries apiVersion and kind. The order of keys is the order
of the fields, so that the same input gives the same bytes.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from collections.abc import Mapping
from typing import Any

import click

API_VERSION = "ragstow.dev/v1alpha1"

_UNDERSCORE = re.compile(r"_([a-z0-9])")


def camel(name: str) -> str:
    """snake_case to camelCase, with Kubernetes' MiB spelling: memory_mib_per_card -> memoryMiBPerCard."""
    text = _UNDERSCORE.sub(lambda match: match.group(1).upper(), name)
    return re.sub(r"Mib(?![a-z])", "MiB", text)


def plain(value: Any) -> Any:
    """A value of ours as JSON-ready data: dataclasses become mappings in camelCase, tuples lists; mapping keys are kept."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {camel(field.name): plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(plain(item) for item in value)
    return value


def document(kind: str, body: Mapping[str, Any], *, source: Any = None) -> dict[str, Any]:
    """A complete document: apiVersion, kind, source, then the body."""
    return {"apiVersion": API_VERSION, "kind": kind, "source": plain(source), **plain(body)}


def emit(data: Mapping[str, Any], form: str) -> None:
    """Print a document as `json` or `yaml` on stdout."""
    if form == "json":
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
        return
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    click.echo(yaml.dump(dict(data), Dumper=dumper, sort_keys=False, allow_unicode=True, width=120), nl=False)


def note(text: str) -> None:
    """Say something to the person on stderr."""
    click.echo(text, err=True)


def coloured() -> bool:
    """Whether colour may be used: a terminal, and NO_COLOR not set (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
