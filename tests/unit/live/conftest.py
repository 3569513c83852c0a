"""Control planes and clients for the tests of live clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controlplane_support import ControlPlane, control_plane, need_controlplane
from live_support import client_of, give_roles
from ragstow.live.client import ApiClient


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """An API server without any controller, one for each test module, with the roles that `ragstow rbac` prints."""
    need_controlplane()
    with control_plane() as running:
        give_roles(running)
        yield running


@pytest.fixture
def client(plane: ControlPlane) -> Iterator[ApiClient]:
    """A client of the administrator."""
    made = client_of(plane.kubeconfig, "admin")
    yield made
    made.close()
