"""Models, precisions and engines: what the tables must hold for the sums to be right."""

from __future__ import annotations

import pytest

from ragstow.facts import load
from ragstow.facts.models import Model

FACTS = load()
MODELS = FACTS.models


def dense_parameters(model: Model) -> int:
    """The count of a plain decoder from its dimensions (sizing reference 1.2)."""
    assert model.intermediate_size is not None
    bias = (model.heads + 2 * model.kv_heads) * model.head_dim if model.model_type == "qwen2" else 0
    attention = 2 * model.hidden_size * (model.heads + model.kv_heads) * model.head_dim
    layer = attention + 3 * model.hidden_size * model.intermediate_size + 2 * model.hidden_size + bias
    ends = model.vocab_size * model.hidden_size * (1 if model.tied_embeddings else 2)
    return model.layers * layer + model.hidden_size + ends


@pytest.mark.parametrize(
    "model",
    [
        row
        for row in MODELS.rows
        if row.role == "llm"
        and row.model_type in ("llama", "qwen2", "qwen3", "mistral", "internlm3", "phi3")
        and row.modality == "text"
    ],
    ids=lambda row: row.id,
)
def test_parameters_of_dense_decoders_follow_from_the_dimensions(model: Model) -> None:
    assert model.params is not None
    assert dense_parameters(model) == pytest.approx(model.params, rel=2e-4)


def test_the_table_is_wide_enough() -> None:
    usable = [row for row in MODELS.rows if row.unsizable is None]
    assert len(usable) >= 140
    assert {row.role for row in usable} == {"llm", "embedder", "reranker"}


def test_names_are_found_in_any_case_and_variants_carry_their_precision() -> None:
    base = MODELS.find("meta-llama/llama-3.1-8b-instruct")
    assert base is not None
    assert base.id == "meta-llama/Llama-3.1-8B-Instruct"
    variant = MODELS.find("redhatai/meta-llama-3.1-8b-instruct-quantized.W8A8")
    assert variant is not None
    assert (variant.quantization, variant.dtype, variant.layers) == ("int8", "float16", base.layers)
    assert MODELS.find("nobody/nothing") is None
    assert "Qwen/Qwen2.5-7B-Instruct" in MODELS.near("qwen2.5-7b-instuct")


def test_every_variant_and_quantization_exists() -> None:
    for variant in MODELS.variants:
        assert MODELS.find(variant.id) is not None, variant.base
    schemes = {row.id: row.quantization for row in MODELS.rows} | {row.id: row.quantization for row in MODELS.variants}
    for name, scheme in schemes.items():
        assert scheme is None or FACTS.quantizations.find(scheme) is not None, name


def test_every_role_has_defaults_and_its_engine_serves_it() -> None:
    engines = FACTS.engines
    assert list(engines.roles) == ["llm", "embedder", "reranker", "vector-store", "ingest", "gateway"]
    for role, row in engines.roles.items():
        if row.engine is not None:
            engine = engines.find(row.engine)
            assert engine is not None
            assert role in engine.roles
        else:
            assert row.needs_image


def test_versions_choose_the_range_they_belong_to() -> None:
    vllm = FACTS.vllm
    assert vllm.at("0.11.2").since == "0.11"
    assert vllm.at("0.19.0").since == "0.18"
    assert vllm.at("v0.33.0").since == "0.28"
    assert vllm.at("0.0.1").since == vllm.rows[0].since
    assert vllm.at("0.19.0").validated
    assert not vllm.at("0.33.0").validated


def test_engines_that_can_be_run_without_an_image_of_ones_own_have_a_version_for_it() -> None:
    for serving in FACTS.serving.rows:
        engine = FACTS.engines.find(serving.engine)
        assert engine is not None, serving.engine
        assert engine.newest is not None, serving.engine
        assert "{" not in (serving.image_for(engine.newest, "8.0") or "{"), serving.engine
