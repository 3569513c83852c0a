"""A model's dimensions from its config.json, for models outside the table.

Reads the keys that transformers writes, nested `text_config` included, into the row type of the table; what a file does not
say is taken as transformers takes it and listed in `unverified`. Parameters are not in the file: `sizing` counts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ragstow.errors import InputError, InputErrors, RagstowError
from ragstow.facts.models import ENCODER_TYPES, Model

KEPT = frozenset(
    {
        "architectures",
        "attn_output_gate",
        "d_model",
        "dtype",
        "first_k_dense_replace",
        "full_attention_interval",
        "global_head_dim",
        "head_dim",
        "hidden_size",
        "index_head_dim",
        "intermediate_size",
        "kv_lora_rank",
        "layer_types",
        "linear_conv_kernel_dim",
        "linear_key_head_dim",
        "linear_num_key_heads",
        "linear_num_value_heads",
        "linear_value_head_dim",
        "max_position_embeddings",
        "max_seq_len",
        "model_type",
        "moe_intermediate_size",
        "n_embd",
        "n_head",
        "n_layer",
        "n_positions",
        "n_routed_experts",
        "n_shared_experts",
        "num_attention_heads",
        "num_experts",
        "num_experts_per_tok",
        "num_global_key_value_heads",
        "num_hidden_layers",
        "num_key_value_heads",
        "num_layers",
        "num_local_experts",
        "partial_rotary_factor",
        "q_lora_rank",
        "qk_nope_head_dim",
        "qk_rope_head_dim",
        "quantization_config",
        "rope_parameters",
        "seq_length",
        "shared_expert_intermediate_size",
        "sliding_window",
        "sliding_window_pattern",
        "text_config",
        "tie_word_embeddings",
        "torch_dtype",
        "use_sliding_window",
        "v_head_dim",
        "vision_config",
        "vocab_size",
    }
)
"""The keys that matter for memory; a normalised service carries only these."""

_SCHEMES = {
    "fp8": "fp8",
    "fbgemm_fp8": "fp8",
    "awq": "awq",
    "awq_marlin": "awq",
    "gptq": "gptq",
    "gptq_marlin": "gptq",
    "mxfp4": "mxfp4",
    "nvfp4": "nvfp4",
    "bitsandbytes": "bitsandbytes",
}
_UNGATED_TYPES = frozenset({"bert", "roberta", "camembert", "xlm-roberta", "mpnet", "distilbert", "phi", "gpt_neox", "opt"})


def from_config(name: str, config: Mapping[str, Any], role: Literal["llm", "embedder", "reranker"] = "llm") -> Model:
    """The model that a config.json describes.

    Args:
        name: what the model is called from here on.
        config: the parsed file.
        role: what the model is used for.

    Raises:
        InputErrors: keys that the sums need are absent or no numbers; all of them.
    """
    text = {**config, **config["text_config"]} if isinstance(config.get("text_config"), Mapping) else dict(config)
    reader = _Reader(text)
    hidden, layers = reader.need("hidden_size", "d_model", "n_embd"), reader.need("num_hidden_layers", "n_layer", "num_layers")
    heads, vocab = reader.need("num_attention_heads", "n_head"), reader.need("vocab_size")
    position = reader.need("max_position_embeddings", "n_positions", "seq_length", "max_seq_len")
    reader.done()
    model_type = str(text.get("model_type") or config.get("model_type") or "unknown")
    head_dim = reader.get("head_dim") or max(1, hidden // heads)
    experts = reader.get("num_experts", "num_local_experts", "n_routed_experts")
    full, sliding, state = _layer_kinds(reader, layers)
    return Model(
        id=name,
        role=role,
        model_type=model_type,
        modality="multimodal" if "vision_config" in config else "text",
        attention="bidirectional" if model_type in ENCODER_TYPES else "causal",
        layers=layers,
        hidden_size=hidden,
        heads=heads,
        kv_heads=reader.get("num_key_value_heads") or heads,
        head_dim=head_dim,
        vocab_size=vocab,
        max_position=position,
        dtype=_dtype(text),
        source="config.json given by the user",
        checked="2026-11-30",
        intermediate_size=reader.get("intermediate_size") or (None if experts else 4 * hidden),
        gated_mlp=model_type not in _UNGATED_TYPES,
        moe_intermediate_size=reader.get("moe_intermediate_size"),
        experts=experts,
        experts_per_token=reader.get("num_experts_per_tok"),
        shared_experts=reader.get("n_shared_experts"),
        shared_expert_intermediate_size=reader.get("shared_expert_intermediate_size"),
        dense_layers=reader.get("first_k_dense_replace") or 0,
        tied_embeddings=bool(text.get("tie_word_embeddings", False)),
        full_layers=full,
        sliding_layers=sliding,
        sliding_window=reader.get("sliding_window"),
        global_kv_heads=reader.get("num_global_key_value_heads"),
        global_head_dim=reader.get("global_head_dim"),
        state_layers=state,
        state_key_heads=reader.get("linear_num_key_heads"),
        state_value_heads=reader.get("linear_num_value_heads"),
        state_key_dim=reader.get("linear_key_head_dim"),
        state_value_dim=reader.get("linear_value_head_dim"),
        state_conv=reader.get("linear_conv_kernel_dim"),
        gated_attention=bool(text.get("attn_output_gate", False)),
        kv_lora_rank=reader.get("kv_lora_rank"),
        q_lora_rank=reader.get("q_lora_rank"),
        qk_rope_head_dim=reader.get("qk_rope_head_dim"),
        qk_nope_head_dim=reader.get("qk_nope_head_dim"),
        v_head_dim=reader.get("v_head_dim"),
        index_head_dim=reader.get("index_head_dim"),
        rotary_dim=_rotary(text, model_type, head_dim),
        quantization=_scheme(config),
        unsizable=_unsizable(model_type, state, reader),
        unverified=("params",),
    )


class _Reader:
    """Numbers of a config; collects what is missing."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        self.errors: list[RagstowError] = []

    def get(self, *names: str) -> int | None:
        """The first of these keys that holds a positive whole number."""
        for name in names:
            value = self.config.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
        return None

    def need(self, *names: str) -> int:
        """As `get`, but an error where none holds one."""
        value = self.get(*names)
        if value is None:
            self.errors.append(InputError("config-json", f"config.json has no positive {names[0]}"))
            return 1
        return value

    def done(self) -> None:
        if self.errors:
            raise InputErrors(self.errors)


def _layer_kinds(reader: _Reader, layers: int) -> tuple[int, int, int]:
    """How many layers keep everything, a window, a state."""
    kinds = reader.config.get("layer_types")
    if isinstance(kinds, list) and len(kinds) == layers:
        sliding = sum(kind in ("sliding_attention", "chunked_attention") for kind in kinds)
        state = sum(kind in ("linear_attention", "mamba", "mamba2") for kind in kinds)
        full = sum(kind in ("full_attention", "attention") for kind in kinds)
        return full, sliding if reader.get("sliding_window") else 0, state
    window = reader.get("sliding_window") if reader.config.get("use_sliding_window", True) else None
    pattern = reader.get("sliding_window_pattern")
    if window and pattern:
        return layers // pattern, layers - layers // pattern, 0
    every = reader.get("full_attention_interval")
    if every:
        return layers // every, 0, layers - layers // every
    # A window on every layer saves nothing while it is as long as the context; ragstow counts such layers in full.
    return layers, 0, 0


def _rotary(config: Mapping[str, Any], model_type: str, head_dim: int) -> int | None:
    if model_type in ENCODER_TYPES - {"new", "nomic_bert", "modernbert"}:
        return 0
    parameters = config.get("rope_parameters")
    factor = config.get("partial_rotary_factor")
    if factor is None and isinstance(parameters, Mapping):
        factor = parameters.get("partial_rotary_factor")
    return int(head_dim * factor) if isinstance(factor, int | float) and 0 < factor < 1 else None


def _dtype(config: Mapping[str, Any]) -> Literal["bfloat16", "float16", "float32"]:
    value = config.get("dtype") or config.get("torch_dtype")
    if value == "float16":
        return "float16"
    return "float32" if value == "float32" else "bfloat16"


def _scheme(config: Mapping[str, Any]) -> str | None:
    given = config.get("quantization_config")
    if not isinstance(given, Mapping):
        return None
    method = str(given.get("quant_method", ""))
    if method == "fp8" and given.get("weight_block_size"):
        return "fp8-block"
    if method == "compressed-tensors":
        text = str(given)
        if "'num_bits': 4" in text:
            return "nvfp4" if "'type': 'float'" in text else "gptq"
        return "fp8" if "'type': 'float'" in text else "int8"
    if method == "modelopt":
        return "nvfp4" if "FP4" in str(given.get("quant_algo", "")).upper() else "fp8"
    return _SCHEMES.get(method, method or None)


def _unsizable(model_type: str, state: int, reader: _Reader) -> str | None:
    if "mamba" in model_type or model_type == "nemotron_h":
        return "a Mamba hybrid is read from the table only"
    if state and reader.get("linear_num_value_heads") is None:
        return "config.json does not say how large the state of its linear-attention layers is"
    return None
