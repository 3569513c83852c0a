"""The questions that engines are asked: requests in the engine's shape, answers as values, nothing judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragstow.facts.endpoints import Endpoints
from ragstow.live.endpoints.http import Failed, Server
from ragstow.verification import answers
from ragstow.verification.answers import Reply, Vector
from ragstow.verification.model import Evidence

_PASSAGE, _QUERY = "passage", "query"


@dataclass(frozen=True, slots=True)
class Said:
    """A language model's reply, how long it took, and the request that gives it again."""

    reply: Reply
    seconds: float
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of some texts."""

    vectors: tuple[Vector, ...]
    seconds: float
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Ranked:
    """The order of some texts, best first, with scores."""

    ranking: tuple[tuple[int, float], ...]
    seconds: float
    evidence: Evidence


def chat(server: Server, path: str, model: str | None, prompt: str, max_tokens: int) -> Said:
    """One user message through chat completions, at temperature 0."""
    body = _request(model, {"messages": [{"role": "user", "content": prompt}], "max_tokens": max_tokens, "temperature": 0})
    answer = server.post(path, body)
    reply = answers.chat(answer.data)
    return Said(reply, answer.seconds, server.evidence("POST", path, body, reply.text or answers.shown(answer.text)))


def complete(server: Server, path: str, model: str | None, prompt: str, max_tokens: int) -> Said:
    """A prompt through completions, at temperature 0."""
    body = _request(model, {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0})
    answer = server.post(path, body)
    reply = answers.completion(answer.data)
    return Said(reply, answer.seconds, server.evidence("POST", path, body, reply.text or answers.shown(answer.text)))


def embed(server: Server, paths: Endpoints, model: str | None, texts: Sequence[str], *, query: bool = False) -> Embedded:
    """The vectors of texts.

    Args:
        server: whom to ask.
        paths: the engine's, with `embed`.
        model: the name to ask for.
        texts: at least one.
        query: whether they are questions, for models that tell questions from passages.

    Raises:
        Failed, Malformed: no usable answer.
    """
    call = paths.embed
    assert call is not None
    body: dict[str, Any]
    if call.style == "tei":
        body = {"inputs": list(texts), "truncate": True}
    else:
        body = _request(model, {"input": list(texts)})
        if call.input_type:
            body["input_type"] = _QUERY if query else _PASSAGE
    answer = server.post(call.path, body)
    vectors = answers.vectors(answer.data, call.style, len(texts))
    seen = f"{len(vectors)} vectors of {len(vectors[0])} numbers, the first begins {_beginning(vectors[0])}"
    return Embedded(vectors, answer.seconds, server.evidence("POST", call.path, body, seen))


def rerank(server: Server, paths: Endpoints, model: str | None, query: str, texts: Sequence[str]) -> Ranked:
    """Texts in the order in which they answer a query.

    Raises:
        Failed, Malformed: no usable answer.
    """
    call = paths.rerank
    assert call is not None
    body: dict[str, Any]
    if call.style == "texts":
        body = {"query": query, "texts": list(texts)}
    elif call.style == "passages":
        body = _request(model, {"query": {"text": query}, "passages": [{"text": text} for text in texts]})
    else:
        body = _request(model, {"query": query, "documents": list(texts)})
    answer = server.post(call.path, body)
    ranking = answers.ranking(answer.data, len(texts))
    return Ranked(ranking, answer.seconds, server.evidence("POST", call.path, body, answers.shown(answer.text)))


def without_chat(failure: Failed) -> bool:
    """Whether a refusal of chat means that the model has no chat template, or the engine no such path."""
    return failure.status in (404, 405, 501) or (failure.status == 400 and "chat template" in failure.text.lower())


def no_path(failure: Failed) -> bool:
    """Whether the engine has no such path (a 404 that is not about the name of the model)."""
    return failure.status in (405, 501) or (failure.status == 404 and "model" not in failure.text.lower())


def _request(model: str | None, body: Mapping[str, Any]) -> dict[str, Any]:
    return {**({"model": model} if model else {}), **body}


def _beginning(vector: Vector) -> str:
    return "[" + ", ".join(f"{number:.4g}" for number in vector[:3]) + ", ...]"
