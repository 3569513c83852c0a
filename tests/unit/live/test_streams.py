"""Exec, logs and port-forward through a real API server to a simulated kubelet."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
import yaml

from controlplane_support import ControlPlane, control_plane, need_controlplane
from ragstow.errors import ClusterError, TimeoutReached
from ragstow.live.client import ApiClient
from ragstow.live.failures import Forbidden, Right
from ragstow.live.kubeconfig import Access, Choice, access
from ragstow.live.transport import Transport

BODY = b"0123456789" * 20_000


class Answer(BaseHTTPRequestHandler):
    """Sends much and returns what it gets."""

    def do_GET(self) -> None:
        self._send(BODY)

    def do_POST(self) -> None:
        self._send(self.rfile.read(int(self.headers["Content-Length"])))

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    need_controlplane(own=True)
    folder = tmp_path_factory.mktemp("kwok")
    (folder / "bin").mkdir()
    program = folder / "bin" / "nvidia-smi"
    program.write_text(
        '#!/bin/sh\necho "args: $*"; echo warned >&2; [ "$1" = fail ] && exit 7; [ "$1" = hang ] && sleep 5; exit 0\n'
    )
    program.chmod(0o755)
    log = folder / "pod.log"
    log.write_text("2026-01-01T00:00:00.000000000Z stdout F first\n2026-01-01T00:00:01.000000000Z stdout F second\n")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    shape = {"apiVersion": "kwok.x-k8s.io/v1alpha1", "metadata": {"name": "all"}}
    target = {"address": "127.0.0.1", "port": server.server_port}
    config = folder / "kwok.yaml"
    config.write_text(
        yaml.safe_dump_all(
            [
                {**shape, "kind": "ClusterExec", "spec": {"execs": [{"local": {}}]}},
                {**shape, "kind": "ClusterLogs", "spec": {"logs": [{"logsFile": str(log)}]}},
                {**shape, "kind": "ClusterPortForward", "spec": {"forwards": [{"ports": [8000], "target": target}]}},
            ]
        )
    )
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "10"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    spec = {"containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}
    try:
        with control_plane(nodes=True, kwok=[config], path=str(folder / "bin")) as plane:
            plane.kubectl("create", "-f", "-", stdin=json.dumps(node))
            plane.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
            plane.kubectl("create", "-f", "-", stdin=json.dumps(pod))
            plane.kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=60s")
            yield plane
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def client(running: ControlPlane) -> Iterator[ApiClient]:
    made = ApiClient(Transport(access(Choice(kubeconfig=str(running.kubeconfig)), {})))
    yield made
    made.close()


def test_exec_gives_output_and_exit_code(client: ApiClient) -> None:
    done = client.execute("p", "default", "c", ["nvidia-smi", "-L", "a b"])
    assert (done.code, done.stdout, done.stderr) == (0, "args: -L a b\n", "warned\n")
    assert client.execute("p", "default", "c", ["nvidia-smi", "fail"]).code == 7


def test_exec_of_what_is_not_there_says_so(client: ApiClient) -> None:
    with pytest.raises(ClusterError, match="no-such-program"):
        client.execute("p", "default", "c", ["no-such-program"])
    with pytest.raises(ClusterError, match="gone"):
        client.execute("gone", "default", "c", ["true"])


def test_exec_has_a_time_limit(client: ApiClient) -> None:
    with pytest.raises(TimeoutReached, match="nvidia-smi hang"):
        client.execute("p", "default", "c", ["nvidia-smi", "hang"], timeout_seconds=1)


def test_many_at_once_do_not_read_each_others_bytes(client: ApiClient) -> None:
    """A session's reading thread must be gone before its socket's number is given to another connection."""
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda number: client.execute("p", "default", "c", ["nvidia-smi", str(number)]), range(300)))
    assert [item.stdout for item in done] == [f"args: {number}\n" for number in range(300)]


def test_logs_end_with_the_last_line(client: ApiClient) -> None:
    assert client.logs("p", "default", "c", tail_lines=1) == "second\n"
    assert client.logs("p", "default", "c") == "first\nsecond\n"


def test_a_forwarded_port_carries_much_both_ways(client: ApiClient) -> None:
    with client.forward("p", "default", 8000) as (address, port):
        url = f"http://{address}:{port}/"
        for _ in range(2):
            with urllib.request.urlopen(url, timeout=20) as answer:
                assert answer.read() == BODY
        with urllib.request.urlopen(url, data=BODY, timeout=20) as answer:
            assert answer.read() == BODY


def test_without_the_right_nothing_is_forwarded_or_run(running: ControlPlane) -> None:
    nobody = ApiClient(Transport(access(Choice(kubeconfig=str(running.kubeconfig), context="nobody"), {})))
    try:
        with pytest.raises(Forbidden, match="pods/exec"):
            nobody.execute("p", "default", "c", ["true"])
        with pytest.raises(Forbidden, match="pods/portforward"), nobody.forward("p", "default", 8000):
            pass
    finally:
        nobody.close()


class Gate:
    """An HTTP client whose first connections fail."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.opened = 0

    @contextmanager
    def websocket(self, *_: Any, **__: Any) -> Iterator[SimpleNamespace]:
        if self.failures:
            self.failures -= 1
            raise httpx2.ConnectError("EOF occurred in violation of protocol")
        self.opened += 1
        yield SimpleNamespace(stream=None)


@pytest.mark.parametrize(("failures", "works"), [(0, True), (2, True), (3, False)])
def test_a_connection_that_breaks_before_it_stands_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, failures: int, works: bool
) -> None:
    transport = Transport(Access(name="n", server="https://127.0.0.1:1"), sleep=lambda _: None)
    gate = Gate(failures)
    monkeypatch.setattr(transport, "_client", lambda: gate)
    right = Right("create", "pods/exec")
    asked: dict[str, Any] = {"query": [], "protocols": [], "timeout_seconds": 1.0, "role": "verify"}
    if not works:
        with pytest.raises(ClusterError, match="cannot be reached"), transport.websocket("/", right, **asked):
            pass
        return
    with transport.websocket("/", right, **asked) as session:
        assert session.stream is None
    # What breaks once it stands is not done a second time.
    with pytest.raises(ClusterError), transport.websocket("/", right, **asked):
        raise httpx2.ConnectError("later")
    assert gate.opened == 2
