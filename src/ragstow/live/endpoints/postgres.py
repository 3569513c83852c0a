"""PostgreSQL with pgvector: does the port speak PostgreSQL, and can the database keep and search vectors.

The port is asked as every client begins (SSLRequest); that needs no password. Vectors are kept by `psql` inside the pod, where
the image's own environment gives user, database and password: no Secret is read. Everything happens in one transaction that
is rolled back, in a temporary table, so nothing can stay behind, not even when the connection breaks.

References: PostgreSQL documentation, "SSL Session Encryption" and psql; the variables of the images postgres and
bitnami/postgresql.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Sequence

from ragstow.cluster.objects import Pod
from ragstow.errors import ClusterError
from ragstow.live.client import Client
from ragstow.live.endpoints.http import Failed
from ragstow.live.endpoints.stores import Kept
from ragstow.verification.answers import Malformed, Vector, shown
from ragstow.verification.model import Evidence

_SSL_REQUEST = bytes([0, 0, 0, 8, 4, 210, 22, 47])
_NO_PROGRAM = (126, 127)
_PSQL = """
first() { for name in "$@"; do eval "value=\\${$name-}"; [ -n "$value" ] && { printf %s "$value"; return; }; done; }
file=$(first POSTGRES_PASSWORD_FILE POSTGRESQL_PASSWORD_FILE)
password=$(first PGPASSWORD POSTGRES_PASSWORD POSTGRESQL_PASSWORD)
[ -z "$password" ] && [ -r "$file" ] && password=$(cat "$file")
[ -n "$password" ] && export PGPASSWORD="$password"
export PGUSER="$(first PGUSER POSTGRES_USER POSTGRESQL_USERNAME)"
[ -n "$PGUSER" ] || PGUSER=postgres
export PGDATABASE="$(first PGDATABASE POSTGRES_DB POSTGRESQL_DATABASE)"
[ -n "$PGDATABASE" ] || PGDATABASE="$PGUSER"
export PGCONNECT_TIMEOUT=10
exec psql -X -q -A -t -w -v ON_ERROR_STOP=1
"""
COMMAND = ("sh", "-c", _PSQL.strip())
"""Finds out inside the container who it is, and reads SQL from standard input."""
_ROW = re.compile(r"row ([0-9]+) (\S+)")


def answers(address: str, port: int, timeout_seconds: float) -> float:
    """Whether PostgreSQL is behind a port; gives the seconds to its answer.

    Raises:
        Failed: nothing answers, or something else does.
    """
    started = time.monotonic()
    try:
        with socket.create_connection((address, port), timeout_seconds) as connection:
            connection.settimeout(timeout_seconds)
            connection.sendall(_SSL_REQUEST)
            said = connection.recv(1)
    except TimeoutError:
        raise Failed("timeout", f"asked for TLS as clients of PostgreSQL do: no answer in {timeout_seconds:g} s") from None
    except OSError as error:
        raise Failed("unreachable", f"the port does not answer: {error}") from None
    if said not in (b"S", b"N"):
        text = "closes the connection" if not said else f"answers {said!r}"
        raise Failed("status", f"no PostgreSQL: asked for TLS, it {text}")
    return time.monotonic() - started


def sql(vectors: Sequence[Vector], query: Vector) -> str:
    """The whole script: versions, keep, find, and take everything back."""
    rows = ", ".join(f"({at}, '{_literal(vector)}')" for at, vector in enumerate(vectors))
    distance = f"embedding <=> '{_literal(query)}'"
    return f"""
\\set VERBOSITY terse
SET client_min_messages = warning;
SELECT 'server ' || current_setting('server_version');
SELECT 'installed ' || count(*) FROM pg_extension WHERE extname = 'vector';
BEGIN;
CREATE EXTENSION IF NOT EXISTS vector;
SELECT 'vector ' || extversion FROM pg_extension WHERE extname = 'vector';
CREATE TEMPORARY TABLE ragstow_verify (id integer PRIMARY KEY, embedding vector({len(query)})) ON COMMIT DROP;
INSERT INTO ragstow_verify VALUES {rows};
SELECT 'row ' || id || ' ' || ({distance}) FROM ragstow_verify ORDER BY {distance}, id;
ROLLBACK;
\\q
"""


def keep_and_find(
    client: Client, pod: Pod, container: str, vectors: Sequence[Vector], query: Vector, timeout_seconds: float
) -> Kept:
    """Store, search, roll back.

    Raises:
        Failed: the database refuses.
        Malformed: psql says something else.
        ClusterError: the command cannot be run.
        TimeoutReached: it does not end in time.
    """
    started = time.monotonic()
    script = sql(vectors, query)
    done = client.execute(pod.name, pod.namespace, container, COMMAND, timeout_seconds=timeout_seconds, stdin=script.encode())
    seconds = time.monotonic() - started
    if done.code in _NO_PROGRAM:
        raise ClusterError("no-psql", f"there is no psql in container {container}: {shown(done.stderr)}")
    if done.code != 0:
        raise Failed("status", f"psql: {shown(done.stderr or done.stdout)}", hint=_hint(done.stderr))
    told = dict(
        line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("server ", "vector ", "installed "))
    )
    rows = tuple((int(at), float(distance)) for at, distance in _ROW.findall(done.stdout))
    if not rows or "server" not in told:
        raise Malformed(f"psql said {shown(done.stdout)}")
    about = f"PostgreSQL {told['server'].split()[0]}, pgvector {told.get('vector', '?')}"
    if told.get("installed") == "0":
        about += " (not created in this database yet)"
    where = f"kubectl -n {pod.namespace} exec {pod.name} -c {container} -- psql -c 'SELECT extversion FROM pg_extension'"
    return Kept(rows, seconds, about, (Evidence(where, shown(done.stdout)),))


def _literal(vector: Vector) -> str:
    return "[" + ",".join(f"{number:.9g}" for number in vector) + "]"


def _hint(said: str) -> str:
    text = said.lower()
    if "is not available" in text or "could not open extension control file" in text:
        return "the image has no pgvector: take one that has it, such as pgvector/pgvector"
    if "permission denied to create extension" in text:
        return "let a superuser run once: CREATE EXTENSION vector"
    if "authentication failed" in text or "no password supplied" in text:
        return "the container's environment names no password that fits (PGPASSWORD, POSTGRES_PASSWORD)"
    if "read-only" in text:
        return "this replica is a standby: only the primary keeps vectors"
    return ""
