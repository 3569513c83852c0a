"""A control plane with controllers, simulated kubelets and a small GPU cluster, for all tests of one module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from apply_support import client_of, gpu_cluster, shapes
from controlplane_support import ControlPlane, control_plane, need_controlplane
from ragstow.live import rbac
from ragstow.live.client import ApiClient
from stack_player import Stack, playing


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """The control plane; `applier` has what `ragstow rbac apply` prints and nothing else."""
    need_controlplane(own=True)
    with control_plane(nodes=True) as running:
        documents = rbac.documents("apply", subjects=[rbac.subject("user:applier") or {}])
        running.kubectl("apply", "-f", "-", stdin="---\n".join(yaml.safe_dump(item) for item in documents))
        gpu_cluster(running)
        yield running


@pytest.fixture
def admin(plane: ControlPlane) -> Iterator[ApiClient]:
    """A client of the administrator."""
    made = client_of(plane.kubeconfig, "admin")
    yield made
    made.close()


@pytest.fixture
def applier(plane: ControlPlane) -> Iterator[ApiClient]:
    """A client with the rights of apply."""
    made = client_of(plane.kubeconfig, "applier")
    yield made
    made.close()


@pytest.fixture
def stack(admin: ApiClient) -> Iterator[Stack]:
    """The GPU stack, played."""
    with playing(Stack(admin, shapes())) as played:
        yield played


@pytest.fixture(scope="module")
def rag(plane: ControlPlane) -> str:
    """The namespace `rag`; a test that leaves something in it takes that away itself."""
    plane.kubectl("create", "namespace", "rag")
    return "rag"
