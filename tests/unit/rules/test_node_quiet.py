"""What programs print of drivers, cards and runtimes while nothing is wrong: no cause is named for it."""

from __future__ import annotations

import pytest

from broken.node_quiet import QUIET


@pytest.mark.parametrize("name", sorted(QUIET))
def test_nothing_is_named(name: str) -> None:
    report = QUIET[name]().report()
    assert [(finding.cause, finding.headline) for finding in report.findings] == []
