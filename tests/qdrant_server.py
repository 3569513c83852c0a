"""A small vector store that speaks the part of Qdrant's HTTP API which verification uses, with its status codes and sentences.

Follows docs/redoc/master/openapi.json of qdrant/qdrant; the error sentences are those that Qdrant shows.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from ragstow.verification.vectors import cosine


@dataclass
class Store:
    """Collections by name, and how the server misbehaves: `fail` is a part of a path whose requests get `status`."""

    collections: dict[str, dict[str, Any]] = field(default_factory=dict)
    key: str | None = None
    fail: tuple[str, str] | None = None
    """(method, end of the path) that fails with 500."""
    slow: float = 0.0
    """Seconds before points are taken."""
    forgets: bool = False
    """Points are taken and not kept."""
    seen: list[tuple[str, str]] = field(default_factory=list)


class Qdrant(BaseHTTPRequestHandler):
    """One Qdrant node; `store` is shared by the nodes of a cluster."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    store: Store

    def do_GET(self) -> None:
        self._serve("GET")

    def do_PUT(self) -> None:
        self._serve("PUT")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _serve(self, method: str) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(raw) if raw else {}
        path = self.path.partition("?")[0]
        store = self.store
        store.seen.append((method, path))
        if path in ("/healthz", "/readyz", "/livez"):
            self._send(200, b"healthz check passed", "text/plain")
        elif store.key is not None and self.headers.get("api-key") != store.key:
            self._send(401, b"Must provide an API key or an Authorization bearer token", "text/plain")
        elif store.fail is not None and method == store.fail[0] and path.endswith(store.fail[1]):
            self._error(500, "Service internal error: No space left on device")
        elif path == "/":
            self._send(200, json.dumps({"title": "qdrant - vector search engine", "version": "1.19.0"}).encode())
        elif path == "/collections":
            self._result({"collections": [{"name": name} for name in sorted(store.collections)]})
        elif found := re.fullmatch(r"/collections/([^/]+)(/points(?:/query)?)?", path):
            self._collection(method, found[1], found[2] or "", body)
        else:
            self._send(404, b"")

    def _collection(self, method: str, name: str, rest: str, body: Any) -> None:
        held = self.store.collections
        if (method, rest) == ("PUT", ""):
            if name in held:
                self._error(409, f"Wrong input: Collection `{name}` already exists!")
                return
            held[name] = {"size": body["vectors"]["size"], "points": {}}
            self._result(True)
        elif (method, rest) == ("DELETE", ""):
            self._result(held.pop(name, None) is not None)
        elif name not in held:
            self._error(404, f"Not found: Collection `{name}` doesn't exist!")
        elif (method, rest) == ("PUT", "/points"):
            self._upsert(held[name], body["points"])
        elif (method, rest) == ("POST", "/points/query"):
            self._query(held[name], body)
        else:
            self._result({"status": "green", "points_count": len(held[name]["points"])})

    def _upsert(self, collection: dict[str, Any], points: list[dict[str, Any]]) -> None:
        time.sleep(self.store.slow)
        if self._wrong_size(collection, [point["vector"] for point in points]):
            return
        if not self.store.forgets:
            collection["points"].update({point["id"]: point for point in points})
        self._result({"operation_id": 0, "status": "completed"})

    def _query(self, collection: dict[str, Any], body: Any) -> None:
        if self._wrong_size(collection, [body["query"]]):
            return
        rows = [
            {"id": point["id"], "version": 0, "score": cosine(body["query"], point["vector"]), "payload": point.get("payload")}
            for point in collection["points"].values()
        ]
        best = sorted(rows, key=lambda row: (-row["score"], row["id"]))[: body.get("limit", 10)]
        self._result({"points": best if body.get("with_payload") else [{**row, "payload": None} for row in best]})

    def _wrong_size(self, collection: dict[str, Any], vectors: list[list[float]]) -> bool:
        wrong = [len(vector) for vector in vectors if len(vector) != collection["size"]]
        if wrong:
            self._error(400, f"Wrong input: Vector dimension error: expected dim: {collection['size']}, got {wrong[0]}")
        return bool(wrong)

    def _result(self, result: Any) -> None:
        self._send(200, json.dumps({"result": result, "status": "ok", "time": 0.001}).encode())

    def _error(self, status: int, text: str) -> None:
        self._send(status, json.dumps({"status": {"error": text}, "time": 0.001}).encode())

    def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def qdrant(store: Store) -> type[Qdrant]:
    """A handler for this store, for `endpoint_servers.listening`."""
    return type("Node", (Qdrant,), {"store": store})
