"""Exec and port-forward over websockets, with the channels that kubelets speak (v5/v4.channel.k8s.io).

References: Kubernetes remotecommand and portforward websocket protocols (KEP-4006 tells their history).
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx2
import wsproto.events
from httpx2.websockets import HTTPXWSException

from ragstow.errors import ClusterError, TimeoutReached
from ragstow.live.failures import Right
from ragstow.live.transport import Transport

_STDIN, _STDOUT, _STDERR, _STATUS = 0, 1, 2, 3
_CLOSE = 255
_CLOSES = "v5.channel.k8s.io"
"""The first protocol in which one channel can be closed."""
_DATA, _ERROR = 0, 1
_CHUNK = 16 << 10
_POLL_SECONDS = 0.5
_FORWARD_POLL_SECONDS = 0.1
_QUIET_POLLS = 10
"""How long the other side of a forwarded connection may be silent once ours has hung up."""
_EXIT = re.compile(r"exit (?:status|code) ([0-9]+)\W*$")


@dataclass(frozen=True, slots=True)
class Executed:
    """What a command in a container printed, and its exit code."""

    code: int
    stdout: str
    stderr: str


def execute(
    transport: Transport,
    name: str,
    namespace: str,
    container: str,
    command: Sequence[str],
    timeout_seconds: float,
    stdin: bytes = b"",
) -> Executed:
    """Run a command in a container and wait for its end; `stdin` is all that it can read.

    Servers older than 1.30 cannot be told that standard input ended: there the command must know by itself when to stop.

    Raises:
        ClusterError: the command could not be started (no such container, no such program, no right).
        TimeoutReached: it did not end in time.
    """
    right = Right("create", "pods/exec", "", namespace)
    query = [("container", container), ("stdout", "true"), ("stderr", "true"), *(("command", word) for word in command)]
    if stdin:
        query.append(("stdin", "true"))
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/exec"
    end = time.monotonic() + timeout_seconds
    said: dict[int, bytearray] = {_STDOUT: bytearray(), _STDERR: bytearray(), _STATUS: bytearray()}
    with transport.websocket(
        path,
        right,
        query=query,
        protocols=[_CLOSES, "v4.channel.k8s.io"],
        timeout_seconds=timeout_seconds,
        role="verify",
    ) as session:
        if stdin:
            _feed(session, stdin)
        for channel, data in _messages(session, end):
            if channel in said:
                said[channel] += data
            if channel == _STATUS:
                break
        else:
            raise TimeoutReached(
                "exec-timeout", f"{' '.join(command)} in {namespace}/{name} did not end within {timeout_seconds:g} s"
            )
    status: Mapping[str, Any] = json.loads(said[_STATUS] or b"{}")
    return Executed(_code(status, name, namespace, command), _text(said[_STDOUT]), _text(said[_STDERR]))


def _feed(session: Any, stdin: bytes) -> None:
    for start in range(0, len(stdin), _CHUNK):
        session.send_bytes(bytes([_STDIN]) + stdin[start : start + _CHUNK])
    if session.subprotocol == _CLOSES:
        session.send_bytes(bytes([_CLOSE, _STDIN]))


def _messages(session: Any, end: float) -> Iterator[tuple[int, bytes]]:
    """(channel, data) until the stream ends or the time is up."""
    while (left := end - time.monotonic()) > 0:
        try:
            event = session.receive(timeout=min(left, _POLL_SECONDS))
        except TimeoutError:
            continue
        except Exception as error:
            if type(error).__name__ == "Empty":
                continue
            if isinstance(error, HTTPXWSException | httpx2.HTTPError):
                yield _STATUS, b""
                return
            raise
        if isinstance(event, wsproto.events.BytesMessage) and event.data:
            yield event.data[0], bytes(event.data[1:])


def _code(status: Mapping[str, Any], name: str, namespace: str, command: Sequence[str]) -> int:
    if status.get("status") == "Success":
        return 0
    causes = (status.get("details") or {}).get("causes") or ()
    for cause in causes:
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    why = str(status.get("message") or "the connection ended before the command did")
    # Some runtimes tell the code in words only.
    told = _EXIT.search(why)
    if told is not None:
        return int(told[1])
    raise ClusterError("exec-failed", f"{' '.join(command)} in {namespace}/{name}: {why}")


def _text(data: bytearray) -> str:
    return data.decode("utf-8", "replace")


@contextmanager
def forward(transport: Transport, name: str, namespace: str, port: int) -> Iterator[tuple[str, int]]:
    """A port of a pod as a port of this machine, for the time of the `with` block: (address, port) to connect to.

    Every connection to it becomes a stream of its own.

    Raises:
        ClusterError: the pod cannot be reached, or the right is missing; asked once before the block starts.
    """
    with ExitStack() as stack:
        # A first stream tells a missing right or pod at once, not at the first connection.
        with _stream(transport, name, namespace, port):
            pass
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        server.settimeout(_FORWARD_POLL_SECONDS)
        ended = threading.Event()
        workers: list[threading.Thread] = []

        def accept() -> None:
            while not ended.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                except OSError:
                    return
                worker = threading.Thread(
                    target=_serve, args=(transport, name, namespace, port, connection, ended), daemon=True
                )
                workers.append(worker)
                worker.start()

        listener = threading.Thread(target=accept, daemon=True)
        listener.start()
        try:
            yield server.getsockname()[0], server.getsockname()[1]
        finally:
            ended.set()
            listener.join()
            for worker in workers:
                worker.join()


@contextmanager
def _stream(transport: Transport, name: str, namespace: str, port: int) -> Iterator[Any]:
    right = Right("create", "pods/portforward", "", namespace)
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/portforward"
    with transport.websocket(
        path,
        right,
        query=[("ports", str(port))],
        protocols=["v4.channel.k8s.io"],
        timeout_seconds=transport.timeout_seconds,
        role="verify",
    ) as session:
        yield session


def _serve(
    transport: Transport, name: str, namespace: str, port: int, connection: socket.socket, ended: threading.Event
) -> None:
    """One connection: bytes both ways until either side ends. A failure ends the connection, as a broken network would."""
    with connection, suppress(ClusterError, TimeoutReached, OSError):
        connection.settimeout(_FORWARD_POLL_SECONDS)
        with _stream(transport, name, namespace, port) as session:
            closed = threading.Event()

            def upload() -> None:
                with suppress(OSError, HTTPXWSException, httpx2.HTTPError, wsproto.utilities.LocalProtocolError):
                    while not (ended.is_set() or closed.is_set()):
                        try:
                            data = connection.recv(_CHUNK)
                        except TimeoutError:
                            continue
                        if not data:
                            break
                        session.send_bytes(bytes([_DATA]) + data)

            sender = threading.Thread(target=upload, daemon=True)
            sender.start()
            try:
                _download(session, connection, ended, sender)
            finally:
                closed.set()
                sender.join()


def _download(session: Any, connection: socket.socket, ended: threading.Event, sender: threading.Thread) -> None:
    headers = {_DATA, _ERROR}
    quiet = 0
    while not ended.is_set():
        try:
            event = session.receive(timeout=_FORWARD_POLL_SECONDS)
        except Exception as error:
            if type(error).__name__ not in ("Empty", "TimeoutError"):
                return
            # Our side hung up and nothing more comes back.
            quiet = quiet + 1 if not sender.is_alive() else 0
            if quiet > _QUIET_POLLS:
                return
            continue
        if not isinstance(event, wsproto.events.BytesMessage) or not event.data:
            continue
        channel, data = event.data[0], bytes(event.data[1:])
        if channel in headers:
            # The first message of each channel repeats the port.
            headers.discard(channel)
            data = data[2:]
        if channel == _DATA and data:
            connection.sendall(data)
        elif channel == _ERROR and data:
            return
