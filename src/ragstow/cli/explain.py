"""`ragstow explain`: the page behind a rule, a sharing mode, a field of the spec, a term of a sum.

To add a kind of page: a module below ragstow.cli with `names()`, `page(name)` and `summary(name)` (see `Topic`), and a line in
`TOPICS`. Topics are asked in order, the first that knows the name answers; their modules are imported only then.
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
    "rules": ("explain_rules", "rules of diagnose and lint, by id or cause"),
    "sharing": ("explain_sharing", "modes of sharing a card"),
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
    """What a module of `TOPICS` offers: all names, the page of one (None: not mine), and a line beside a name ("" for none)."""

    def names(self) -> tuple[str, ...]: ...
    def page(self, name: str) -> Page | None: ...
    def summary(self, name: str) -> str: ...


@click.command("explain")
@click.argument("term", required=False)
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", help="Format of the answer.")
def command(term: str | None, output: str) -> None:
    """Explain a field of the spec, a term of a sum, a rule or a sharing mode. Without TERM: what can be explained.

    \b
    Examples:
      ragstow explain missing-toleration
      ragstow explain time-slicing
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
    for line in text_of(page):
        click.echo(line)


def text_of(page: Page) -> list[str]:
    """The lines for people: short values beside their heading, texts of several lines and lists of sentences below it."""
    lines = [page.name]
    for heading, value in page.says.items():
        if value in ("", None, [], ()):
            continue
        items = [str(item) for item in value] if isinstance(value, list | tuple) else []
        if any(" " in item for item in items):
            lines += [f"  {heading}:", *(line for item in items for line in _wrapped(f"- {item}", "    ", "      "))]
        elif items:
            lines += _wrapped(f"{heading}: {', '.join(items)}", "  ", "    ")
        elif "\n" in str(value).strip():
            lines += [f"  {heading}:", *(f"    {line}".rstrip() for line in str(value).rstrip().splitlines())]
        else:
            lines += _wrapped(f"{heading}: {str(value).strip()}", "  ", "    ")
    return lines


def _wrapped(text: str, first: str, further: str) -> list[str]:
    import textwrap

    from ragstow.cli.table import width

    return textwrap.wrap(
        text, width(), initial_indent=first, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
    )


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
        topic = _topic(name)
        longest = max((len(item) for item in pages[name] if topic.summary(item)), default=0)
        for item in pages[name]:
            click.echo(f"  {item.ljust(longest)}  {topic.summary(item)}".rstrip())


def _topic(name: str) -> Topic:
    return cast(Topic, import_module(f"ragstow.cli.{TOPICS[name][0]}"))
