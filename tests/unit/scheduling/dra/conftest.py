"""What the tests of this folder share."""

from __future__ import annotations

import pytest

from ragstow.scheduling.dra.cel import available
from support import need


@pytest.fixture
def with_cel() -> None:
    """For tests that evaluate selectors."""
    need("cel", available(), "selectors are not evaluated without cel-expr-python")
