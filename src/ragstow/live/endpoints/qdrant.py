"""Qdrant over HTTP: a throw-away collection is made, filled, searched and deleted, whatever happens in between.

Reference: Qdrant's REST API (docs/redoc/master/openapi.json): collections, points, points/query (1.10 and newer).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ragstow.live.endpoints.http import Failed, Server
from ragstow.live.endpoints.stores import Kept
from ragstow.verification.answers import Malformed, Vector, shown
from ragstow.verification.model import Evidence

PREFIX = "ragstow-verify-"
_OLD_SECONDS = 3600
"""A collection of ours that is older was left by a run that was killed: no run takes so long."""
_SPREAD_SECONDS = 10
"""How long a new collection may take to be known on every node of a cluster."""


@dataclass
class Collection:
    """A collection that exists for the time of a `with` block. `left` is its name where it could not be deleted."""

    server: Server
    name: str
    seen: list[Evidence] = field(default_factory=list)
    left: str | None = None

    @property
    def path(self) -> str:
        """Where it is."""
        return f"/collections/{self.name}"

    def keep(self, vectors: Sequence[Vector]) -> float:
        """Store vectors under their index; gives the seconds it took.

        Raises:
            Failed: the store refuses.
        """
        points = [{"id": at, "vector": list(vector), "payload": {"passage": at}} for at, vector in enumerate(vectors)]
        path = f"{self.path}/points?wait=true"
        answer = self.server.ask("PUT", path, {"points": points}, wants_json=True)
        self.seen.append(self.server.evidence("PUT", path, {"points": points}, shown(answer.text)))
        return answer.seconds

    def nearest(self, query: Vector, limit: int, *, through: Server | None = None) -> tuple[tuple[int, float], ...]:
        """Indices and scores of the nearest, best first.

        Args:
            query: a vector.
            limit: how many.
            through: another node of the same cluster.

        Raises:
            Failed, Malformed: no usable answer.
        """
        server = through or self.server
        path = f"{self.path}/points/query"
        body = {"query": list(query), "limit": limit, "with_payload": True}
        answer = server.post(path, body)
        self.seen.append(server.evidence("POST", path, body, shown(answer.text)))
        try:
            return tuple((int(point["id"]), float(point["score"])) for point in answer.data["result"]["points"])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise Malformed(f"no points in {shown(answer.text)}") from None


@contextmanager
def collection(server: Server, size: int) -> Iterator[Collection]:
    """A throw-away collection for vectors of a size, deleted at the end of the block, also when the block fails or is
    interrupted.

    Raises:
        Failed: it cannot be made.
    """
    made = Collection(server, f"{PREFIX}{int(time.time())}-{secrets.token_hex(3)}")
    try:
        server.ask("PUT", made.path, {"vectors": {"size": size, "distance": "Cosine"}}, wants_json=True)
        yield made
    finally:
        made.left = _delete(server, made.path)


def _delete(server: Server, path: str) -> str | None:
    """Delete a collection; its name where it is still there or may be."""
    name = path.rpartition("/")[2]
    try:
        server.ask("DELETE", path)
        server.get(path)
    except Failed as failure:
        return None if failure.status == 404 else name
    return name


def sweep(server: Server) -> tuple[str, ...]:
    """Delete what killed runs of ours left behind; gives the names."""
    try:
        answer = server.get("/collections")
        names = [str(item["name"]) for item in answer.data["result"]["collections"]]
    except (Failed, KeyError, TypeError):
        return ()
    gone = []
    for name in sorted(names):
        made = name.removeprefix(PREFIX).partition("-")[0]
        old = name.startswith(PREFIX) and made.isdigit() and time.time() - int(made) > _OLD_SECONDS
        if old and _delete(server, f"/collections/{name}") is None:
            gone.append(name)
    return tuple(gone)


def about(server: Server) -> str:
    """ "Qdrant 1.19.0", or "Qdrant" where it does not say."""
    try:
        data = server.get("/").data
        return f"Qdrant {data['version']}"
    except (Failed, KeyError, TypeError):
        return "Qdrant"


def keep_and_find(server: Server, vectors: Sequence[Vector], query: Vector) -> Kept:
    """Store, search, forget.

    Raises:
        Failed, Malformed: a step has no usable answer; the collection is deleted all the same.
    """
    name = about(server)
    with collection(server, len(query)) as made:
        seconds = made.keep(vectors)
        started = time.monotonic()
        found = made.nearest(query, len(vectors))
        seconds += time.monotonic() - started
    return Kept(found, seconds, name, tuple(made.seen), made.left)


def seen_through(made: Collection, other: Server, query: Vector) -> tuple[tuple[int, float], ...]:
    """The nearest as another node finds them, which may hear of a new collection a little later.

    Raises:
        Failed, Malformed: it has no usable answer in time.
    """
    end = time.monotonic() + _SPREAD_SECONDS
    while True:
        try:
            found = made.nearest(query, 1, through=other)
        except Failed as failure:
            if failure.status != 404 or time.monotonic() > end:
                raise
            found = ()
        if found or time.monotonic() > end:
            return found
        time.sleep(0.5)
