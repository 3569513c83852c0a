"""The test control plane itself: what it makes, whom it knows, and that nothing of it is left."""

from __future__ import annotations

import json

import pytest

from controlplane_support import USERS, ControlPlane, control_plane, need_controlplane


def test_every_user_is_known_and_only_admin_may_write(plane: ControlPlane) -> None:
    for user in USERS:
        who = json.loads(plane.kubectl("auth", "whoami", "-o", "json", user=user))
        assert who["status"]["userInfo"]["username"] == user
    assert plane.kubectl("auth", "can-i", "create", "pods") == "yes\n"


def test_the_server_says_the_pinned_version(plane: ControlPlane) -> None:
    version = json.loads(plane.kubectl("version", "-o", "json"))
    assert version["serverVersion"]["gitVersion"] == version["clientVersion"]["gitVersion"] == "v1.37.2"


def test_nothing_is_left_when_a_test_fails() -> None:
    need_controlplane(own=True)
    with pytest.raises(RuntimeError, match="on purpose"), control_plane() as running:  # noqa: PT012 - the point is the block
        processes = list(running.processes.values())
        data = running.data
        raise RuntimeError("on purpose")
    assert [process.poll() is None for process in processes] == [False, False]
    assert not data.exists()


def test_pods_are_placed_and_run_with_simulated_kubelets() -> None:
    need_controlplane(own=True)
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "10", "nvidia.com/gpu": "2"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    asked = {"limits": {"nvidia.com/gpu": "1"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": asked}]},
    }
    with control_plane(nodes=True) as running:
        running.kubectl("create", "-f", "-", stdin=json.dumps(node))
        running.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
        running.kubectl("create", "-f", "-", stdin=json.dumps(pod))
        running.kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=30s")
        assert json.loads(running.kubectl("get", "pod", "p", "-o", "json"))["spec"]["nodeName"] == "n1"
