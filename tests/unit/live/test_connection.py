"""How a command gets to its cluster: the missing extra, a proxy, a token that the server no longer accepts."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from controlplane_support import ControlPlane
from ragstow.cli.main import run
from support import ENVIRONMENT


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {"token": "t"}}
    kubeconfig.write_text(
        yaml.safe_dump({"current-context": "c", "clusters": [cluster], "contexts": [context], "users": [user]})
    )
    code = "import sys; sys.modules['httpx2'] = None; from ragstow.cli.main import run; sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "inspect", "--kubeconfig", str(kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 2
    assert done.stderr == "error: talking to a live cluster needs the extra 'live'\n  hint: pip install 'ragstow[live]'\n"


@contextmanager
def proxy() -> Iterator[tuple[str, list[str]]]:
    """A proxy that knows CONNECT, and the hosts that it was asked for."""
    asked: list[str] = []
    server = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()
    server.settimeout(0.2)

    def pump(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        finally:
            for end in (source, target):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue

    def serve(connection: socket.socket) -> None:
        with connection:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(4096)
            verb, where, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
            asked.append(f"{verb} {where}")
            host, _, port = where.partition(":")
            with socket.create_connection((host, int(port))) as upstream:
                connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=pump, args=(upstream, connection), daemon=True)
                back.start()
                pump(connection, upstream)
                back.join()

    def accept() -> None:
        while not ended.is_set():
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}", asked
    finally:
        ended.set()
        thread.join()
        server.close()


def inspected(kubeconfig: Path | str, *words: str) -> int:
    return run(["simulate", "--kubeconfig", str(kubeconfig), *words])


def test_a_proxy_of_the_environment_is_used_and_no_proxy_honoured(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    host = plane.server.removeprefix("https://")
    with proxy() as (address, asked):
        monkeypatch.setenv("HTTPS_PROXY", address)
        assert inspected(plane.kubeconfig) == 2, "an empty cluster has no nodes"
        assert "no Node" in capsys.readouterr().err
        assert asked
        assert set(asked) == {f"CONNECT {host}"}
        asked.clear()
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert inspected(plane.kubeconfig) == 2
        assert asked == []
    monkeypatch.delenv("NO_PROXY")
    capsys.readouterr()
    assert inspected(plane.kubeconfig) == 3, "the proxy is gone"
    assert f"{plane.server} cannot be reached" in capsys.readouterr().err


def test_a_token_that_is_refused_is_asked_for_again(
    plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens, used = tmp_path / "tokens", tmp_path / "used"
    plugin = tmp_path / "plugin"
    plugin.write_text(
        "#!/bin/sh\n"
        f'echo x >> {used}; token=$(sed -n "$(wc -l < {used})p" {tokens})\n'
        'echo "{\\"apiVersion\\":\\"client.authentication.k8s.io/v1\\",\\"kind\\":\\"ExecCredential\\",'
        '\\"status\\":{\\"token\\":\\"$token\\"}}"\n'
    )
    plugin.chmod(0o755)
    document = yaml.safe_load(plane.kubeconfig.read_text())
    how = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
    document["users"] = [{"name": "admin", "user": {"exec": how}}]
    document["contexts"] = [{"name": "admin", "context": {"cluster": "test", "user": "admin"}}]
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(yaml.safe_dump(document))

    tokens.write_text("expired\ntoken-admin\n")
    assert inspected(kubeconfig) == 2
    assert "no Node" in capsys.readouterr().err
    assert used.read_text().count("x") == 2

    used.unlink()
    tokens.write_text("expired\nexpired as well\n")
    assert inspected(kubeconfig) == 3
    told = capsys.readouterr().err
    assert "does not accept the credentials" in told
    assert used.read_text().count("x") == 2, "once more, not again and again"
