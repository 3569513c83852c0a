"""How vLLM uses memory, by version: constants fitted to public logs, each range with what it was checked on.

The newest range whose `since` is not above a version applies. What the constants mean in a sum is in `sizing.vllm`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from ragstow.facts.gpus import ComputeCapability
from ragstow.facts.table import Count, Date, Table, Text, Version

Positive = Annotated[float, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class ByCards:
    """An amount that depends on the tensor-parallel size: `mib` from so many cards on, with [low, high]."""

    cards: Count
    mib: Positive
    band_mib: tuple[float, float]


@dataclass(frozen=True, slots=True)
class BatchDefaults:
    """The engine's batch limits on a card of at least so much memory."""

    from_gib: Positive
    tokens: Count
    sequences: Count
    not_on: tuple[str, ...] = ()
    """Words in a product name to which this line does not apply."""


@dataclass(frozen=True, slots=True)
class VllmRange:
    """A range of versions with one behaviour.

    Activation peak = `sampler_bytes` x sequences x vocabulary + `hidden_factor` x tokens x hidden x dtype bytes +
    `activation_mib`, at least the MLP buffers, plus the experts' workspace where `expert_workspace`. `non_torch` and
    `context` (before the first snapshot, outside the budget) depend on the number of cards. `graphs` says whether CUDA graphs
    are taken off the budget ("inside") or come on top. `tokens` says what the logged number of cache tokens counts.
    """

    since: Version
    sampler_bytes: Positive
    hidden_factor: Positive
    activation_mib: Positive
    activation_band: tuple[float, float]
    expert_workspace: bool
    non_torch: tuple[ByCards, ...]
    context: tuple[ByCards, ...]
    graphs: Literal["inside", "outside"]
    graph_base_mib: Positive
    graph_layer_mib: Positive
    graph_full_sizes: Count
    graph_band: tuple[float, float]
    mla_copy: Literal["none", "projection", "absorbed"]
    mxfp4_pads_intermediate: bool
    utilization: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    batch_defaults: tuple[BatchDefaults, ...]
    chunked_prefill: bool
    tokens: Literal["blocks", "concurrency"]
    pinned_kv: bool
    min_compute_capability: ComputeCapability
    validated: bool
    band_percent: Positive
    source: Text
    checked: Date
    notes: str = ""


TABLE = Table("vllm.yaml", VllmRange, ("since",))


def version_key(version: str) -> tuple[int, ...]:
    """The numbers at the start of a version, for comparison ("0.11.0rc2" -> (0, 11, 0)); empty where there are none."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version.strip())
    return tuple(int(part) for part in match[1].split(".")) if match else ()


class Vllm:
    """The ranges, found by version."""

    def __init__(self, rows: tuple[VllmRange, ...]) -> None:
        self.rows = tuple(sorted(rows, key=lambda row: version_key(row.since)))

    def at(self, version: str) -> VllmRange:
        """The behaviour of that version; the oldest known one for versions before it."""
        key = version_key(version)
        found = self.rows[0]
        for row in self.rows:
            if version_key(row.since) <= key:
                found = row
        return found


def by_cards(steps: tuple[ByCards, ...], cards: int) -> ByCards:
    """The step for that many cards: the last whose `cards` is not above."""
    found = steps[0]
    for step in steps:
        if step.cards <= cards:
            found = step
    return found
