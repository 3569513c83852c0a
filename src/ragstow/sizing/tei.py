"""Text Embeddings Inference: weights, the peak of the warm-up batch, CUDA context.

TEI takes what it needs and has no cap; its warm-up runs the whole token budget, so the peak is reached at start. On cards with
flash attention the peak is that of one layer; without it every head keeps the scores of each sequence. Public logs are too
thin to check this (sizing reference 7): the band is wide and the result says unvalidated.
"""

from __future__ import annotations

from ragstow.errors import Reason
from ragstow.facts import Facts
from ragstow.sizing.model import ComponentSizing, Slot, Term
from ragstow.sizing.resolve import Resolved
from ragstow.sizing.units import band_of, mib, term
from ragstow.sizing.weights import plain_weights

_SOURCE = "text-embeddings-inference 1.9 backends/candle"
_HALF_BYTES = 2
# Input, residual, output and the flattened attention beside the widest product of a layer.
_HIDDEN_ROWS = 4
_QKV_ROWS = 6
_ACTIVATION_BAND = (0.6, 2.0)
# Scores and their softmax; the mask may be a third copy.
_SCORE_COPIES, _SCORE_BAND = 2, (0.9, 1.6)
_CONTEXT = Term("CUDA context", mib(460), "sizing reference 1.6 (0.4 to 0.5 GiB)", (mib(350), mib(700)), inside_budget=False)
_WORKSPACE = Term("cuBLAS workspace", mib(64), "cuBLASLt work areas (32 MiB each), estimated", (mib(16), mib(200)))


def tei(case: Resolved, slot: Slot, facts: Facts) -> ComponentSizing:
    """The sum for an encoder, a cross-encoder or a small decoder used for embeddings.

    Args:
        case: the component.
        slot: decides by its compute capability whether attention scores are kept (unknown: taken as a card that does not).
        facts: names of arguments.
    """
    tokens = case.component.max_batch_tokens or case.engine.max_batch_tokens or 16384
    weights = plain_weights(case.model, _dtype_bytes(case))
    terms = [
        Term(
            "weights",
            weights.bytes,
            f"parameters of {case.model.id} x {_dtype_bytes(case)} bytes ({case.model.source})",
            weights.band,
            "another model",
        ),
        _activation(case, tokens),
    ]
    if not _flash(case, slot):
        terms.append(_scores(case, tokens))
    terms += [_WORKSPACE, _CONTEXT]
    band = band_of(terms)
    inside = sum(item.bytes for item in terms if item.inside_budget)
    return ComponentSizing(
        name=case.component.name,
        engine=case.engine.name,
        version=case.version,
        gpu=slot.product,
        cards=1,
        capacity_bytes=slot.visible_bytes,
        terms=tuple(terms),
        weights_bytes=weights.bytes,
        kv_cache_bytes=0,
        kv_tokens=0,
        kv_bytes_per_request=0,
        budget_bytes=inside,
        total_bytes=sum(item.bytes for item in terms),
        band=band,
        validated=False,
        minimum_bytes=band[1],
        engine_args=_arguments(case, facts, tokens),
        notes=_notes(case, tokens),
        refusals=_refusals(case, slot),
    )


def _activation(case: Resolved, tokens: int) -> Term:
    model = case.model
    widest = max((3 if model.gated_mlp else 1) * (model.intermediate_size or 0), (_QKV_ROWS - _HIDDEN_ROWS) * model.hidden_size)
    return term(
        "activation",
        tokens * (widest + _HIDDEN_ROWS * model.hidden_size) * _dtype_bytes(case),
        f"{_SOURCE}: the widest step of one layer for {tokens} tokens",
        _ACTIVATION_BAND,
        lever="maxBatchTokens (--max-batch-tokens)",
    )


def _scores(case: Resolved, tokens: int) -> Term:
    length = min(case.model.max_position, tokens)
    return term(
        "attention scores",
        _SCORE_COPIES * case.model.heads * tokens * length * _dtype_bytes(case),
        f"{_SOURCE}: no flash attention on this card, sequences of {length} tokens (sizing reference 1.6)",
        _SCORE_BAND,
        lever="maxBatchTokens (--max-batch-tokens), a card of a newer generation",
    )


def _flash(case: Resolved, slot: Slot) -> bool:
    if slot.compute_capability is None or case.engine.flash_from is None:
        return True
    major, _, minor = case.engine.flash_from.partition(".")
    return case.dtype != "float32" and slot.compute_capability >= (int(major), int(minor))


def _dtype_bytes(case: Resolved) -> int:
    return 4 if case.component.given("dtype") and case.dtype == "float32" else _HALF_BYTES


def _arguments(case: Resolved, facts: Facts, tokens: int) -> tuple[str, ...]:
    serving = facts.serving.get(case.engine.name)
    if serving is None:
        return ()
    dtype = "float32" if _dtype_bytes(case) == 4 else "float16"
    listed = ((serving.flags.batch_tokens, str(tokens)), (serving.flags.dtype, dtype))
    return tuple(part for flag, value in listed if flag is not None for part in (flag, value))


def _notes(case: Resolved, tokens: int) -> tuple[str, ...]:
    notes = ["unvalidated: public measurements of TEI are too thin to check the sum against; the band is wide"]
    if case.model.max_position > tokens:
        notes.append(f"texts longer than {tokens} tokens are cut to that (maxBatchTokens)")
    if case.model.unverified:
        notes.append(f"{case.model.id}: not verified in a source: {', '.join(case.model.unverified)}")
    return tuple(notes)


def _refusals(case: Resolved, slot: Slot) -> tuple[Reason, ...]:
    found = []
    card = slot.product or "this card"
    if slot.compute_capability is not None:
        have = f"{slot.compute_capability[0]}.{slot.compute_capability[1]}"
        least = case.engine.min_compute_capability
        built = case.engine.compute_capabilities
        if least is not None and slot.compute_capability < _pair(least):
            text = f"{case.engine.title} needs compute capability {least}, {card} has {have}"
            found.append(Reason("compute-capability", text, "another product, or another engine"))
        elif built and have not in built:
            text = f"{case.engine.title} has no kernels for compute capability {have} ({card})"
            found.append(Reason("compute-capability", text, f"it has: {', '.join(built)}; or another engine"))
        if case.model.model_type in case.engine.flash_only_types and not _flash(case, slot):
            text = f"{case.engine.title} serves {case.model.model_type} models with flash attention only, {card} has none"
            found.append(Reason("compute-capability", text, f"a card of compute capability {case.engine.flash_from} or more"))
    return tuple(found)


def _pair(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)
