"""`ragstow explain`: the page behind a field of the spec, a term of a sum, and what other rooms add.

To add a kind of page: a module below ragstow.cli with `names() -> tuple[str, ...]` and `page(name) -> Page | None`, and a line
in `TOPICS`. Topics are asked in order, the first that knows the name answers; their modules are imported only then.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast

import click

from ragstow.cli.output import document, emit
from ragstow.errors import InputError

TOPICS: dict[str, tuple[str, str]] = {
    "spec": ("explain_spec", "fields of a service, such as spec.components.isolation"),
    "terms": ("explain_terms", "terms of a sum, such as activation"),
}
"""Topic -> (module below ragstow.cli, what it explains)."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its topic and name, and what it says, in order (heading -> text or list)."""

    topic: str
    name: str
    says: dict[str, Any]


class Topic(Protocol):
    """What a module of `TOPICS` offers."""

    def names(self) -> tuple[str, ...]: ...
    def page(self, name: str) -> Page | None: ...


@click.command("explain")
@click.argument("term", required=False)
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", help="Format of the answer.")
def command(term: str | None, output: str) -> None:
    """Explain a field of the spec, a term of a sum, a rule or a sharing mode. Without TERM: what can be explained.

    \b
    Examples:
      ragstow explain spec.components.concurrency
      ragstow explain activation
    """
    if term is None:
        _overview(output)
        return
    page = find(term)
    if output != "text":
        emit(document("Explanation", {"topic": page.topic, "name": page.name, **page.says}), output)
        return
    click.echo(page.name)
    for heading, text in page.says.items():
        if text in ("", None, [], ()):
            continue
        shown = ", ".join(str(item) for item in text) if isinstance(text, list | tuple) else str(text)
        click.echo(f"  {heading}: {shown}")


def find(term: str) -> Page:
    """The page of a term.

    Raises:
        InputError: no topic knows it; the hint names what looks like it.
    """
    known: list[str] = []
    for name in TOPICS:
        topic = _topic(name)
        page = topic.page(term)
        if page is not None:
            return page
        known += topic.names()
    near = difflib.get_close_matches(term, known, 1, 0.5)
    last = [item for item in known if item.rpartition(".")[2].casefold() == term.rpartition(".")[2].casefold()]
    best = [*last, *near][:1]
    hint = f"did you mean {best[0]}?" if best else "ragstow explain lists what there is"
    raise InputError("explain-unknown", f"nothing is known under {term!r}", hint=hint)


def _overview(output: str) -> None:
    pages = {name: list(_topic(name).names()) for name in TOPICS}
    if output != "text":
        emit(document("Explanation", {"topics": pages}), output)
        return
    for name, (_, text) in TOPICS.items():
        click.echo(f"{name}: {text}")
        for item in pages[name]:
            click.echo(f"  {item}")


def _topic(name: str) -> Topic:
    return cast(Topic, import_module(f"ragstow.cli.{TOPICS[name][0]}"))
