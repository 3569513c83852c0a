"""What sizing answers: terms of memory with source and band. Data only; the formulas live in the engine modules."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """One term of the sum, per card: bytes, where the formula or number comes from, [low, high] bytes, the lever."""

    name: str
    bytes: int
    source: str
    band: tuple[int, int]
    lever: str = ""
    inside_budget: bool = True
    """False for what the engine takes beside its own budget (CUDA context, graphs of old engines)."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How the engine is told its limit: exactly one of a fraction of the card's CUDA-visible memory or pinned KV bytes."""

    gpu_memory_utilization: float | None = None
    kv_cache_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ComponentSizing:
    """The memory of one replica of a component on one kind of slot; all bytes per card.

    `gpu` is the product label (None: for a footprint or a component without GPU), `cards` the cards of one replica (tensor
    parallel), `capacity_bytes` the CUDA-visible memory of the slot that the sum was made for, `total_bytes` what nvidia-smi
    shows at the peak, `budget_bytes` what the engine is allowed, `kv_tokens` of the whole component replica.
    """

    name: str
    engine: str
    version: str | None
    gpu: str | None
    cards: int
    capacity_bytes: int
    terms: tuple[Term, ...]
    weights_bytes: int
    kv_cache_bytes: int
    kv_tokens: int
    kv_bytes_per_request: int
    budget_bytes: int
    total_bytes: int
    band: tuple[int, int]
    validated: bool
    minimum_bytes: int
    """The least CUDA-visible memory of a slot on which this component still serves its context and concurrency."""
    budget: Budget | None = None
    engine_args: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
