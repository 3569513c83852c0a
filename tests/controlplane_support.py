"""Starts a real control plane for tests: etcd and kube-apiserver, on request also scheduler, controller manager and KWOK.

Ready in about three seconds, on free ports of this machine, with one user for each role that `ragstow rbac` prints. Every
process is stopped at the end, also when a test fails or the test run is killed. `RAGSTOW_TEST_KUBECONFIG` names an existing
throw-away cluster instead; its users are then impersonated.
"""

from __future__ import annotations

import base64
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from controlplane_build import STAGES, built, folder
from support import need

USERS = ("admin", "reader", "verifier", "applier", "nobody")
GROUPS = {"admin": "system:masters"}
_STAGES = ("node/fast/node-initialize.yaml", "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml", "pod/fast/*.yaml")
_START_SECONDS = 60
_STOP_SECONDS = 10
_PORTS = Path(tempfile.gettempdir()) / f"ragstow-test-ports-{os.getuid()}"
_LOWEST_PORT, _HIGHEST_PORT = 20_000, 32_000


def existing() -> str | None:
    """The kubeconfig of a throw-away cluster that tests may use instead of their own."""
    return os.environ.get("RAGSTOW_TEST_KUBECONFIG") or None


def need_controlplane(*, own: bool = False) -> None:
    """Skip, or fail where it is required, when there is no control plane; `own`: an existing cluster will not do."""
    if existing() is not None:
        if own:
            need("controlplane", False, "this test fills an empty API server, which RAGSTOW_TEST_KUBECONFIG is not")
        return
    need("controlplane", built(), f"no programs in {folder()}; `make controlplane` builds them (minutes, once)")


class ControlPlane:
    """A running control plane; `kubeconfig` has one context for each of USERS, `admin` is the current one."""

    def __init__(self, kubeconfig: Path, server: str, data: Path) -> None:
        self.kubeconfig = kubeconfig
        self.server = server
        self.etcd = ""
        """etcd's client URL, where the control plane is our own."""
        self.data = data
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, tuple[list[str], dict[str, str]]] = {}

    def start(self, name: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        """Start one program of the control plane; its output goes to a file beside the data."""
        self._commands[name] = (list(arguments), dict(environment or {}))
        with (self.data / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [str(folder() / name), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )

    def start_controllers(self, *, kwok: Sequence[Path] = (), path: str = "", crds: Sequence[str] = ()) -> None:
        """Start scheduler, controller manager and KWOK.

        Args:
            kwok: configuration files for KWOK beside its Stages of pods that are ready at once.
            path: folders to put first on KWOK's PATH.
            crds: KWOK's kinds that it reads from the API server instead of from files, Stages among them.
        """
        shared = _shared(self)
        key = self.data / "service-account.key"
        self.start("kube-scheduler", *shared)
        self.start("kube-controller-manager", *shared, f"--service-account-private-key-file={key}")
        (port,) = free_ports(1)
        own = [] if crds else [file for pattern in _STAGES for file in sorted((folder() / STAGES).glob(pattern))]
        certificate = self.data / "certs" / "apiserver.crt"
        self.start(
            "kwok",
            *("--kubeconfig", str(self.kubeconfig), "--manage-all-nodes", "--node-ip", "127.0.0.1"),
            *("--node-port", str(port), "--server-address", f"127.0.0.1:{port}", "--node-lease-duration-seconds", "40"),
            *("--tls-cert-file", str(certificate), "--tls-private-key-file", str(certificate.with_suffix(".key"))),
            *(word for file in (*own, *kwok) for word in ("--config", str(file))),
            *(("--enable-crds", ",".join(crds)) if crds else ()),
            environment={"PATH": os.pathsep.join(part for part in (path, os.environ.get("PATH", "")) if part)},
        )

    def restart(self, name: str) -> None:
        """Kill a program as a crash would, and start it again."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()
        arguments, environment = self._commands[name]
        self.start(name, *arguments, environment=environment)

    def stop(self) -> None:
        """End all programs, last started first."""
        for process in reversed(self.processes.values()):
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()

    def log(self, name: str) -> str:
        """The end of what a program said."""
        file = self.data / f"{name}.log"
        return file.read_text(errors="replace")[-3000:] if file.exists() else ""

    def kubectl(self, *arguments: str, user: str = "admin", stdin: str | None = None) -> str:
        """Run kubectl and return what it prints."""
        command = [_kubectl(), "--kubeconfig", str(self.kubeconfig), "--context", user, *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout


@contextmanager
def control_plane(
    *,
    scheduler: bool = False,
    nodes: bool = False,
    kwok: Sequence[Path] = (),
    path: str = "",
    kinds: Sequence[Mapping[str, Any]] = (),
) -> Iterator[ControlPlane]:
    """A control plane for the time of the `with` block.

    Args:
        scheduler: also run the scheduler, and nothing that would change nodes or pods besides.
        nodes: also run scheduler, controller manager and KWOK, so that pods get placed and run.
        kwok: configuration files for KWOK (Stages, ClusterExec and the like) beside those of pods that are ready at once.
        path: folders to put first on KWOK's PATH, where its scripted programs are.
        kinds: CustomResourceDefinitions that are served when the block begins.
    """
    given = existing()
    data = Path(tempfile.mkdtemp(prefix="ragstow-controlplane-"))
    plane: ControlPlane | None = None
    try:
        if given is not None:
            plane = _use(given, data)
        else:
            plane = ControlPlane(data / "kubeconfig", "", data)
            _start_server(plane)
            if scheduler and not nodes:
                plane.start("kube-scheduler", *_shared(plane))
            if nodes:
                plane.start_controllers(kwok=kwok, path=path)
        if kinds:
            listed = {"apiVersion": "v1", "kind": "List", "items": list(kinds)}
            plane.kubectl("create", "-f", "-", stdin=json.dumps(listed))
            names = [f"crd/{item['metadata']['name']}" for item in kinds]
            plane.kubectl("wait", "--for=condition=Established", *names, "--timeout=60s")
        yield plane
    finally:
        if plane is not None:
            plane.stop()
        shutil.rmtree(data, ignore_errors=True)


def _start_server(plane: ControlPlane) -> None:
    data = plane.data
    client, peer, secure = free_ports(3)
    plane.server = f"https://127.0.0.1:{secure}"
    etcd = plane.etcd = f"http://127.0.0.1:{client}"
    plane.start(
        "etcd",
        *("--data-dir", str(data / "etcd"), "--unsafe-no-fsync", "--log-level", "error"),
        *("--listen-client-urls", etcd, "--advertise-client-urls", etcd),
        *("--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"),
        *("--initial-cluster", f"default=http://127.0.0.1:{peer}"),
    )
    key = data / "service-account.key"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    tokens = data / "tokens.csv"
    tokens.write_text("".join(f'token-{user},{user},{user},"{GROUPS.get(user, "")}"\n' for user in USERS))
    plane.start(
        "kube-apiserver",
        *(f"--etcd-servers={etcd}", f"--secure-port={secure}", "--bind-address=127.0.0.1", f"--cert-dir={data / 'certs'}"),
        *("--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={key}"),
        *(f"--service-account-signing-key-file={key}", f"--token-auth-file={tokens}", "--authorization-mode=RBAC"),
        *("--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged=true"),
        # No controller makes service accounts here, and loaded nodes come with the taints they have.
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
    )
    certificate = data / "certs" / "apiserver.crt"
    _wait(plane, certificate.exists)
    _write_kubeconfig(plane, certificate.read_bytes())
    context = ssl.create_default_context(cafile=str(certificate))
    _wait(plane, lambda: _answers(f"{plane.server}/readyz", context))
    # The first system namespaces and roles are made after the server calls itself ready.
    _wait(plane, lambda: _answers(f"{plane.server}/api/v1/namespaces/default", context))
    _wait(plane, lambda: _answers(f"{plane.server}/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical", context))


def _shared(plane: ControlPlane) -> tuple[str, ...]:
    return f"--kubeconfig={plane.kubeconfig}", "--leader-elect=false", "--secure-port=0"


def _write_kubeconfig(plane: ControlPlane, authority: bytes) -> None:
    cluster = {"server": plane.server, "certificate-authority-data": base64.b64encode(authority).decode()}
    _save(plane.kubeconfig, cluster, {user: {"token": f"token-{user}"} for user in USERS})


def _use(kubeconfig: str, data: Path) -> ControlPlane:
    """An existing cluster: its own user is admin, the others are impersonated."""
    command = [_kubectl(), "--kubeconfig", kubeconfig, "config", "view", "--minify", "--flatten", "--raw", "-o", "json"]
    shown: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    user, cluster = shown["users"][0]["user"], shown["clusters"][0]["cluster"]
    plane = ControlPlane(data / "kubeconfig", cluster["server"], data)
    others = {name: {**user, "as": name} for name in USERS if name not in GROUPS}
    _save(plane.kubeconfig, cluster, {"admin": user, **others})
    return plane


def _kubectl() -> str:
    """The one that was built, else that of this machine: an existing cluster needs no build."""
    own = folder() / "kubectl"
    return str(own) if own.is_file() else shutil.which("kubectl") or "kubectl"


def _save(path: Path, cluster: Mapping[str, Any], users: Mapping[str, Mapping[str, Any]]) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "admin",
        "clusters": [{"name": "test", "cluster": dict(cluster)}],
        "users": [{"name": name, "user": dict(user)} for name, user in users.items()],
        "contexts": [{"name": name, "context": {"cluster": "test", "user": name}} for name in users],
    }
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    path.chmod(0o600)


def _answers(url: str, context: ssl.SSLContext) -> bool:
    request = urllib.request.Request(url, headers={"Authorization": "Bearer token-admin"})
    try:
        with urllib.request.urlopen(request, timeout=2, context=context) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _wait(plane: ControlPlane, ready: Callable[[], bool]) -> None:
    end = time.monotonic() + _START_SECONDS
    while not ready():
        for name, process in plane.processes.items():
            assert process.poll() is None, f"{name} ended: {plane.log(name)}"
        assert time.monotonic() < end, f"not ready after {_START_SECONDS} s: {plane.log('kube-apiserver')}"
        time.sleep(0.05)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now and that no other run of these tests was given lately.

    They lie below those that the kernel gives to clients, and a counter that all runs on this machine share goes round: a port
    that is only asked for when its server starts would else be given twice.
    """
    with _PORTS.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        last = int(file.read() or _LOWEST_PORT)
        found: list[int] = []
        while len(found) < count:
            last = last + 1 if last < _HIGHEST_PORT else _LOWEST_PORT
            with socket.socket() as item:
                item.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    item.bind(("127.0.0.1", last))
                except OSError:
                    continue
            found.append(last)
        file.truncate(0)
        file.write(str(last))
    return found


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    """The kernel ends this process when the test run is killed and cannot clean up."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
