"""Manifests as text: deterministic, pleasant to read, and read back by kubectl as exactly what was meant.

Keys keep the order in which the builders put them, texts of several lines become literal blocks, and a text that kubectl's
YAML would take for something else ("on", "1e3", "0777") is quoted. Nothing here knows Kubernetes kinds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from ragstow import kubeyaml

WIDTH = 120


class _Dumper(yaml.SafeDumper):
    """SafeDumper without aliases, lists indented below their key as in hand-written manifests."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - PyYAML's signature
        super().increase_indent(flow, False)


def _represent(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = None
    if "\n" in value:
        style = "|"
    elif not kubeyaml.is_text(value):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _represent_list(dumper: yaml.SafeDumper, value: list[Any] | tuple[Any, ...]) -> yaml.SequenceNode:
    # Numbers of cards read better on one line.
    numbers = bool(value) and all(isinstance(item, int) for item in value)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=numbers)


_Dumper.add_representer(str, _represent)
_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(tuple, _represent_list)


def dump(value: Any) -> str:
    """One document, without a separator."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH, default_flow_style=False)


def stream(documents: Iterable[Any]) -> str:
    """Several documents, separated by `---`."""
    return "---\n".join(dump(document) for document in documents)


def comment(text: str) -> str:
    """Every line of a text as a YAML comment."""
    return "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines())
