"""Which logs are read, and what their absence says; the API server is played by what it answers."""

from __future__ import annotations

from typing import Any

import pytest

from makers import node, pod
from ragstow.cluster.build import build
from ragstow.errors import ClusterError
from ragstow.live.client import ApiClient
from ragstow.live.failures import Forbidden, NotFound, Right
from ragstow.live.verify.logs import kubelet_logs, pod_logs

PROXY = Right("get", "nodes/proxy")


class Asked:
    """Answers node proxies and logs, and keeps what it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.paths: list[str] = []
        self.asked: list[tuple[str, str, bool]] = []

    def node_proxy(self, node: str, path: str) -> bytes:
        self.paths.append(f"{node} {path}")
        if isinstance(self.answer, Exception):
            raise self.answer
        return bytes(self.answer)

    def logs(self, name: str, namespace: str, container: str, *, previous: bool = False, tail_lines: int = 0) -> str:
        assert tail_lines
        self.asked.append((f"{namespace}/{name}", container, previous))
        if isinstance(self.answer, Exception):
            raise self.answer
        return str(self.answer)


def client(answer: Any) -> Any:
    """It stands for an `ApiClient` here."""
    assert ApiClient.node_proxy is not None
    return Asked(answer)


@pytest.mark.parametrize(
    ("answer", "missing", "forbidden"),
    [
        (Forbidden(PROXY, "no"), "nodes/proxy", True),
        (NotFound(404, "NotFound", "no"), "enableSystemLogQuery", False),
        (b"<!doctype html>\n<pre>\n<a href='pods/'>", "enableSystemLogQuery", False),
        (ClusterError("unreachable", "away"), "away", False),
        (b"Dec 01 kubelet[1]: fine\n", "", False),
    ],
)
def test_kubelet_log(answer: Any, missing: str, forbidden: bool) -> None:
    nodes = build([node("n1")]).nodes
    asked = client(answer)
    (log,) = kubelet_logs(asked, nodes, {"n1": "2026-12-01T00:00:00Z"})
    assert asked.paths == ["n1 logs/?query=kubelet&tailLines=1000&sinceTime=2026-12-01T00%3A00%3A00Z"]
    assert (missing in log.missing, bool(log.missing), log.forbidden) == (True, bool(missing), forbidden)
    assert log.text == ("" if missing else "Dec 01 kubelet[1]: fine\n")
    assert log.command.startswith("kubectl get --raw '/api/v1/nodes/n1/proxy/logs/?query=kubelet")


def test_logs_of_what_ran_and_of_the_instance_before() -> None:
    made = pod("p", "n1")
    running: dict[str, Any] = {"name": "a", "ready": True, "restartCount": 0, "state": {"running": {}}}
    crashing = {"name": "b", "ready": False, "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    waiting = {"name": "c", "ready": False, "restartCount": 0, "state": {"waiting": {"reason": "PodInitializing"}}}
    made["status"]["containerStatuses"] = [running, crashing, waiting]
    asked = client("password: hunter2222\nfine\n")
    logs = pod_logs(asked, build([made]).pods)
    assert sorted(asked.asked) == [("rag/p", "a", False), ("rag/p", "b", True)]
    assert all("hunter2222" not in log.text and "fine" in log.text for log in logs)
    (refused, _) = pod_logs(client(Forbidden(Right("get", "pods/log"), "no")), build([made]).pods)
    assert (refused.forbidden, "pods/log" in refused.missing) == (True, True)
