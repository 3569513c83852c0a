"""The answers of engines, read: which models, what text, which vectors, which order. No network: JSON in, values out.

Every reader raises `Malformed` with a sentence about what is not as the engine's documentation has it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Vector = tuple[float, ...]

_SHOWN = 120
# What a reasoning model says to itself; where the opening tag is part of the prompt only the closing one is in the answer.
_THOUGHT = re.compile(r"(?s)^.*</think>")
_UNFINISHED = re.compile(r"(?s)<think>.*$")


class Malformed(ValueError):
    """An answer that is not of the documented shape."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a language model said: `text` without its thoughts, `tokens` of the answer (None: not told), and why it stopped."""

    text: str
    tokens: int | None
    finish: str | None


def models(data: Any, style: str) -> tuple[str, ...]:
    """The names under which models are served.

    Args:
        data: the JSON.
        style: `openai` or `tei`, as the facts say.
    """
    if style == "tei":
        info = _mapping(data, "the model's info")
        names = [info.get("served_model_name"), info.get("model_id")]
    else:
        names = [_mapping(item, "a model").get("id") for item in _list(_mapping(data, "a list of models").get("data"), "data")]
    found = tuple(dict.fromkeys(str(name) for name in names if name))
    if not found:
        raise Malformed(f"no model is named in {shown(data)}")
    return found


def chat(data: Any) -> Reply:
    """The first choice of /v1/chat/completions."""
    choice = _choice(data)
    message = _mapping(choice.get("message"), "choices[0].message")
    return _reply(data, choice, message.get("content") or "")


def completion(data: Any) -> Reply:
    """The first choice of /v1/completions."""
    choice = _choice(data)
    return _reply(data, choice, choice.get("text") or "")


def vectors(data: Any, style: str, count: int) -> tuple[Vector, ...]:
    """The vectors of `count` texts, in their order; a number that JSON cannot say (null, NaN) is NaN.

    Args:
        data: the JSON.
        style: `openai` or `tei`.
        count: how many texts were sent.
    """
    if style == "tei":
        rows = _list(data, "the answer")
    else:
        items = [_mapping(item, "data[]") for item in _list(_mapping(data, "the answer").get("data"), "data")]
        rows = [item.get("embedding") for item in sorted(items, key=lambda item: _index(item.get("index", 0)))]
    if len(rows) != count:
        raise Malformed(f"{len(rows)} vectors for {count} texts")
    return tuple(_vector(row) for row in rows)


def ranking(data: Any, count: int) -> tuple[tuple[int, float], ...]:
    """(index of the text, score) for each of `count` texts, best first.

    The spellings known: a bare list (TEI, SGLang), `results` (Cohere, Jina, vLLM, infinity, llama.cpp), `rankings` (NIM).
    """
    body = data
    if isinstance(data, Mapping):
        body = data.get("results", data.get("rankings"))
    items = [_mapping(item, "a rank") for item in _list(body, "the ranking")]
    found = [(_index(item.get("index")), _score(item)) for item in items]
    if sorted(index for index, _ in found) != list(range(count)):
        raise Malformed(f"{len(found)} ranks for {count} texts, indices {sorted(index for index, _ in found)}")
    return tuple(sorted(found, key=lambda pair: (-pair[1], pair[0])))


def shown(data: Any) -> str:
    """A piece of an answer for a message, on one line and short."""
    text = " ".join(str(data).split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _choice(data: Any) -> Mapping[str, Any]:
    choices = _list(_mapping(data, "the answer").get("choices"), "choices")
    if not choices:
        raise Malformed("choices is empty")
    return _mapping(choices[0], "choices[0]")


def _reply(data: Mapping[str, Any], choice: Mapping[str, Any], text: Any) -> Reply:
    if not isinstance(text, str):
        raise Malformed(f"the text is {shown(text)}")
    usage = data.get("usage")
    tokens = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    finish = choice.get("finish_reason")
    spoken = _UNFINISHED.sub("", _THOUGHT.sub("", text)).strip()
    return Reply(spoken, tokens if isinstance(tokens, int) else None, finish if isinstance(finish, str) else None)


def _vector(row: Any) -> Vector:
    numbers = _list(row, "a vector")
    if not all(number is None or (isinstance(number, int | float) and not isinstance(number, bool)) for number in numbers):
        raise Malformed(f"a vector holds what is no number: {shown(numbers)}")
    return tuple(_number(number) for number in numbers)


def _number(value: int | float | None) -> float:
    if value is None:
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _score(item: Mapping[str, Any]) -> float:
    for key in ("relevance_score", "score", "logit"):
        value = item.get(key)
        # A cross encoder with one output may give its score as a list of one.
        if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 1:
            value = value[0]
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _number(value)
    raise Malformed(f"a rank without a score: {shown(dict(item))}")


def _index(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Malformed(f"an index is {shown(value)}")
    return value


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Malformed(f"{what} is no object: {shown(value)}")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise Malformed(f"{what} is no list: {shown(value)}")
    return value
