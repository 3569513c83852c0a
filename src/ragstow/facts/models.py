"""Models: dimensions, parameters, checkpoints of other precision, licence, and what is not verified about them.

A row says what a model is, not what it costs: sums are made in `sizing`. A model outside the table is read from its
config.json by `from_config`, into the same row type. Names are those of the Hugging Face hub.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import msgspec

from ragstow.facts.table import Count, Date, Table, Text

Amount = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class Model:
    """One model. All dimensions are those of the decoder or encoder, in config.json's meaning.

    `layers` are all layers, `full_layers` those that keep keys and values of every token, `sliding_layers` those that keep a
    window, `state_layers` those with a fixed state per request (gated delta net: its key and value heads; Mamba2: groups and
    state size as key heads and key dim, heads and head dim as value heads and value dim). `global_*` are the dimensions of
    the full layers where they differ from those of the sliding ones. `dense_layers` of a mixture of experts have a plain
    MLP. `rotary_dim` is what rotary embedding turns (None: the whole head, 0: no rotary embedding). `quantization` is a scheme
    of the quantization table that the published checkpoint itself has. `params` is None only for a model read from a
    config.json, where it is counted from the dimensions. `unsizable` says why no sum can be made.
    """

    id: Text
    role: Literal["llm", "embedder", "reranker"]
    model_type: Text
    modality: Literal["text", "multimodal"]
    attention: Literal["causal", "bidirectional"]
    layers: Count
    hidden_size: Count
    heads: Count
    kv_heads: Count
    head_dim: Count
    vocab_size: Count
    max_position: Count
    dtype: Literal["bfloat16", "float16", "float32"]
    source: Text
    checked: Date
    params: Count | None = None
    active_params: Count | None = None
    intermediate_size: Count | None = None
    gated_mlp: bool = True
    moe_intermediate_size: Count | None = None
    experts: Count | None = None
    experts_per_token: Count | None = None
    shared_experts: Count | None = None
    shared_expert_intermediate_size: Count | None = None
    dense_layers: Amount = 0
    tied_embeddings: bool | None = None
    full_layers: Amount = 0
    sliding_layers: Amount = 0
    sliding_window: Count | None = None
    global_kv_heads: Count | None = None
    global_head_dim: Count | None = None
    state_layers: Amount = 0
    state_key_heads: Count | None = None
    state_value_heads: Count | None = None
    state_key_dim: Count | None = None
    state_value_dim: Count | None = None
    state_conv: Count | None = None
    gated_attention: bool = False
    kv_lora_rank: Count | None = None
    q_lora_rank: Count | None = None
    qk_rope_head_dim: Count | None = None
    qk_nope_head_dim: Count | None = None
    v_head_dim: Count | None = None
    index_head_dim: Count | None = None
    rotary_dim: Amount | None = None
    quantization: str | None = None
    licence: str | None = None
    unsizable: str | None = None
    unverified: tuple[str, ...] = ()
    notes: str = ""

    @property
    def encoder(self) -> bool:
        """Whether it keeps no keys and values between steps (a BERT-like model)."""
        return self.model_type in ENCODER_TYPES

    @property
    def mla(self) -> bool:
        """Whether keys and values are kept as one latent vector (multi-head latent attention)."""
        return self.kv_lora_rank is not None

    @property
    def hybrid(self) -> bool:
        """Whether its layers are of more than one kind as far as the cache is concerned."""
        return sum(count > 0 for count in (self.full_layers, self.sliding_layers, self.state_layers)) > 1


ENCODER_TYPES = frozenset(
    {
        "bert",
        "roberta",
        "camembert",
        "xlm-roberta",
        "xlm-roberta-jina",
        "new",
        "nomic_bert",
        "modernbert",
        "mpnet",
        "distilbert",
    }
)
"""Values of config.json's model_type that are encoders: no cache, no generation."""


def _check(row: Model) -> Iterable[str]:
    if row.params is None:
        yield "params is missing"
    counted = row.full_layers + row.sliding_layers + row.state_layers
    if counted > row.layers:
        yield f"{counted} layers by kind, but layers is {row.layers}"
    if row.sliding_layers and row.sliding_window is None:
        yield "sliding_layers without sliding_window"
    if row.state_layers and row.state_value_heads is None and row.unsizable is None:
        yield "state_layers without the dimensions of the state"
    if (
        row.intermediate_size is None
        and row.experts is None
        and row.unsizable is None
        and "intermediate_size" not in row.unverified
    ):
        yield "neither intermediate_size nor experts, and not marked unsizable or unverified"
    if row.experts is not None and (row.moe_intermediate_size is None and row.intermediate_size is None):
        yield "experts without a size"
    columns = Model.__dataclass_fields__.keys() | {"dims"}
    yield from (f"unverified names {name!r}, which is no column" for name in row.unverified if name not in columns)


TABLE = Table("models.csv", Model, ("id",), _check)


@dataclass(frozen=True, slots=True)
class Variant:
    """A checkpoint with the dimensions of another: a quantised copy, a fine-tune or an older name."""

    id: Text
    base: Text
    source: Text
    checked: Date
    quantization: str | None = None
    dtype: Literal["bfloat16", "float16", "float32"] | None = None
    licence: str | None = None
    notes: str = ""


VARIANTS = Table("model_variants.csv", Variant, ("id",))


class Models:
    """The rows, found by name in any case."""

    def __init__(self, rows: tuple[Model, ...], variants: tuple[Variant, ...]) -> None:
        self.rows = rows
        self.variants = variants
        self._rows = {row.id.casefold(): row for row in rows}
        self._variants = {row.id.casefold(): row for row in variants}

    def find(self, name: str) -> Model | None:
        """The model of that hub name, a variant with its own precision filled in; None where unknown."""
        row = self._rows.get(name.casefold())
        if row is not None:
            return row
        variant = self._variants.get(name.casefold())
        base = self._rows.get(variant.base.casefold()) if variant is not None else None
        if variant is None or base is None:
            return None
        return replace(
            base,
            id=variant.id,
            quantization=variant.quantization if variant.quantization is not None else base.quantization,
            dtype=variant.dtype or base.dtype,
            licence=variant.licence or base.licence,
            source=f"{variant.source}; dimensions: {base.source}",
            notes="; ".join(part for part in (variant.notes, base.notes) if part),
        )

    def variants_of(self, name: str) -> tuple[Variant, ...]:
        """The other checkpoints of a model, in the order of the table."""
        return tuple(row for row in self.variants if row.base.casefold() == name.casefold())

    def near(self, name: str, count: int = 3) -> tuple[str, ...]:
        """Names that look like this one, for a hint."""
        names = {key: row.id for key, row in self._rows.items()} | {key: row.id for key, row in self._variants.items()}
        short = {key.rpartition("/")[2]: names[key] for key in names}
        found = difflib.get_close_matches(name.casefold(), list(names), count, 0.6)
        shortly = difflib.get_close_matches(name.casefold().rpartition("/")[2], list(short), count, 0.6)
        return tuple(dict.fromkeys([names[key] for key in found] + [short[key] for key in shortly]))[:count]
