"""Clients of a control plane's users, and the roles that are printed for them."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from controlplane_support import ControlPlane
from ragstow.live import rbac
from ragstow.live.client import ApiClient
from ragstow.live.kubeconfig import Choice, access
from ragstow.live.transport import Transport


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
