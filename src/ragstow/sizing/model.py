"""What sizing answers: terms of memory with source and band. Data only; the formulas live in the engine modules."""

from __future__ import annotations

from dataclasses import dataclass

from ragstow.errors import Reason


@dataclass(frozen=True, slots=True)
class Slot:
    """What a component may get: a card, a MIG slice or a share of a card.

    `visible_bytes` is the memory that CUDA reports there (for a share: of the whole card, since that is what the engine
    sees). `shared` says that neighbours may sit on the same memory, so that fractions of it mean nothing.
    """

    visible_bytes: int
    product: str | None = None
    compute_capability: tuple[int, int] | None = None
    shared: bool = False


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
    shows at the peak, `budget_bytes` what the engine is allowed (what it will really reserve), `kv_tokens` of the whole
    component replica. `refusals` say why the engine cannot run there at all, whatever the memory.
    """

    name: str
    engine: str | None
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
    """The least CUDA-visible memory of a slot on which this component still serves its context and concurrency: the upper end
    of the band of the least budget."""
    budget: Budget | None = None
    engine_args: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refusals: tuple[Reason, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the component serves its context and concurrency on this slot."""
        return not self.refusals and self.minimum_bytes <= self.capacity_bytes
