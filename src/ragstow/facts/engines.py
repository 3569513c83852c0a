"""Engines and roles: who can serve what, on which cards, in which versions, and what a role gets by default.

How an engine is run in a pod is `facts.serving`; how it uses memory is `facts.vllm` or a formula of `sizing`, which the row
names. Rows cover engines that ragstow cannot size yet as well, so that they can be planned by a `footprint:`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from ragstow.facts.gpus import ComputeCapability
from ragstow.facts.table import Count, Date, Table, Text, Version

Role = Literal["llm", "embedder", "reranker", "vector-store", "ingest", "gateway"]
GpuNeed = Literal["required", "preferred", "never"]


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine.

    `roles` it can serve, `gpu` whether it needs one, `versions` newest first, `sizing` which formula sums its memory ("none":
    by footprint only; "host": it takes no GPU memory), `model_types` of config.json that it serves (empty: not limited),
    `compute_capabilities` of the cards that it has kernels for (empty: all from the least on), `flash_from` the one from which
    attention scores are not kept in memory, `flash_only_types` the models that run only there, `max_batch_tokens` its own
    default, `port_variable` the environment variable that it reads its port from, where that ends in _PORT. A vector store
    needs `host_memory_factor` x vectors x dimensions x `host_bytes_per_dimension` of host memory.
    """

    name: Text
    title: Text
    roles: tuple[Role, ...]
    gpu: GpuNeed
    sizing: Literal["vllm", "tei", "none", "host"]
    source: Text
    checked: Date
    versions: tuple[Version, ...] = ()
    needs_model: bool = True
    model_types: tuple[str, ...] = ()
    min_compute_capability: ComputeCapability | None = None
    compute_capabilities: tuple[ComputeCapability, ...] = ()
    flash_from: ComputeCapability | None = None
    flash_only_types: tuple[str, ...] = ()
    max_batch_tokens: Count | None = None
    host_bytes_per_dimension: Annotated[float, msgspec.Meta(gt=0)] | None = None
    host_memory_factor: Annotated[float, msgspec.Meta(ge=1)] = 1.0
    port_variable: str = ""
    notes: str = ""

    @property
    def newest(self) -> str | None:
        """The newest version that the facts know; None where the user must name an image."""
        return self.versions[0] if self.versions else None


def _check(row: Engine) -> Iterable[str]:
    if row.sizing == "vllm" and row.min_compute_capability is None:
        yield "min_compute_capability is missing"
    if row.sizing == "tei" and (row.max_batch_tokens is None or row.flash_from is None):
        yield "max_batch_tokens or flash_from is missing"


TABLE = Table("engines.yaml", Engine, ("name",), _check)


@dataclass(frozen=True, slots=True)
class RoleDefaults:
    """What a component of a role gets where the user says nothing: engine, processor and memory, request size and number."""

    role: Role
    title: Text
    engine: str | None
    gpu: GpuNeed
    needs_image: bool
    cpu: Text
    memory: Text
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]
    source: Text
    checked: Date
    context: Count | None = None
    concurrency: Count | None = None


ROLES = Table("roles.yaml", RoleDefaults, ("role",))


class Engines:
    """The rows, found by name; and the defaults by role."""

    def __init__(self, rows: tuple[Engine, ...], roles: tuple[RoleDefaults, ...]) -> None:
        self.rows = rows
        self.roles = {row.role: row for row in roles}
        self._rows = {row.name: row for row in rows}

    def find(self, name: str) -> Engine | None:
        """The engine of that name; None where unknown."""
        return self._rows.get(name)

    def for_role(self, role: str) -> tuple[Engine, ...]:
        """The engines that can serve a role, in the order of the table."""
        return tuple(row for row in self.rows if role in row.roles)

    def near(self, name: str) -> tuple[str, ...]:
        """Engine names that look like this one."""
        return tuple(difflib.get_close_matches(name.casefold(), list(self._rows), 2, 0.5))
