"""The page behind each term of a sum and each word about it: meaning, formula, source, lever. The texts are in pages.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ragstow import kubeyaml

_FILE = Path(__file__).resolve().parent / "pages.yaml"


@dataclass(frozen=True, slots=True)
class TermPage:
    """One page. `formula`, `source` and `lever` may be empty for a word that is no term."""

    name: str
    meaning: str
    formula: str = ""
    source: str = ""
    lever: str = ""


@cache
def pages() -> tuple[TermPage, ...]:
    """All pages, in reading order."""
    return tuple(TermPage(**row) for row in kubeyaml.load_all(_FILE.read_text(encoding="utf-8"))[0].value)


def page(name: str) -> TermPage | None:
    """The page of that name, in any case; None where there is none."""
    return next((item for item in pages() if item.name.casefold() == name.casefold()), None)
