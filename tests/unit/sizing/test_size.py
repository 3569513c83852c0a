"""Budgets of components on slots: whole cards, slices, shares; refusals; arguments."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components import component, embedder
from ragstow.errors import InputError
from ragstow.facts import load
from ragstow.sizing import ComponentSizing, Slot, size, size_pinned, slot_of
from ragstow.sizing.units import GIB, MIB, allocated, band_of, term
from ragstow.spec.model import GIVEN, Component, Footprint

FACTS = load()


def card(product: str, *, shared: bool = False) -> Slot:
    gpu = FACTS.gpus.find(product)
    assert gpu is not None
    return slot_of(gpu, FACTS, shared=shared)


def sized(asked: Component, slot: Slot) -> ComponentSizing:
    answer = size(asked, slot, FACTS)
    assert answer is not None
    return answer


def argument(answer: ComponentSizing, name: str) -> str | None:
    args = list(answer.engine_args)
    return args[args.index(name) + 1] if name in args else None


def test_a_whole_card_is_told_a_fraction_and_reserves_it() -> None:
    slot = card("NVIDIA-A100-SXM4-40GB")
    answer = sized(component(version="0.33.0"), slot)
    assert answer.fits
    assert answer.budget is not None
    assert answer.budget.gpu_memory_utilization == 0.92
    assert answer.budget_bytes == pytest.approx(0.92 * slot.visible_bytes, abs=2)
    assert argument(answer, "--gpu-memory-utilization") == "0.92"
    assert argument(answer, "--kv-cache-memory-bytes") is None
    inside = sum(item.bytes for item in answer.terms if item.inside_budget)
    assert inside == answer.budget_bytes
    assert answer.total_bytes == sum(item.bytes for item in answer.terms)
    assert answer.kv_cache_bytes > 16 * answer.kv_bytes_per_request
    assert answer.kv_bytes_per_request == 8192 * 57344


def test_a_share_is_told_pinned_bytes_and_asks_only_for_what_it_needs() -> None:
    slot = card("NVIDIA-A10G", shared=True)
    asked = component(version="0.33.0", context=4096, concurrency=8)
    answer = sized(asked, slot)
    assert answer == size_pinned(asked, slot, FACTS)
    assert answer.budget is not None
    assert answer.budget.kv_cache_memory_bytes == answer.kv_cache_bytes
    assert argument(answer, "--kv-cache-memory-bytes") == str(answer.kv_cache_bytes)
    # The start-up check asks for this fraction of the card to be free, not for the engine's default.
    share = float(argument(answer, "--gpu-memory-utilization") or 0)
    assert answer.budget_bytes <= share * slot.visible_bytes < answer.budget_bytes + 2.5 * GIB
    assert answer.total_bytes < 19 * GIB
    assert answer.kv_cache_bytes == 8 * answer.kv_bytes_per_request + 16 * 57344


def test_old_engines_without_pinned_bytes_get_a_fraction_of_the_least_budget() -> None:
    answer = size_pinned(component(version="0.10.2", context=2048, concurrency=2), card("NVIDIA-A10G"), FACTS)
    assert answer is not None
    assert answer.budget is not None
    assert answer.budget.kv_cache_memory_bytes is None
    assert argument(answer, "--kv-cache-memory-bytes") is None


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 64), st.integers(256, 16384), st.sampled_from([1, 2, 4]))
def test_the_least_memory_is_enough_and_grows_with_what_is_asked(concurrency: int, context: int, cards: int) -> None:
    asked = component(concurrency=concurrency, context=context, tensor_parallel=cards)
    least = size_pinned(asked, Slot(80 * GIB), FACTS)
    assert least is not None
    assert sized(asked, Slot(least.minimum_bytes)).fits
    assert not sized(asked, Slot(least.minimum_bytes - 1)).fits
    more = size_pinned(replace(asked, concurrency=concurrency + 1), Slot(80 * GIB), FACTS)
    longer = size_pinned(replace(asked, context=context + 512), Slot(80 * GIB), FACTS)
    assert more is not None
    assert longer is not None
    assert least.minimum_bytes < more.minimum_bytes
    assert least.minimum_bytes < longer.minimum_bytes
    assert least.band[0] <= least.total_bytes <= least.band[1] == least.minimum_bytes


def test_where_the_wanted_requests_do_not_fit_beside_many_sequences_there_are_fewer() -> None:
    asked = component(version="0.33.0", context=4096, concurrency=2)
    roomy, tight = sized(asked, Slot(80 * GIB)), sized(asked, Slot(round(16.9 * GIB)))
    assert argument(roomy, "--max-num-seqs") == "256"
    assert argument(tight, "--max-num-seqs") == "2"


def test_batch_limits_follow_the_card_as_the_engine_does() -> None:
    asked = component(version="0.33.0")
    limit = "--max-num-batched-tokens"
    assert argument(sized(asked, card("NVIDIA-H100-80GB-HBM3")), limit) == "8192"
    assert argument(sized(asked, card("NVIDIA-A100-SXM4-80GB")), limit) == "2048"
    assert argument(sized(asked, card("NVIDIA-A10G")), limit) == "2048"
    assert argument(sized(replace(asked, max_batch_tokens=4096), card("NVIDIA-A10G")), limit) == "4096"


def test_cards_without_bfloat16_get_float16_and_old_cards_are_refused() -> None:
    asked = component(version="0.33.0", model="Qwen/Qwen2.5-1.5B-Instruct", context=2048, concurrency=2)
    assert argument(sized(asked, card("Tesla-T4")), "--dtype") == "float16"
    assert argument(sized(asked, card("NVIDIA-A10G")), "--dtype") is None
    volta = sized(asked, Slot(31 * GIB, "an older card", (7, 0)))
    assert [reason.code for reason in volta.refusals] == ["compute-capability"]
    assert not volta.fits


def test_precisions_make_weights_and_cache_smaller_and_are_told_to_the_engine() -> None:
    slot = card("NVIDIA-L4")
    plain = sized(component(), slot)
    fp8 = sized(component(quantization="fp8", kv_cache_dtype="fp8", origins={"quantization": GIVEN}), slot)
    awq = sized(component(model="Qwen/Qwen2.5-7B-Instruct-AWQ"), slot)
    assert plain.weights_bytes / GIB == pytest.approx(14.25, abs=0.01)
    assert fp8.weights_bytes / GIB == pytest.approx(8.14, abs=0.01)
    assert awq.weights_bytes < 0.4 * plain.weights_bytes
    assert fp8.kv_bytes_per_request * 2 == plain.kv_bytes_per_request
    assert argument(fp8, "--quantization") == "fp8"
    assert argument(fp8, "--kv-cache-dtype") == "fp8"
    # The checkpoint says it itself.
    assert argument(awq, "--quantization") is None


def test_tensor_parallel_cuts_weights_and_cache_and_needs_divisible_heads() -> None:
    slot = card("NVIDIA-H100-80GB-HBM3")
    one, two = sized(component(), slot), sized(component(tensor_parallel=2), slot)
    assert two.cards == 2
    assert two.weights_bytes == pytest.approx(one.weights_bytes / 2, rel=0.01)
    assert argument(two, "--tensor-parallel-size") == "2"
    assert [reason.code for reason in sized(component(tensor_parallel=3), slot).refusals] == ["tensor-parallel"]


def test_an_embedder_keeps_no_cache_and_the_peak_follows_the_token_budget() -> None:
    slot = card("NVIDIA-A100-SXM4-40GB")
    answer = sized(embedder(), slot)
    small = sized(embedder(max_batch_tokens=8192), slot)
    assert answer.kv_cache_bytes == 0
    assert answer.budget is None
    assert not answer.validated
    assert answer.weights_bytes == 567754752 * 2
    assert small.total_bytes < answer.total_bytes
    assert argument(answer, "--max-batch-tokens") == "16384"
    assert {item.name for item in answer.terms} == {"weights", "activation", "cuBLAS workspace", "CUDA context"}


def test_cards_without_flash_attention_keep_the_scores() -> None:
    """Two sequences of 8192 tokens and 16 heads: 4 GiB of scores and as much again, on a card of 7.5 (public report)."""
    answer = sized(embedder(), card("Tesla-T4"))
    scores = next(item for item in answer.terms if item.name == "attention scores")
    assert scores.bytes == pytest.approx(8 * GIB, rel=0.01)
    assert answer.minimum_bytes > 10 * GIB
    assert sized(embedder(max_batch_tokens=2048), card("Tesla-T4")).minimum_bytes < 3 * GIB


def test_decoder_embedders_run_only_where_the_engine_has_flash_attention() -> None:
    asked = embedder(model="Alibaba-NLP/gte-Qwen2-7B-instruct", max_batch_tokens=4096)
    assert sized(asked, card("Tesla-T4")).refusals
    assert not sized(asked, card("NVIDIA-A10G")).refusals


def test_an_engine_is_refused_on_cards_that_it_has_no_kernels_for() -> None:
    (reason,) = sized(embedder(), Slot(200 * GIB, "a newer card", (10, 3))).refusals
    assert "10.3" in reason.text
    assert "10.0" in reason.hint
    assert not sized(embedder(), Slot(200 * GIB, "a card", (10, 0))).refusals


def test_pooling_on_vllm_has_a_cache_for_decoders_and_none_for_encoders() -> None:
    slot = card("NVIDIA-L4", shared=True)
    decoder = sized(embedder(engine="vllm", version="0.33.0", model="Qwen/Qwen3-Embedding-0.6B", context=4096), slot)
    encoder = sized(embedder(engine="vllm", version="0.33.0", context=4096), slot)
    assert decoder.kv_cache_bytes > 0
    assert encoder.kv_cache_bytes == 0
    assert encoder.budget is not None
    assert encoder.budget.gpu_memory_utilization is not None
    assert encoder.budget.gpu_memory_utilization < 0.4
    for answer in (decoder, encoder):
        assert answer.engine_args[-2:] == ("--runner", "pooling")


def test_a_footprint_is_taken_as_it_is() -> None:
    asked = component(engine="nim", model=None, footprint=Footprint(3600, 1))
    answer = sized(asked, Slot(24 * GIB))
    assert answer.total_bytes == answer.minimum_bytes == 3600 * MIB
    assert answer.fits


def test_components_without_gpu_have_no_sizing() -> None:
    assert size(component(name="vectors", role="vector-store", engine="qdrant", gpu="never"), Slot(GIB), FACTS) is None


@pytest.mark.parametrize(
    ("changes", "code", "hint"),
    [
        ({"model": "Qwen/Qwen2.5-7B-Instuct"}, "model-unknown", "Qwen/Qwen2.5-7B-Instruct"),
        ({"model": "deepseek-ai/DeepSeek-V4-Flash"}, "model-unsizable", "footprint"),
        ({"quantization": "q4_k_m"}, "precision-unknown", ""),
        ({"engine": "vlm"}, "engine-unknown", ""),
        ({"model": None}, "model-missing", "footprint"),
    ],
)
def test_what_the_facts_do_not_know_is_an_error_with_a_hint(changes: dict[str, str | None], code: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        size(component(**changes), Slot(GIB), FACTS)
    assert caught.value.code == code
    assert hint in caught.value.hint


def test_every_usable_model_can_be_summed_on_some_engine() -> None:
    for model in FACTS.models.rows:
        if model.unsizable is not None:
            continue
        asked = component(model=model.id, role=model.role, version="0.33.0", context=512, concurrency=1)
        answer = size_pinned(asked, Slot(80 * GIB, compute_capability=(9, 0)), FACTS)
        assert answer is not None
        assert answer.weights_bytes > 0, model.id
        assert (answer.kv_bytes_per_request > 0) != model.encoder, model.id


def test_terms_have_names_sources_and_bands_around_them() -> None:
    for answer in (sized(component(), card("NVIDIA-L40S")), sized(embedder(), card("NVIDIA-L40S"))):
        assert len({item.name for item in answer.terms}) == len(answer.terms)
        for item in answer.terms:
            assert item.source
            assert item.band[0] <= item.bytes <= item.band[1]


def test_allocation_steps_of_large_tensors() -> None:
    assert allocated(271581184) == 260 * MIB  # 259 MiB: the odd MiB is not split off
    assert allocated(51380224 // 2) == 51380224 // 2  # 24.5 MiB: 1.5 MiB go back
    assert allocated(1000) == 1024


def test_bands_of_a_sum_add_as_squares() -> None:
    three, four = term("a", 100, "s", (0.97, 1.03)), term("b", 100, "s", (0.96, 1.04))
    assert band_of((three, four)) == (195, 205)
