"""The sums against public logs: the bars, and what single logs say to the last digit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import sizing_truth as truth
from components import component
from ragstow.facts import load
from ragstow.sizing.kv import kv_layout
from ragstow.sizing.resolve import resolve

FACTS = load()
RUNS = list(truth.runs(FACTS))


def errors(measure: Callable[[truth.Run], float | None], keep: Callable[[truth.Run], bool]) -> dict[str, float]:
    return {run.id: abs(error) for run in RUNS if keep(run) and (error := measure(run)) is not None}


def mean(found: dict[str, float]) -> float:
    return sum(found.values()) / len(found)


def test_weights_of_text_models() -> None:
    found = errors(truth.weight_error, truth.is_text)
    assert len(found) >= 50
    assert mean(found) <= 0.002
    assert max(found.values()) <= 0.01


def test_tokens_given_the_bytes_of_the_cache() -> None:
    found = errors(truth.token_error, lambda _: True)
    assert len(found) >= 48
    assert mean(found) <= 0.0005
    assert max(found.values()) <= 0.0015


def test_cache_bytes_of_text_models_on_the_validated_engine() -> None:
    found = errors(truth.kv_error, lambda run: truth.is_text(run) and truth.since(run, "0.19"))
    assert len(found) >= 38
    assert mean(found) <= 0.005


def test_bands_of_the_validated_engine_hold_the_logs() -> None:
    """Weights, activation and memory outside torch lie in their bands; printed figures have two decimals."""
    columns = {"weights": "weights_gib_per_gpu", "activation": "activation_gib", "non-torch": "non_torch_gib"}
    checked = 0
    for run in RUNS:
        if not (run.behaviour.validated and truth.is_text(run)):
            continue
        for term in run.terms:
            logged = run.logged(columns[term.name]) if term.name in columns else None
            if logged is None or (term.name == "weights" and truth.weight_error(run) is None):
                continue
            checked += 1
            low, high = (bound / 2**30 for bound in term.band)
            assert low - 0.006 <= logged <= high + 0.006, (run.id, term.name, logged, low, high)
    assert checked >= 100


@pytest.mark.parametrize(("tokens", "expected"), [(8192, 15.88)])
def test_concurrency_of_a_model_with_windows(tokens: int, expected: float) -> None:
    """A log prints 48867 blocks and 15.88 requests of 8192 tokens for 8 full and 40 sliding layers."""
    model = FACTS.models.find("google/gemma-3-12b-it")
    assert model is not None
    layout = kv_layout(model, 2, 1)
    assert layout is not None
    assert layout.request_blocks(tokens, 8192) == 512 + 5 * 513
    assert round(48867 / layout.request_blocks(tokens, 8192), 2) == expected


def test_windows_save_memory_only_when_the_batch_is_shorter_than_the_context() -> None:
    model = FACTS.models.find("google/gemma-3-12b-it")
    assert model is not None
    layout = kv_layout(model, 2, 1)
    assert layout is not None
    assert layout.request_blocks(32768, 2048) < 0.3 * layout.request_blocks(32768, 32768)


def test_latent_attention_is_not_cut_over_cards() -> None:
    """46.80 GiB give 715,072 tokens on each of eight cards."""
    model = FACTS.models.find("moonshotai/Kimi-K2-Instruct")
    assert model is not None
    layout = kv_layout(model, 2, 8)
    assert layout is not None
    assert layout.bytes_per_token == 70272
    tokens = layout.tokens(int(46.80 * 2**30), 8192, 8192, FACTS.vllm.at("0.11"))
    assert tokens == pytest.approx(715072, rel=1e-4)


def test_heads_are_replicated_where_there_are_fewer_than_cards() -> None:
    """Eight cards and eight heads: one head a card; the log shows 464716 blocks a card."""
    model = FACTS.models.find("meta-llama/Llama-3.1-8B-Instruct")
    assert model is not None
    eight, sixteen = kv_layout(model, 2, 8), kv_layout(model, 2, 16)
    assert eight is not None
    assert sixteen is not None
    assert eight.bytes_per_token == 131072 / 8 == sixteen.bytes_per_token
    assert 464716 * 16 == 7435456


def test_a_model_without_a_published_total_is_counted_from_its_dimensions() -> None:
    case = resolve(component(model="Qwen/Qwen3-8B"), FACTS)
    counted = replace(case.model, params=None)
    from ragstow.sizing.tensors import parameters

    assert parameters(counted) == pytest.approx(parameters(case.model), rel=2e-4)
