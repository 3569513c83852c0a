"""A rule's docstring is its page: headings, references and examples, or an error that says what is missing."""

from __future__ import annotations

import pytest

from ragstow.rules.page import parse

PAGE = """A thing is wrong.

What
    What it finds.

Why
    Why it matters.

Fix
    How to mend it.

References
    - first
    - second

Fires: a bad one
    kind: Pod

Quiet (lint): a good one
    kind: Node
"""


def test_page_is_taken_apart() -> None:
    page = parse(PAGE)
    assert page.summary == "A thing is wrong."
    assert (page.what, page.why, page.fix) == ("What it finds.", "Why it matters.", "How to mend it.")
    assert page.references == ("first", "second")
    assert [(e.fires, e.command, e.title, e.yaml) for e in page.examples] == [
        (True, "diagnose", "a bad one", "kind: Pod\n"),
        (False, "lint", "a good one", "kind: Node\n"),
    ]


@pytest.mark.parametrize(
    ("without", "message"),
    [
        ("Why\n    Why it matters.\n", "no Why"),
        ("Quiet (lint): a good one\n    kind: Node\n", "is quiet"),
        ("A thing is wrong.", "no summary"),
    ],
)
def test_incomplete_page_is_refused(without: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(PAGE.replace(without, ""))
