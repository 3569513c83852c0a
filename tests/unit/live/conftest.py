"""Control planes and clients for the tests of live clusters."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from controlplane_support import ControlPlane, control_plane, need_controlplane
from ragstow.live import rbac
from ragstow.live.client import ApiClient
from ragstow.live.kubeconfig import Choice, access
from ragstow.live.transport import Transport


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


def client_of(kubeconfig: Path, user: str) -> ApiClient:
    """A client of one of the users."""
    return ApiClient(Transport(access(Choice(kubeconfig=str(kubeconfig), context=user), os.environ)))


def give_roles(running: ControlPlane) -> None:
    """The users reader, verifier and applier get what is printed for them."""
    users = {"read": "reader", "verify": "verifier", "apply": "applier"}
    documents = [
        document
        for level in rbac.LEVELS
        for document in rbac.documents(level, subjects=[rbac.subject(f"user:{users[level]}") or {}])
    ]
    running.kubectl("apply", "-f", "-", stdin="---\n".join(yaml.safe_dump(item) for item in documents))
