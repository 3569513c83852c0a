"""The weight tensors of a model on one card, from its dimensions.

Linear layers are cut over the cards of a tensor-parallel group as vLLM cuts them: query, key and value fused, gate and up
fused, all experts of a layer in one tensor, embeddings over the vocabulary; keys and values are replicated where there are
fewer heads than cards; routers, norms and the down-projections of multi-head latent attention are on every card.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ragstow.facts.models import Model

VOCABULARY_PADDING = 64
"""vLLM pads embeddings to a multiple of this (vocab_parallel_embedding)."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """`count` tensors of `elements` each on one card. Only `linear` and `expert` ones are quantised."""

    name: str
    elements: int
    count: int
    kind: Literal["linear", "expert", "plain"]


def tensors(model: Model, cards: int = 1) -> tuple[Tensor, ...]:
    """The tensors of one card, norms and biases left out.

    Args:
        model: a decoder; an encoder's tensors are not cut and need no list.
        cards: tensor-parallel size; must divide the heads.
    """
    return (*_attention(model, cards), *_state(model, cards), *_mlp(model, cards), *_ends(model, cards))


def parameters(model: Model) -> int:
    """The parameters of a model: the published total, else counted from the dimensions (sizing reference 1.2)."""
    if model.params is not None:
        return model.params
    norms = 2 * model.layers * model.hidden_size + model.hidden_size
    return sum(item.elements * item.count for item in tensors(model)) + norms


def _attention(model: Model, cards: int) -> tuple[Tensor, ...]:
    hidden, heads = model.hidden_size, model.heads // cards
    layers = model.full_layers + model.sliding_layers
    if model.kv_lora_rank is not None:
        rank, rope = model.kv_lora_rank, model.qk_rope_head_dim or 0
        nope = model.qk_nope_head_dim or model.head_dim
        value = model.v_head_dim or model.head_dim
        query: tuple[Tensor, ...]
        if model.q_lora_rank is not None:
            query = (
                Tensor("q_a", hidden * model.q_lora_rank, layers, "linear"),
                Tensor("q_b", model.q_lora_rank * heads * (nope + rope), layers, "linear"),
            )
        else:
            query = (Tensor("q", hidden * heads * (nope + rope), layers, "linear"),)
        return (
            *query,
            Tensor("kv_a", hidden * (rank + rope), layers, "linear"),
            Tensor("kv_b", rank * heads * (nope + value), layers, "linear"),
            Tensor("o", heads * value * hidden, layers, "linear"),
        )
    keys_values = 2 * max(1, model.kv_heads // cards)
    queries = heads * (2 if model.gated_attention else 1)
    return (
        Tensor("qkv", (queries + keys_values) * model.head_dim * hidden, layers, "linear"),
        Tensor("o", heads * model.head_dim * hidden, layers, "linear"),
    )


def _state(model: Model, cards: int) -> tuple[Tensor, ...]:
    if not model.state_layers or model.state_value_heads is None:
        return ()
    keys = (model.state_key_heads or 0) * (model.state_key_dim or 0)
    values = model.state_value_heads * (model.state_value_dim or 0)
    # Gate and input of the values, keys and queries (groups' B and C for Mamba2), one number a head for decay.
    width = 2 * values + 2 * keys + model.state_value_heads * (2 if model.gated_attention else 1)
    return (
        Tensor("state_in", model.hidden_size * width // cards, model.state_layers, "linear"),
        Tensor("state_out", values // cards * model.hidden_size, model.state_layers, "linear"),
    )


def _mlp(model: Model, cards: int) -> tuple[Tensor, ...]:
    hidden, ups = model.hidden_size, 2 if model.gated_mlp else 1
    found: list[Tensor] = []
    dense = model.dense_layers if model.experts is not None else model.layers
    if model.intermediate_size is not None and dense:
        size = model.intermediate_size // cards
        found += [Tensor("gate_up", ups * size * hidden, dense, "linear"), Tensor("down", size * hidden, dense, "linear")]
    if model.experts is not None:
        expert = model.moe_intermediate_size or model.intermediate_size or 0
        size, layers = expert // cards, model.layers - dense
        found += [
            Tensor("experts_gate_up", model.experts * ups * size * hidden, layers, "expert"),
            Tensor("experts_down", model.experts * size * hidden, layers, "expert"),
            Tensor("router", model.experts * hidden, layers, "plain"),
        ]
        shared = model.shared_expert_intermediate_size or (model.shared_experts or 0) * expert
        if shared:
            found += [
                Tensor("shared_gate_up", ups * shared // cards * hidden, layers, "linear"),
                Tensor("shared_down", shared // cards * hidden, layers, "linear"),
            ]
    return tuple(found)


def _ends(model: Model, cards: int) -> tuple[Tensor, ...]:
    padded = -(-model.vocab_size // VOCABULARY_PADDING) * VOCABULARY_PADDING
    ends = 1 if model.tied_embeddings else 2
    return (Tensor("embedding", padded // cards * model.hidden_size, ends, "plain"),)
