"""Pages of the modes of sharing a card, from the facts."""

from __future__ import annotations

from ragstow.cli.explain import Page
from ragstow.facts import load


def names() -> tuple[str, ...]:
    """The modes, simplest first."""
    return tuple(item.mode for item in load().sharing_modes)


def summary(name: str) -> str:
    """A mode in a few words."""
    return next((item.title for item in load().sharing_modes if item.mode == name), "")


def page(name: str) -> Page | None:
    """The page of a mode; None where there is none."""
    found = next((item for item in load().sharing_modes if item.mode == name.lower().replace("_", "-")), None)
    if found is None:
        return None
    says = {
        "is": found.title,
        "isolation": found.isolation,
        "gives": found.gives,
        "resource": found.resource,
        "needs": list(found.needs),
        "choose it when": found.choose_when,
        "not when": found.not_when,
        "traps": list(found.traps),
        "example": found.example,
        "source": f"{found.source} ({found.checked})",
    }
    return Page("sharing", found.mode, says)
