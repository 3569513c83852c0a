"""The terms of vLLM's memory beside weights and cache: activation peak, memory outside torch, CUDA graphs, CUDA context.

Constants come from `facts.vllm` by version; what was fitted to which logs stands there, the errors in docs/sizing.md.
"""

from __future__ import annotations

from ragstow.facts.models import Model
from ragstow.facts.vllm import VllmRange, by_cards
from ragstow.sizing.model import Term
from ragstow.sizing.resolve import Resolved
from ragstow.sizing.units import GIB, MIB, term
from ragstow.sizing.weights import vllm_weights

_REFERENCE = "sizing reference"
_MULTIMODAL_BYTES, _MULTIMODAL_BAND = GIB // 4, (0, round(4.2 * GIB))
# The step of an MLP holds gate, up and their product, and about this many rows of the hidden size beside.
_MLP_HIDDEN_ROWS = 4.25
_BF16_SAMPLER_BYTES = 2


def weights_term(case: Resolved, behaviour: VllmRange) -> Term:
    """Weights on one card."""
    weights = vllm_weights(case.model, case.scheme, case.dtype_bytes, case.cards, behaviour)
    return Term(
        "weights",
        weights.bytes,
        f"dimensions of {case.model.id} ({case.model.source}); tensors cut as vLLM cuts them, PyTorch's allocation steps",
        weights.band,
        "quantization, tensorParallel",
    )


def activation_term(case: Resolved, behaviour: VllmRange, sequences: int, batch_tokens: int) -> Term:
    """The peak of the profiling run: sampling of `sequences` requests, or the widest MLP of `batch_tokens` tokens."""
    model = case.model
    low, high = behaviour.activation_band
    step = _mlp_bytes(case, batch_tokens)
    if case.component.role == "llm":
        # Logits and their copies for every sequence; a float32 model has wider logits.
        per_logit = behaviour.sampler_bytes + _BF16_SAMPLER_BYTES * (case.dtype_bytes // 2 - 1)
        hidden = behaviour.hidden_factor * batch_tokens * model.hidden_size * case.dtype_bytes
        sampling = per_logit * sequences * model.vocab_size + hidden + behaviour.activation_mib * MIB
        peak = max(sampling, step)
        if behaviour.expert_workspace:
            peak += _expert_workspace(case, batch_tokens)
    else:
        peak = step + behaviour.activation_mib * MIB
    return term(
        "activation",
        peak,
        f"{_REFERENCE} 1.3 (vLLM {behaviour.since}+): {sequences} x {model.vocab_size} logits, {batch_tokens} tokens",
        (low, high),
        lever="concurrency (--max-num-seqs), maxBatchTokens (--max-num-batched-tokens)",
    )


def multimodal_term(model: Model) -> Term | None:
    """The images of the profiling run, for models that take images; None for text models."""
    if model.modality == "text":
        return None
    return Term(
        "multimodal profile",
        _MULTIMODAL_BYTES,
        f"{_REFERENCE} 1.3: 0.2 GiB in eight logs of 0.19, 2 to 4 GiB in others; depends on the largest image",
        _MULTIMODAL_BAND,
        "args: --limit-mm-per-prompt",
    )


def non_torch_term(cards: int, behaviour: VllmRange) -> Term:
    """Memory inside the budget that torch does not count: NCCL buffers, kernels, workspaces."""
    amount = by_cards(behaviour.non_torch, cards)
    return Term(
        "non-torch",
        round(amount.mib * MIB),
        f"{_REFERENCE} 1.3 (vLLM {behaviour.since}+, {_cards(cards)})",
        (round(amount.band_mib[0] * MIB), round(amount.band_mib[1] * MIB)),
        "tensorParallel",
    )


def context_term(cards: int, behaviour: VllmRange) -> Term:
    """What CUDA, NCCL and cuBLAS take before the engine measures: outside its budget, seen by nvidia-smi."""
    amount = by_cards(behaviour.context, cards)
    return Term(
        "CUDA context",
        round(amount.mib * MIB),
        f"{_REFERENCE} 1.1 (before the first snapshot, {_cards(cards)})",
        (round(amount.band_mib[0] * MIB), round(amount.band_mib[1] * MIB)),
        inside_budget=False,
    )


def graphs_term(case: Resolved, behaviour: VllmRange, sequences: int) -> Term:
    """CUDA graphs of the decode step, captured after the cache was made; off the budget or on top by version."""
    full = behaviour.graph_base_mib + behaviour.graph_layer_mib * case.model.layers
    share = min(1.0, len(graph_sizes(sequences)) / behaviour.graph_full_sizes)
    return term(
        "CUDA graphs",
        full * share * MIB,
        f"{_REFERENCE} 1.3 (vLLM {behaviour.since}+, {len(graph_sizes(sequences))} sizes)",
        behaviour.graph_band,
        lever="concurrency, args: --enforce-eager",
        inside=behaviour.graphs == "inside",
    )


def graph_sizes(sequences: int) -> tuple[int, ...]:
    """The batch sizes that vLLM captures: 1, 2, 4, then by 8 to 256, by 16 to twice the sequences, 512 at most."""
    limit = min(2 * sequences, 512)
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)]
    return tuple(size for size in sizes if size <= limit)


def _mlp_bytes(case: Resolved, batch_tokens: int) -> float:
    model = case.model
    size = (model.intermediate_size or 0) // case.cards
    width = (3 if model.gated_mlp else 1) * size
    return batch_tokens * (width + _MLP_HIDDEN_ROWS * model.hidden_size) * case.dtype_bytes


def _expert_workspace(case: Resolved, batch_tokens: int) -> float:
    """Buffers of the fused experts, which stay allocated: the wider of the two products, and the activation between them."""
    model = case.model
    if model.experts is None or case.scheme.applies == "experts":
        return 0.0
    size = (model.moe_intermediate_size or model.intermediate_size or 0) // case.cards
    first = (2 if model.gated_mlp else 1) * size
    return batch_tokens * (model.experts_per_token or 1) * (max(first, model.hidden_size) + size) * case.dtype_bytes


def _cards(count: int) -> str:
    return "1 card" if count == 1 else f"{count} cards"
