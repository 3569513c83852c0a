"""The service as every other room reads it: normalised, every default filled in, and for each value where it came from.

Data only, and no pydantic: what a person typed is checked in `ragstow.spec.document`, what it means is this. Names are those
of INTERFACE 2 in snake_case. Nothing here knows a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ragstow.quantity import Quantity

Role = Literal["llm", "embedder", "reranker", "vector-store", "ingest", "gateway"]
Isolation = Literal["none", "memory", "fault"]
GpuNeed = Literal["required", "preferred", "never"]
SharingMode = Literal["exclusive", "time-slicing", "mps", "mig", "dra"]
Survive = Literal["none", "node"]
AccessMode = Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]

SHARING_MODES: tuple[SharingMode, ...] = ("exclusive", "mig", "mps", "time-slicing", "dra")
"""Every mode, simplest first (INTERFACE 3, order of preference)."""

MODE_ISOLATION: Mapping[SharingMode, Isolation] = {
    "exclusive": "fault",
    "mig": "fault",
    "mps": "memory",
    "time-slicing": "none",
    "dra": "fault",
}
"""The most that a mode can promise (INTERFACE 2, what each mode gives); DRA by what a claim names."""

GIVEN = "given"
"""The origin of a value that the user wrote; any other origin is a sentence that says which default it is."""


@dataclass(frozen=True, slots=True)
class SecretKey:
    """A key of a Secret in the service's namespace; ragstow never reads its content."""

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class EnvVar:
    """An environment variable as Kubernetes has it: a value, or `value_from` (a Kubernetes EnvVarSource, kept as it is)."""

    name: str
    value: str | None = None
    value_from: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory that the user measured: what nvidia-smi shows per card at the peak, and the cards of one replica."""

    memory_mib: int
    cards: int = 1


@dataclass(frozen=True, slots=True)
class Cache:
    """The volume that keeps model files between starts (None storage class: the cluster's default)."""

    size: Quantity
    storage_class: str | None
    access_mode: AccessMode


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration that the user asked for, in Kubernetes' words."""

    key: str | None
    operator: Literal["Exists", "Equal"]
    value: str | None = None
    effect: str | None = None
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Component:
    """One component, all defaults filled in.

    `engine` is None where an image alone is given, `image` None where the facts' own for version and card is meant. `model` is
    what the engine is told to load; `model_config` is its config.json where the user gave one (a local folder or inline), else
    the catalogue of facts knows the model. `context` is tokens of one request (prompt and answer), `concurrency` requests at
    once, `max_batch_tokens` the engine's batch limit (None: the engine's own default for the card). `quantization` and
    `kv_cache_dtype` are names of the facts' tables, never None for a component whose model is known ("none": unquantised;
    "auto": the cache is kept in `dtype`).
    """

    name: str
    role: Role
    engine: str | None
    version: str | None
    image: str | None
    model: str | None
    model_config: Mapping[str, Any] | None
    quantization: str | None
    dtype: str | None
    kv_cache_dtype: str | None
    tensor_parallel: int
    replicas: int
    context: int | None
    concurrency: int | None
    max_batch_tokens: int | None
    args: tuple[str, ...]
    env: tuple[EnvVar, ...]
    footprint: Footprint | None
    gpu: GpuNeed
    cpu: Quantity
    memory: Quantity
    cache: Cache | None
    port: int | None
    vectors: int | None
    dimensions: int | None
    isolation: Isolation
    origins: Mapping[str, str] = field(default_factory=dict)
    """Field name -> `GIVEN`, or the sentence that says which default it is and where that comes from."""

    def given(self, name: str) -> bool:
        """Whether the user wrote this field himself."""
        return self.origins.get(name) == GIVEN


@dataclass(frozen=True, slots=True)
class Placement:
    """What the user demands of the layout. `sharing` are the allowed modes in order of preference ("auto" is all of them);
    `products` and the others are empty where nothing is demanded."""

    products: tuple[str, ...] = ()
    sharing: tuple[SharingMode, ...] = SHARING_MODES
    together: tuple[tuple[str, ...], ...] = ()
    apart: tuple[tuple[str, ...], ...] = ()
    survive: Survive = "none"
    max_cards: int | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    sharing_given: bool = False
    """Whether the user named modes himself (a refusal of them is then his to lift)."""


@dataclass(frozen=True, slots=True)
class Service:
    """A RagService, normalised. Components keep the order in which they were written."""

    name: str
    namespace: str
    components: tuple[Component, ...]
    placement: Placement
    isolation: Isolation = "memory"
    image_pull_secrets: tuple[str, ...] = ()
    model_token_secret: SecretKey | None = None
    notes: tuple[str, ...] = ()
    """What a person should know about the defaults taken (the engine version, an unverified model fact ...)."""

    def component(self, name: str) -> Component:
        """The component of that name; KeyError where there is none."""
        for component in self.components:
            if component.name == name:
                return component
        raise KeyError(name)
