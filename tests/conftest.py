"""Switches of the test run."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, and no verdict that hangs on how busy the machine is.
settings.register_profile("ragstow", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ragstow")

# Whoever runs the tests may have a cluster at hand; no test may ever talk to it.
os.environ["KUBECONFIG"] = os.path.join(os.path.dirname(__file__), "no-kubeconfig")
os.environ.pop("KUBERNETES_SERVICE_HOST", None)
# The width of a terminal that has nothing to do with what is printed here (readline exports it to the worker processes).
os.environ.pop("COLUMNS", None)
os.environ.pop("LINES", None)
# In a shell's background job Ctrl-C is ignored, also by everything that is started from there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what the code prints over the golden files")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written instead of compared; review the diff before committing it."""
    return bool(request.config.getoption("--update-golden"))
