"""Bytes of weights on one card.

Sum of the tensors in their precision as PyTorch's allocator counts them, plus what is no tensor of a layer: norms, vision
tower, the table of rotary angles, and copies that some attention kernels make. Logged 16-bit weights of text models are met
within 0.05 %; docs/sizing.md has the figures.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragstow.facts.models import Model
from ragstow.facts.quantization import Quantization
from ragstow.facts.vllm import VllmRange
from ragstow.sizing.tensors import Tensor, parameters, tensors
from ragstow.sizing.units import GIB, allocated

_VISION_BAND_BYTES = round(0.6 * GIB)
_MAMBA_BAND = 0.03
_TEXT_BAND = 0.005


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes on one card and their band."""

    bytes: int
    band: tuple[int, int]


def vllm_weights(model: Model, scheme: Quantization, dtype_bytes: int, cards: int, behaviour: VllmRange) -> Weights:
    """The weights as vLLM holds them.

    Args:
        model: the model.
        scheme: how its linear layers are quantised.
        dtype_bytes: bytes of an unquantised weight.
        cards: tensor-parallel size.
        behaviour: what the engine's version does (copies, padding).
    """
    listed = tensors(model, cards)
    whole = sum(item.elements * item.count for item in tensors(model))
    total = parameters(model)
    # Where the published total is below the sum, a dimension is approximate: the total is what is downloaded.
    scale = min(1.0, total / whole)
    bytes_ = 0.0
    for item in listed:
        bytes_ += allocated(_tensor_bytes(item, model, scheme, dtype_bytes, cards, behaviour)) * item.count * scale
    rest = max(0, total - whole)
    if model.state_layers and model.modality == "text":
        bytes_ += rest * (scheme.bits or 8 * dtype_bytes) / 8 / cards
    else:
        bytes_ += rest * dtype_bytes
    bytes_ += rotary_bytes(model, dtype_bytes) + _attention_copies(listed, model, dtype_bytes, cards, behaviour)
    down = up = max(_TEXT_BAND, scheme.band_percent / 100 if scheme.bits else 0) * bytes_
    if model.state_layers:
        down = up = max(up, _MAMBA_BAND * bytes_)
    if model.modality == "multimodal":
        # A vision tower may be cut over the cards as well.
        up += _VISION_BAND_BYTES
        down += rest * dtype_bytes * (1 - 1 / cards)
    return Weights(round(bytes_), (round(bytes_ - down), round(bytes_ + up)))


def plain_weights(model: Model, dtype_bytes: int) -> Weights:
    """The weights of an engine that holds every parameter once in one precision (encoders)."""
    bytes_ = parameters(model) * dtype_bytes
    return Weights(bytes_, (round(bytes_ * 0.99), round(bytes_ * 1.03)))


def rotary_bytes(model: Model, dtype_bytes: int) -> int:
    """The table of cosines and sines for every position, which vLLM keeps with the weights (not for position embeddings)."""
    if model.rotary_dim == 0:
        return 0
    turned = model.rotary_dim or model.qk_rope_head_dim or model.head_dim
    return model.max_position * turned * dtype_bytes


def _tensor_bytes(item: Tensor, model: Model, scheme: Quantization, dtype_bytes: int, cards: int, behaviour: VllmRange) -> int:
    quantised = scheme.bits is not None and (item.kind == "expert" or (item.kind == "linear" and scheme.applies == "linear"))
    if not quantised or scheme.bits is None:
        return item.elements * dtype_bytes
    if item.kind != "expert" or scheme.pad_hidden == 1:
        return round(item.elements * scheme.bits / 8)
    size = (model.moe_intermediate_size or model.intermediate_size or 0) // cards
    padded = _padding(model.hidden_size, scheme.pad_hidden)
    if behaviour.mxfp4_pads_intermediate:
        padded *= _padding(size, scheme.pad_intermediate)
    return round(item.elements * ((scheme.bits - scheme.scale_bits) * padded + scheme.scale_bits) / 8)


def _padding(size: int, multiple: int) -> float:
    return -(-size // multiple) * multiple / size


def _attention_copies(listed: tuple[Tensor, ...], model: Model, dtype_bytes: int, cards: int, behaviour: VllmRange) -> int:
    """Latent attention: the projection back to heads is kept a second time, in the layout of the kernel; old engines keep it
    multiplied into the query and output projections."""
    if not model.mla or behaviour.mla_copy == "none":
        return 0
    if behaviour.mla_copy == "projection":
        return sum(item.elements * item.count for item in listed if item.name == "kv_b") * dtype_bytes
    absorbed = 2 * model.hidden_size * (model.heads // cards) * (model.kv_lora_rank or 0)
    return absorbed * model.layers * dtype_bytes
