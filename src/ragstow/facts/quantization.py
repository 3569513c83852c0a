"""Precisions: how many bits a weight or a cached key takes, what an engine must be told, and what cards can run it.

The numbers are averages over a layer's linear weights, scales included; embeddings and the head stay in the model's dtype.
What a checkpoint weighs is summed in `sizing`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from ragstow.facts.gpus import ComputeCapability
from ragstow.facts.table import Count, Date, Table, Text

Bits = Annotated[float, msgspec.Meta(gt=0, le=32)]


@dataclass(frozen=True, slots=True)
class Quantization:
    """A weight scheme.

    `bits` per linear weight with its scales (None: the model's dtype), `applies` to all linear layers or only to experts,
    `online` whether the engine can make it from a 16-bit checkpoint at load, `flag` the value of the engine's quantization
    argument where one is needed then, `pad_hidden` / `pad_intermediate` multiples that kernels pad expert weights to,
    `native_from` the compute capability from which it computes in that precision, `runs_from` from which it runs at all.
    """

    name: Text
    title: Text
    applies: Literal["linear", "experts"]
    source: Text
    checked: Date
    aliases: tuple[str, ...] = ()
    bits: Bits | None = None
    scale_bits: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    online: bool = False
    flag: str | None = None
    pad_hidden: Count = 1
    pad_intermediate: Count = 1
    runs_from: ComputeCapability = "7.5"
    native_from: ComputeCapability | None = None
    band_percent: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    notes: str = ""


TABLE = Table("quantization.yaml", Quantization, ("name",))


@dataclass(frozen=True, slots=True)
class KvDtype:
    """A precision of cached keys and values: bytes per element (None: the model's dtype) and what the engine is told."""

    name: Text
    source: Text
    checked: Date
    bytes: Annotated[float, msgspec.Meta(gt=0)] | None = None
    flag: str | None = None
    runs_from: ComputeCapability = "7.0"
    notes: str = ""


KV_TABLE = Table("kv_dtypes.yaml", KvDtype, ("name",))


class Quantizations:
    """Both tables, found by name or alias."""

    def __init__(self, rows: tuple[Quantization, ...], kv_rows: tuple[KvDtype, ...]) -> None:
        self.rows = rows
        self.kv_rows = kv_rows
        self._rows = {name.casefold(): row for row in rows for name in (row.name, *row.aliases)}
        self._kv = {row.name.casefold(): row for row in kv_rows}

    def find(self, name: str) -> Quantization | None:
        """The scheme of that name or alias; None where unknown."""
        return self._rows.get(name.casefold())

    def kv(self, name: str) -> KvDtype | None:
        """The cache precision of that name; None where unknown."""
        return self._kv.get(name.casefold())

    def near(self, name: str) -> tuple[str, ...]:
        """Scheme names that look like this one."""
        return tuple(difflib.get_close_matches(name.casefold(), list(self._rows), 3, 0.5))
