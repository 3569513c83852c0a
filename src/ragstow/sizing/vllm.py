"""vLLM: the chain from the memory of a slot to cache tokens, and back from requests to the least budget.

vLLM takes a fraction of the slot's *total* memory, loads, profiles, and gives what is left to the cache; or the cache is
pinned in bytes, and then the footprint does not depend on neighbours. `on_whole_slot` answers the first, `pinned` the second;
both also say the arguments that make it so. A fraction always means what the engine reserves, never what it would need.
"""

from __future__ import annotations

from math import ceil, floor

from ragstow.errors import Reason
from ragstow.facts import Facts
from ragstow.facts.vllm import VllmRange
from ragstow.sizing.kv import KvLayout, kv_layout
from ragstow.sizing.model import Budget, ComponentSizing, Slot, Term
from ragstow.sizing.resolve import Resolved
from ragstow.sizing.units import GIB, MIB, band_of
from ragstow.sizing.vllm_args import arguments
from ragstow.sizing.vllm_terms import (
    activation_term,
    context_term,
    graphs_term,
    multimodal_term,
    non_torch_term,
    weights_term,
)

_PREFERRED_SEQUENCES = 256
"""Requests at once that a whole card is set up for where memory allows it; more would mostly cost sampling memory."""

_LEAST_BATCH_TOKENS = 2048
"""The engine's own batch on small cards; the least budget uses it everywhere."""

_FREE_BYTES = 256 * MIB
"""Left free above the engine's own share, so that a fraction fits whatever the driver keeps."""


def on_whole_slot(case: Resolved, slot: Slot, facts: Facts) -> ComponentSizing:
    """The sum where the engine has the slot for itself and is told a fraction of it.

    Uses the engine's batch for such a card and up to 256 sequences; where the cache would then be too small for the wanted
    requests, the least settings that serve them.
    """
    behaviour = facts.vllm.at(case.version)
    least = pinned(case, slot, facts)
    wanted = max(case.concurrency, _PREFERRED_SEQUENCES)
    for sequences, batch_tokens in (
        (wanted, _batch_tokens(case, behaviour, slot)),
        (case.concurrency, case.component.max_batch_tokens or _LEAST_BATCH_TOKENS),
    ):
        answer = _fraction(case, slot, facts, behaviour, sequences, batch_tokens, least)
        needed = answer.kv_bytes_per_request * case.concurrency
        if answer.kv_cache_bytes >= needed:
            return answer
    return answer


def pinned(case: Resolved, slot: Slot, facts: Facts) -> ComponentSizing:
    """The least budget: cache bytes for exactly the wanted requests, whatever the slot; its upper end is `minimum_bytes`."""
    behaviour = facts.vllm.at(case.version)
    sequences = case.concurrency
    batch_tokens = case.component.max_batch_tokens or _LEAST_BATCH_TOKENS
    if not behaviour.chunked_prefill:
        batch_tokens = max(batch_tokens, case.context)
    layout = _layout(case)
    request = layout.request_bytes(case.context, batch_tokens) if layout else 0
    # One block is never given out (the null block of vLLM's block pool).
    cache = request * sequences + (layout.block_bytes if layout else 0)
    terms = [*terms_of(case, behaviour, sequences, batch_tokens)]
    if layout:
        terms.append(_cache_term(cache, (cache, cache)))
    inside = sum(item.bytes for item in terms if item.inside_budget)
    band = band_of(terms)
    budget = Budget(kv_cache_memory_bytes=cache) if layout and behaviour.pinned_kv else None
    upper_inside = band_of(item for item in terms if item.inside_budget)[1]
    share = min(0.99, ceil(1000 * upper_inside / max(1, slot.visible_bytes)) / 1000)
    if budget is None:
        budget = Budget(gpu_memory_utilization=share)
    return ComponentSizing(
        name=case.component.name,
        engine=case.engine.name,
        version=case.version,
        gpu=slot.product,
        cards=case.cards,
        capacity_bytes=slot.visible_bytes,
        terms=tuple(terms),
        weights_bytes=terms[0].bytes,
        kv_cache_bytes=cache,
        kv_tokens=layout.tokens(cache, case.context, batch_tokens, behaviour) if layout else 0,
        kv_bytes_per_request=request,
        budget_bytes=inside,
        total_bytes=sum(item.bytes for item in terms),
        band=band,
        validated=_validated(case, behaviour),
        minimum_bytes=band[1],
        budget=budget,
        engine_args=arguments(case, slot, facts, budget, share, sequences, batch_tokens),
        notes=_notes(case, behaviour),
        refusals=refusals(case, slot, behaviour),
    )


def terms_of(case: Resolved, behaviour: VllmRange, sequences: int, batch_tokens: int) -> list[Term]:
    """All terms but the cache: weights first, then what the profiling run and the start-up take."""
    images = multimodal_term(case.model)
    return [
        weights_term(case, behaviour),
        activation_term(case, behaviour, sequences, batch_tokens),
        *([images] if images is not None else []),
        non_torch_term(case.cards, behaviour),
        graphs_term(case, behaviour, sequences),
        context_term(case.cards, behaviour),
    ]


def refusals(case: Resolved, slot: Slot, behaviour: VllmRange) -> tuple[Reason, ...]:
    """Why vLLM cannot serve this on such a card at all, whatever the memory."""
    found: list[Reason] = []
    card = slot.product or "this card"
    if slot.compute_capability is not None:
        have = slot.compute_capability
        for what, least in (
            (f"vLLM {case.version}", behaviour.min_compute_capability),
            (f"quantization {case.scheme.name}", case.scheme.runs_from),
            (f"kvCacheDtype {case.kv_dtype.name}", case.kv_dtype.runs_from),
        ):
            if have < _capability(least):
                text = f"{what} needs compute capability {least}, {card} has {have[0]}.{have[1]}"
                found.append(Reason("compute-capability", text, "another product, or another precision"))
    for what, number in (("attention heads", case.model.heads), ("vocabulary", case.model.vocab_size)):
        if number % case.cards and what == "attention heads":
            text = f"{number} {what} of {case.model.id} cannot be divided over {case.cards} cards"
            found.append(Reason("tensor-parallel", text, "tensorParallel must divide the heads"))
    return tuple(found)


def _fraction(
    case: Resolved,
    slot: Slot,
    facts: Facts,
    behaviour: VllmRange,
    sequences: int,
    batch_tokens: int,
    least: ComponentSizing,
) -> ComponentSizing:
    if not behaviour.chunked_prefill:
        batch_tokens = max(batch_tokens, case.context)
    layout = _layout(case)
    terms = [*terms_of(case, behaviour, sequences, batch_tokens)]
    outside = [item for item in terms if not item.inside_budget]
    share = _utilization(slot, behaviour, outside)
    budget_bytes = ceil(slot.visible_bytes * share)
    taken = [item for item in terms if item.inside_budget]
    low, high = band_of(taken)
    cache = max(0, budget_bytes - sum(item.bytes for item in taken))
    if layout:
        terms.append(_cache_term(cache, (max(0, budget_bytes - high), max(0, budget_bytes - low))))
        inside_band = (budget_bytes, budget_bytes)
    else:
        cache, inside_band = 0, (low, high)
    inside = budget_bytes if layout else sum(item.bytes for item in taken)
    outside_band = band_of(outside)
    request = layout.request_bytes(case.context, batch_tokens) if layout else 0
    budget = Budget(gpu_memory_utilization=share)
    return ComponentSizing(
        name=case.component.name,
        engine=case.engine.name,
        version=case.version,
        gpu=slot.product,
        cards=case.cards,
        capacity_bytes=slot.visible_bytes,
        terms=tuple(terms),
        weights_bytes=terms[0].bytes,
        kv_cache_bytes=cache,
        kv_tokens=layout.tokens(cache, case.context, batch_tokens, behaviour) if layout else 0,
        kv_bytes_per_request=request,
        budget_bytes=budget_bytes,
        total_bytes=inside + sum(item.bytes for item in outside),
        band=(inside_band[0] + outside_band[0], inside_band[1] + outside_band[1]),
        validated=_validated(case, behaviour),
        minimum_bytes=least.minimum_bytes,
        budget=budget,
        engine_args=arguments(case, slot, facts, budget, share, sequences, batch_tokens),
        notes=_notes(case, behaviour),
        refusals=least.refusals,
    )


def _cache_term(cache: int, band: tuple[int, int]) -> Term:
    return Term(
        "KV cache",
        cache,
        "sizing reference 1.4 and 1.5: bytes of a block from the model's layers",
        band,
        "context, concurrency, kvCacheDtype",
    )


def _layout(case: Resolved) -> KvLayout | None:
    return kv_layout(case.model, case.kv_element_bytes, case.cards)


def _batch_tokens(case: Resolved, behaviour: VllmRange, slot: Slot) -> int:
    if case.component.max_batch_tokens is not None:
        return case.component.max_batch_tokens
    for line in behaviour.batch_defaults:
        excluded = slot.product is not None and any(word in slot.product for word in line.not_on)
        if slot.visible_bytes >= line.from_gib * GIB and not excluded:
            return line.tokens
    return _LEAST_BATCH_TOKENS


def _utilization(slot: Slot, behaviour: VllmRange, outside: list[Term]) -> float:
    """The engine's own fraction, less where what sits outside the budget would not find room beside it."""
    room = slot.visible_bytes - band_of(outside)[1] - _FREE_BYTES
    return max(0.01, min(behaviour.utilization, floor(100 * room / max(1, slot.visible_bytes)) / 100))


def _validated(case: Resolved, behaviour: VllmRange) -> bool:
    text = case.model.modality == "text" and case.model.state_layers == 0
    return behaviour.validated and text and case.component.role == "llm"


def _notes(case: Resolved, behaviour: VllmRange) -> tuple[str, ...]:
    notes = []
    if not _validated(case, behaviour):
        what = (
            f"vLLM {case.version}"
            if not behaviour.validated
            else f"{case.model.id} ({case.model.modality}, {case.component.role})"
        )
        notes.append(f"unvalidated: no public logs of {what} to check the sum against; the band is wide")
    if case.model.unverified:
        notes.append(f"{case.model.id}: not verified in a source: {', '.join(case.model.unverified)}")
    return tuple(notes)


def _capability(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)
