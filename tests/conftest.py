"""Switches of the test run."""

from __future__ import annotations

import os

import pytest

# Whoever runs the tests may have a cluster at hand; no test may ever talk to it.
os.environ["KUBECONFIG"] = os.path.join(os.path.dirname(__file__), "no-kubeconfig")
os.environ.pop("KUBERNETES_SERVICE_HOST", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what the code prints over the golden files")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written instead of compared; review the diff before committing it."""
    return bool(request.config.getoption("--update-golden"))
