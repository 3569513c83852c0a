"""Answers in the shapes that engines document, and what is no such answer."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstow.verification import answers, passages, vectors
from ragstow.verification.answers import Malformed

_KEYS = (
    "data", "id", "model_id", "choices", "message", "content", "text", "usage", "completion_tokens", "finish_reason",
    "embedding", "index", "results", "rankings", "score", "relevance_score", "logit",
)  # fmt: skip


def test_models_of_both_styles() -> None:
    assert answers.models({"object": "list", "data": [{"id": "a"}, {"id": "lora"}]}, "openai") == ("a", "lora")
    assert answers.models({"model_id": "BAAI/bge-m3", "served_model_name": "bge"}, "tei") == ("bge", "BAAI/bge-m3")


@pytest.mark.parametrize("data", [{}, [], None, {"data": []}, {"data": ["a"]}, {"data": {}}])
def test_no_models(data: Any) -> None:
    with pytest.raises(Malformed):
        answers.models(data, "openai")


def test_replies() -> None:
    body = {"choices": [{"message": {"content": " ready\n"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 2}}
    assert answers.chat(body) == answers.Reply("ready", 2, "stop")
    assert answers.completion({"choices": [{"text": "ready"}]}) == answers.Reply("ready", None, None)
    # A model whose thoughts are told apart has no content before it comes to an end.
    body = {"choices": [{"message": {"content": None}, "finish_reason": "length"}], "usage": {"completion_tokens": 32}}
    assert answers.chat(body) == answers.Reply("", 32, "length")


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("<think>is it SILVERPIKE?</think>\nAMBERFOX", "AMBERFOX"),
        ("is it SILVERPIKE?</think>AMBERFOX", "AMBERFOX"),
        ("<think>is it SILVERPIKE", ""),
    ],
)
def test_thoughts_are_no_answer(text: str, spoken: str) -> None:
    assert answers.chat({"choices": [{"message": {"content": text}}]}).text == spoken


@pytest.mark.parametrize(
    "data", [{}, {"choices": []}, {"choices": [{}]}, {"choices": [{"message": {"content": 3}}]}, "<html>", None]
)
def test_no_reply(data: Any) -> None:
    with pytest.raises(Malformed):
        answers.chat(data)


def test_vectors_keep_the_order_of_the_texts() -> None:
    data = {"data": [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1.5, 0]}]}
    assert answers.vectors(data, "openai", 2) == ((1.5, 0.0), (0.0, 1.0))
    assert answers.vectors([[1, 2], [3, 4]], "tei", 2) == ((1.0, 2.0), (3.0, 4.0))


def test_null_and_nan_are_no_numbers_that_count() -> None:
    (vector,) = answers.vectors(json.loads("[[1, null, NaN]]"), "tei", 1)
    assert vectors.broken(vector) == 2
    assert math.isnan(vectors.cosine(vector, vector))


@pytest.mark.parametrize("data", [[], [[1]], [["a"], [1]], [[True], [1]], {"data": [[1], [2]]}, [None, [1]]])
def test_no_vectors(data: Any) -> None:
    with pytest.raises(Malformed):
        answers.vectors(data, "tei", 2)


@pytest.mark.parametrize(
    "data",
    [
        [{"index": 1, "score": 0.9}, {"index": 0, "score": 0.1}],
        [{"index": 0, "score": 0.1, "document": "a"}, {"index": 1, "score": [0.9]}],
        {"results": [{"index": 0, "relevance_score": 0.1, "document": {"text": "a"}}, {"index": 1, "relevance_score": 0.9}]},
        {"rankings": [{"index": 1, "logit": 0.9}, {"index": 0, "logit": 0.1}]},
    ],
)
def test_ranking_in_every_spelling(data: Any) -> None:
    assert answers.ranking(data, 2) == ((1, 0.9), (0, 0.1))


@pytest.mark.parametrize(
    "data", [[], {}, [{"index": 0, "score": 1}], [{"index": 0, "score": 1}, {"index": 0, "score": 2}], [{"index": 0}] * 2]
)
def test_no_ranking(data: Any) -> None:
    with pytest.raises(Malformed):
        answers.ranking(data, 2)


def test_length_and_cosine() -> None:
    assert vectors.normalised((0.6, 0.8))
    assert not vectors.normalised((0.6, 0.9))
    assert vectors.cosine((1, 0), (0, 2)) == 0
    assert vectors.cosine((1, 2), (2, 4)) == pytest.approx(1)
    assert math.isnan(vectors.cosine((0, 0), (1, 0)))
    assert math.isnan(vectors.cosine((1,), (1, 0)))


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("AMBERFOX", True),
        ("The code word is **AmberFox**.", True),
        ("SILVERPIKE", False),
        ("AMBERFOX or SILVERPIKE", False),
        ("", False),
        ("I do not know.", False),
    ],
)
def test_an_answer_cites_the_right_passage_only(answer: str, right: bool) -> None:
    assert passages.cites(answer) is right


def test_each_code_word_is_in_one_passage_and_not_in_the_question() -> None:
    for passage in passages.PASSAGES:
        assert [passage.word in other.text for other in passages.PASSAGES].count(True) == 1
        assert passage.word not in passages.QUESTION
    assert passages.prompt(["a", "b"]).index("[1] a") < passages.prompt(["a", "b"]).index("[2] b")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(_JSON)
def test_whatever_comes_is_read_or_malformed(data: Any) -> None:
    readers: list[Callable[[], object]] = [
        lambda: answers.models(data, "openai"),
        lambda: answers.models(data, "tei"),
        lambda: answers.chat(data),
        lambda: answers.completion(data),
        lambda: answers.vectors(data, "openai", 1),
        lambda: answers.vectors(data, "tei", 1),
        lambda: answers.ranking(data, 1),
    ]
    for reader in readers:
        with suppress(Malformed):
            reader()


def test_a_number_beyond_floats_is_not_finite() -> None:
    (vector,) = answers.vectors([[10**400]], "tei", 1)
    assert vectors.broken(vector) == 1
