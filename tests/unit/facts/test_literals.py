"""The cheap test before a regular expression loses no match."""

from __future__ import annotations

import re

import pytest

from broken.everything import DEFECTS
from ragstow.facts.literals import required
from rules_support import FACTS


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        ("GPU is lost", {"gpu is lost"}),
        ("(?i)Unknown (?:Error|Fault)", {"unknown "}),
        (r"Xid=(\d+) on Device=(\S+)", {" on device="}),
        ("broken pipe|reset by peer", {"broken pipe", "reset by peer"}),
        ("(?:abc)?x+y", {"x"}),
        (r"\d+", set()),
        ("a|.", set()),
        ("(?!never)(?:once)+", {"once"}),
    ],
)
def test_required(pattern: str, literals: set[str]) -> None:
    assert required(pattern) == literals


def test_every_signature_has_a_word_of_its_own() -> None:
    assert [row.id for row in FACTS.signatures.rows if not required(row.pattern)] == []


def test_search_finds_what_the_expressions_find() -> None:
    lines = [line for name in sorted(DEFECTS) for text in DEFECTS[name]()[0].attachments.values() for line in text.splitlines()]
    assert len(lines) > 100
    for line in dict.fromkeys(lines):
        found = [row.id for row, _ in FACTS.signatures.search(line)]
        assert found == [row.id for row in FACTS.signatures.rows if re.search(row.pattern, line)]
