"""Pages of the terms of a sum, from the sizing room."""

from __future__ import annotations

from ragstow.cli.explain import Page
from ragstow.sizing import pages


def names() -> tuple[str, ...]:
    """All terms, and the words about them."""
    return tuple(item.name for item in pages.pages())


def page(name: str) -> Page | None:
    """The page of a term; None where there is none."""
    found = pages.page(name)
    if found is None:
        return None
    says = {"meaning": found.meaning, "formula": found.formula, "source": found.source, "lever": found.lever}
    return Page("terms", found.name, says)


def summary(name: str) -> str:  # noqa: ARG001 - names say enough here
    """No line beside the names."""
    return ""
