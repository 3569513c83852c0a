"""Servers that answer as engines do, for tests: an OpenAI-compatible one (LLM, embedder, reranker) and a TEI-compatible one.

They tell the truth: vectors are hashed bags of words, so texts that share words are near; ranks are shares of the question's
words; the language model answers with the passage that shares most words with the question. `Behaviour` makes them fail the
ways engines fail. Shapes follow the engines' API documents (vLLM, text-embeddings-inference docs/openapi.json, NIM).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIMENSION = 256
_HTML = b"<!doctype html><html><body>Welcome to nginx!</body></html>"


@dataclass
class Behaviour:
    """How a server behaves; what is not said is as it should be. May be changed while it runs.

    `busy` is how many requests from now on are answered 429, `loading` that the model is not there yet, `error` a status for
    every request that computes, `slow` seconds before an answer, `html` that something else answers, `broken` the index of a
    number that is not finite, `scale` what vectors are multiplied by, `constant` that every text has the same vector, `drift`
    that the same text never has the same vector, `swapped` that ranks are the wrong way round, `mute` that nothing is said,
    `lies` an answer instead of the right one, `thinks` that thoughts come before the answer, `chat` whether the model has a
    chat template, `key` what must be given as a bearer token.
    """

    model: str = "test/model"
    dimension: int = DIMENSION
    busy: int = 0
    loading: bool = False
    error: int = 0
    slow: float = 0.0
    html: bool = False
    broken: int | None = None
    scale: float = 1.0
    constant: bool = False
    drift: bool = False
    swapped: bool = False
    mute: bool = False
    lies: str | None = None
    thinks: bool = False
    chat: bool = True
    key: str | None = None
    paths: frozenset[str] | None = None
    """The only paths that exist; None: all."""
    seen: list[tuple[str, str]] = field(default_factory=list)
    """(method, path) of every request."""


def words(text: str) -> list[str]:
    """The words of a text, small letters."""
    return re.findall(r"[a-z0-9]+", text.lower())


def vector(text: str, dimension: int = DIMENSION) -> list[float]:
    """A hashed bag of words of length 1."""
    made = [0.0] * dimension
    for word in words(text):
        digest = hashlib.sha256(word.encode()).digest()
        made[int.from_bytes(digest[:4]) % dimension] += 1.0 if digest[4] % 2 else -1.0
    length = math.sqrt(sum(number * number for number in made)) or 1.0
    return [number / length for number in made]


def relevance(query: str, text: str) -> float:
    """The share of the query's words that are in the text."""
    asked = set(words(query))
    return len(asked & set(words(text))) / max(len(asked), 1)


def answer(prompt: str) -> str:
    """What the language model says: the line of the prompt that shares most words with its question; else the prompt's end."""
    lines = [line.strip() for line in prompt.splitlines() if line.strip()]
    question = next((line for line in reversed(lines) if "?" in line), "")
    passages = [line for line in lines if line != question and re.match(r"\[[0-9]+\]", line)]
    if not question or not passages:
        return f"You said: {lines[-1] if lines else ''}"
    return max(passages, key=lambda line: relevance(question, line))


class _Handler(BaseHTTPRequestHandler):
    """What both servers share."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    behaviour: Behaviour

    def do_GET(self) -> None:
        self._serve("GET", None)

    def do_POST(self) -> None:
        self._serve("POST", json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}"))

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _serve(self, method: str, body: Any) -> None:
        how = self.behaviour
        path = self.path.partition("?")[0]
        how.seen.append((method, path))
        if how.slow:
            time.sleep(how.slow)
        if how.html:
            self._send(200, _HTML, "text/html")
        elif how.key is not None and path != "/health" and self.headers.get("Authorization") != f"Bearer {how.key}":
            self.fail(401, "Unauthorized")
        elif how.loading:
            self.fail(503, "Loading model")
        elif method == "POST" and how.busy > 0:
            how.busy -= 1
            self.fail(429, "Model is overloaded")
        elif method == "POST" and how.error:
            self.fail(how.error, "CUDA out of memory")
        elif how.paths is not None and path not in how.paths:
            self.fail(404, "Not Found")
        elif method == "GET":
            self.look(path)
        else:
            self.compute(path, body)

    def look(self, path: str) -> None:
        raise NotImplementedError

    def compute(self, path: str, body: Any) -> None:
        raise NotImplementedError

    def fail(self, status: int, text: str) -> None:
        raise NotImplementedError

    def json(self, data: Any, status: int = 200) -> None:
        self._send(status, json.dumps(data).encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def vectors(self, texts: list[str]) -> list[list[float | None]]:
        """Of each text, spoiled as the behaviour says."""
        how = self.behaviour
        made: list[list[float | None]] = []
        for text in texts:
            row: list[float | None] = [number * how.scale for number in vector("same" if how.constant else text, how.dimension)]
            if how.drift:
                row = [*vector(f"{text} {len(how.seen)} {time.monotonic_ns()}", how.dimension)]
            if how.broken is not None:
                row[how.broken] = None
            made.append(row)
        return made

    def scores(self, query: str, texts: list[str]) -> list[float]:
        """Of each text, the other way round where the behaviour says so."""
        sign = -1 if self.behaviour.swapped else 1
        return [sign * relevance(query, text) for text in texts]

    def said(self, prompt: str) -> str:
        """The answer to a prompt."""
        how = self.behaviour
        text = "" if how.mute else how.lies if how.lies is not None else answer(prompt)
        return f"<think>The passages say: {prompt}</think>\n{text}" if how.thinks else text


class OpenAi(_Handler):
    """vLLM, SGLang, llama.cpp and NIM in what they share; NIM's own paths too."""

    def look(self, path: str) -> None:
        if path in ("/health", "/healthz", "/v1/health/ready"):
            self._send(200, b"")
        elif path in ("/v1/models", "/models"):
            self.json({"object": "list", "data": [{"id": self.behaviour.model, "object": "model", "owned_by": "test"}]})
        else:
            self.fail(404, "Not Found")

    def compute(self, path: str, body: Any) -> None:
        asked = body.get("model")
        if asked is not None and asked != self.behaviour.model:
            self.fail(404, f"The model `{asked}` does not exist.")
        elif path == "/v1/chat/completions":
            self._chat(body)
        elif path == "/v1/completions":
            self._answer("text_completion", {"text": self.said(body["prompt"])})
        elif path in ("/v1/embeddings", "/embeddings"):
            texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
            rows = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(self.vectors(texts))]
            self.json({"object": "list", "data": rows, "model": self.behaviour.model, "usage": {"prompt_tokens": 1}})
        elif path in ("/v1/rerank", "/rerank"):
            ranks = enumerate(self.scores(body["query"], body["documents"]))
            rows = [{"index": at, "relevance_score": score} for at, score in ranks]
            self.json({"id": "r", "model": self.behaviour.model, "results": sorted(rows, key=_worst_last)})
        elif path == "/v1/ranking":
            ranks = enumerate(self.scores(body["query"]["text"], [item["text"] for item in body["passages"]]))
            rows = [{"index": at, "logit": 10 * score - 5} for at, score in ranks]
            self.json({"rankings": sorted(rows, key=lambda row: -row["logit"])})
        else:
            self.fail(404, "Not Found")

    def _chat(self, body: Any) -> None:
        if not self.behaviour.chat:
            self.fail(400, "default chat template is no longer allowed, so you must provide a chat template")
            return
        self._answer(
            "chat.completion", {"message": {"role": "assistant", "content": self.said(body["messages"][-1]["content"])}}
        )

    def _answer(self, kind: str, choice: dict[str, Any]) -> None:
        usage = {"prompt_tokens": 10, "completion_tokens": 0 if self.behaviour.mute else 5}
        choices = [{"index": 0, "finish_reason": "stop", **choice}]
        self.json({"id": "c", "object": kind, "model": self.behaviour.model, "choices": choices, "usage": usage})

    def fail(self, status: int, text: str) -> None:
        self.json({"error": {"message": text, "type": "error", "code": status}}, status)


class Tei(_Handler):
    """Text Embeddings Inference, as its openapi.json says."""

    def look(self, path: str) -> None:
        if path == "/health":
            self._send(200, b"")
        elif path == "/info":
            name = self.behaviour.model
            self.json({"model_id": name, "served_model_name": name, "model_dtype": "float16", "version": "1.9.0"})
        else:
            self._send(404, b"")

    def compute(self, path: str, body: Any) -> None:
        if path == "/embed":
            texts = [body["inputs"]] if isinstance(body["inputs"], str) else body["inputs"]
            self.json(self.vectors(texts))
        elif path == "/rerank":
            ranks = enumerate(self.scores(body["query"], body["texts"]))
            self.json(sorted(({"index": at, "score": score} for at, score in ranks), key=_worst_last))
        else:
            self._send(404, b"")

    def fail(self, status: int, text: str) -> None:
        kind = {429: "Overloaded", 424: "Backend", 503: "Unhealthy"}.get(status, "Validation")
        self.json({"error": text, "error_type": kind}, status)


def _worst_last(row: dict[str, Any]) -> float:
    return -float(row.get("relevance_score", row.get("score", 0.0)))


class _Quiet(ThreadingHTTPServer):
    """A client that gives up is what some tests are about, and nothing to print."""

    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serve(kind: type[_Handler], behaviour: Behaviour) -> Iterator[int]:
    """A server on a free port of this machine for the time of the `with` block; gives the port."""
    with listening(type("Handler", (kind,), {"behaviour": behaviour})) as port:
        yield port


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Any handler on a free port, with `tls` over HTTPS."""
    server = _Quiet(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
