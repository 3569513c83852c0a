"""How an engine runs in a pod: image, command, flags, ports, probes, folders and how long its start may take.

What an engine needs of a card is in the sizing facts; here is only what a container must be told. Texts may hold the
placeholders {model}, {port} and {version}; the renderer fills them in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from ragstow.facts.drivers import version as version_of
from ragstow.facts.gpus import ComputeCapability
from ragstow.facts.table import Count, Date, Mib, Table, Text

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


@dataclass(frozen=True, slots=True)
class ImageChoice:
    """The image for cards of these compute capabilities, both ends included."""

    cc_from: ComputeCapability
    cc_to: ComputeCapability
    image: Text


@dataclass(frozen=True, slots=True)
class EngineFlags:
    """The engine's names for what a component says; None where it has no such flag."""

    tensor_parallel: str | None = None
    utilization: str | None = None
    kv_bytes: str | None = None
    context: str | None = None
    concurrency: str | None = None
    batch_tokens: str | None = None
    dtype: str | None = None
    quantization: str | None = None
    kv_dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Peers:
    """How replicas of a store find each other: `script` may hold {first}, {peers} (headless Service) and {port}."""

    port: Port
    command: tuple[str, ...]
    script: Text
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Serving:
    """One engine.

    `images` are tried by compute capability before `image`; `cpu_image` is for pods without a GPU. `model_dir` keeps model
    files, `data_dir` the data of a store. `start_seconds` is the time a start may take beside reading the weights at
    `load_mib_per_second`. `wait` is the interpreter in the image that can run a few lines of Python. `group` is the fsGroup
    under which an unprivileged image can write its volume, `user` whom the container runs as where the image would start as
    root to become somebody else. `health`, `ready` and `live` are pages; without any the port is tried. One of `needs_env` must
    be given, or the image does not start. `port_name` is what the port is called in pods and Services.
    """

    engine: Text
    image: Text
    port: Port
    start_seconds: Count
    source: Text
    checked: Date
    images: tuple[ImageChoice, ...] = ()
    cpu_image: str | None = None
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    flags: EngineFlags = EngineFlags()
    more_ports: Mapping[str, int] = field(default_factory=dict)
    port_name: Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9-]{0,14}$")] = "http"
    health: Text | None = None
    ready: str | None = None
    live: str | None = None
    model_dir: str | None = None
    data_dir: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    token_env: str | None = None
    group: int | None = None
    user: int | None = None
    needs_env: tuple[str, ...] = ()
    shm_mib: Mib | None = None
    shm_mib_per_card: Mib | None = None
    load_mib_per_second: Mib | None = None
    stop_seconds: Count = 30
    wait: tuple[str, ...] = ()
    peers: Peers | None = None

    def image_for(self, version: str | None, compute_capability: str | None) -> str | None:
        """The image of this version for a card; None where no version is known.

        Args:
            version: the engine's version.
            compute_capability: of the card ("8.9"); None means no GPU, "" an unknown card.
        """
        if version is None:
            return None
        image = self.image
        if compute_capability is None:
            image = self.cpu_image or self.image
        elif compute_capability:
            cc = version_of(compute_capability)
            image = next(
                (row.image for row in self.images if version_of(row.cc_from) <= cc <= version_of(row.cc_to)), self.image
            )
        return image.replace("{version}", version)


TABLE = Table("serving.yaml", Serving, ("engine",))


class Servings:
    """Lookups by engine name."""

    def __init__(self, rows: tuple[Serving, ...]) -> None:
        self.rows = rows
        self._by_name = {row.engine: row for row in rows}

    def get(self, engine: str | None) -> Serving | None:
        """How this engine runs; None for an engine that is not in the table (then an image must be given)."""
        return self._by_name.get(engine) if engine is not None else None
