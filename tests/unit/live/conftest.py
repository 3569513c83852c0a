"""Control planes for the tests of live clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controlplane_support import ControlPlane, control_plane, need_controlplane


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """An API server without any controller, one for each test module."""
    need_controlplane()
    with control_plane() as running:
        yield running
