"""The KV cache of vLLM: groups of layers, bytes of a block, blocks of a request, tokens of a pool.

Layers of one kind share a group; models that mix full attention, sliding windows and fixed states are cut into groups of one
size, padded where it does not divide, and every block of the pool spans one group (vLLM v1/core/kv_cache_utils). The numbers
reproduce logged token counts from logged bytes within 0.1 % (docs/sizing.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ragstow.facts.models import Model
from ragstow.facts.vllm import VllmRange

BLOCK_TOKENS = 16
"""vLLM's default block size."""

_INDEXER_BYTES = 132
"""Sparse attention keeps an index key a token and layer: 128 values in fp8 and a scale (sizing reference 1.4)."""

_STATE_SSM_BYTES = 4
_STATE_CONV_BYTES = 2


@dataclass(frozen=True, slots=True)
class Group:
    """`count` groups of one kind; a block of it holds `block_tokens` tokens (a state: one request)."""

    kind: Literal["full", "sliding", "state"]
    count: int
    block_tokens: int
    window: int = 0


@dataclass(frozen=True, slots=True)
class KvLayout:
    """The pool on one card: `block_bytes` of one block over all layers of a group, and the groups.

    `bytes_per_token` is what a token of a long text costs while every layer keeps it.
    """

    block_bytes: int
    groups: tuple[Group, ...]
    bytes_per_token: float

    @property
    def group_count(self) -> int:
        """How many blocks a request takes for each 16 tokens while every layer keeps all of it."""
        return sum(group.count for group in self.groups)

    def request_blocks(self, context: int, batch_tokens: int) -> int:
        """Blocks of one request of `context` tokens when `batch_tokens` may be computed in one step (sizing reference 1.5)."""
        blocks = 0
        for group in self.groups:
            if group.kind == "state":
                blocks += group.count
            elif group.kind == "full":
                blocks += group.count * -(-context // group.block_tokens)
            else:
                kept = min(group.window - 1 + batch_tokens, context)
                blocks += group.count * (-(-kept // group.block_tokens) + 1)
        return blocks

    def request_bytes(self, context: int, batch_tokens: int) -> int:
        """Bytes of one request on one card."""
        return self.request_blocks(context, batch_tokens) * self.block_bytes

    def tokens(self, pool_bytes: int, context: int, batch_tokens: int, behaviour: VllmRange) -> int:
        """The number that the engine logs as its cache size in tokens for a pool of so many bytes."""
        blocks = max(0, pool_bytes) // self.block_bytes
        if behaviour.tokens == "concurrency" and len(self.groups) > 1:
            return int(blocks / self.request_blocks(context, batch_tokens) * context)
        return blocks // self.group_count * self.groups[0].block_tokens


def kv_layout(model: Model, element_bytes: float, cards: int) -> KvLayout | None:
    """How vLLM lays out the cache of a model on each of `cards` cards; None where it keeps none.

    Args:
        model: the model.
        element_bytes: bytes of one cached value (2 for 16 bit, 1 for fp8).
        cards: tensor-parallel size.
    """
    if model.encoder:
        return None
    per_token = {
        "full": _full_bytes(model, element_bytes, cards),
        "sliding": 2 * max(1, model.kv_heads // cards) * model.head_dim * element_bytes,
    }
    counts = {"full": model.full_layers, "sliding": model.sliding_layers, "state": model.state_layers}
    kinds = [kind for kind in ("full", "sliding", "state") if counts[kind]]
    if not kinds:
        return None
    bytes_per_token = sum(per_token[kind] * counts[kind] for kind in kinds if kind != "state")
    if len(kinds) == 1 and kinds[0] != "state":
        kind = kinds[0]
        block = round(per_token[kind] * BLOCK_TOKENS * counts[kind])
        only = Group("full" if kind == "full" else "sliding", 1, BLOCK_TOKENS, model.sliding_window or 0)
        return KvLayout(block, (only,), bytes_per_token)
    size = _group_size([counts[kind] for kind in kinds])
    state = state_bytes(model) // cards
    pages = {kind: per_token[kind] * BLOCK_TOKENS for kind in kinds if kind != "state"}
    page = max(pages.values(), default=0)
    if "state" in kinds and page:
        # Attention blocks are made long enough to hold one state.
        page *= max(1, -(-state // round(page)))
    groups = []
    for kind in kinds:
        count = -(-counts[kind] // size)
        if kind == "state":
            groups.append(Group("state", count, 1))
        else:
            tokens = max(BLOCK_TOKENS, int(page // pages[kind]) * BLOCK_TOKENS)
            groups.append(Group("full" if kind == "full" else "sliding", count, tokens, model.sliding_window or 0))
    return KvLayout(round((page or state) * size), tuple(groups), bytes_per_token)


def state_bytes(model: Model) -> int:
    """The fixed state of one layer and request: convolution inputs in 16 bit, the recurrent state in 32 bit."""
    if model.state_value_heads is None:
        return 0
    keys = (model.state_key_heads or 0) * (model.state_key_dim or 0)
    values = model.state_value_heads * (model.state_value_dim or 0)
    recurrent = values * (model.state_key_dim or 0) * _STATE_SSM_BYTES
    return (2 * keys + values) * max(0, (model.state_conv or 1) - 1) * _STATE_CONV_BYTES + recurrent


def _full_bytes(model: Model, element_bytes: float, cards: int) -> float:
    """Bytes of a token in one full layer on one card; a latent vector is not cut over the cards (sizing reference 1.4)."""
    if model.kv_lora_rank is not None:
        latent = (model.kv_lora_rank + (model.qk_rope_head_dim or 0)) * element_bytes
        return latent + (_INDEXER_BYTES if model.index_head_dim is not None else 0)
    heads = model.global_kv_heads or model.kv_heads
    return 2 * max(1, heads // cards) * (model.global_head_dim or model.head_dim) * element_bytes


def _group_size(counts: list[int]) -> int:
    least, most = min(counts), max(counts)
    return most if most < 1.5 * least else least
