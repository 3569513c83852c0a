"""Shared helpers of the tests: where data lies, and what may be skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(__file__).resolve().parent / "data"
SHARED = ROOT.parent / "shared"
"""The reference data beside the checkout; only the openb trace is read from there, everything else is in DATA."""

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
"""For tests that start Python themselves: this checkout is what they import."""


def required(what: str) -> bool:
    """Whether RAGSTOW_REQUIRE says that tests needing `what` must fail instead of skipping."""
    return what in os.environ.get("RAGSTOW_REQUIRE", "").split(",")


def need(what: str, present: bool, why: str) -> None:
    """Skip with a reason where something is absent, or fail where it is required."""
    if present:
        return
    if required(what):
        pytest.fail(f"{what} is required (RAGSTOW_REQUIRE) but absent: {why}")
    pytest.skip(f"{what} is absent: {why}")
