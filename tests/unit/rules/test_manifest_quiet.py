"""Troubles that look like a wrong request or a lack of GPU memory and are none get no cause, and are said plainly."""

from __future__ import annotations

import pytest

from broken.more_manifest import quiet


@pytest.mark.parametrize("name", sorted(quiet()))
def test_no_cause(name: str) -> None:
    report = quiet()[name].report()
    assert [(finding.cause, finding.headline) for finding in report.findings] == []


def test_the_last_words_of_a_log_are_quoted() -> None:
    said = [item.missing for item in quiet()["a port that is taken"].report().unknown]
    assert any("address already in use" in text for text in said), said
