"""What an engine answers on its port: paths and the shapes of requests and answers, for whoever asks it whether it works.

How the engine is run is `facts.serving`. An engine serves only the calls of the task that it was started for: a row says what
it can answer, a component's role what it must.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from ragstow.facts.table import Date, Table, Text

Path = Annotated[str, msgspec.Meta(pattern=r"^/")]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


@dataclass(frozen=True, slots=True)
class Models:
    """How the loaded models are listed: `openai` data[].id, `tei` one model_id."""

    path: Path
    style: Literal["openai", "tei"]


@dataclass(frozen=True, slots=True)
class Embed:
    """How texts become vectors: `openai` input -> data[].embedding, `tei` inputs -> a list of vectors; `input_type` says that
    the request must tell a query from a passage."""

    path: Path
    style: Literal["openai", "tei"]
    input_type: bool = False


@dataclass(frozen=True, slots=True)
class Rerank:
    """How texts are ranked: the field that carries them is `documents` (Cohere, Jina), `texts` (TEI) or `passages` (NIM)."""

    path: Path
    style: Literal["documents", "texts", "passages"]


@dataclass(frozen=True, slots=True)
class Endpoints:
    """One engine.

    `health` is a GET that gives 200 when it can serve (on `health_port` where that is another port), `normalised` whether its
    vectors have length 1 (None: depends on the model), `name_flags` the flags that change the name under which a model is
    served, `any_model` that it answers whatever name is asked for. `store` is the language of a vector store.
    """

    engine: Text
    source: Text
    checked: Date
    health: Path | None = None
    health_port: Port | None = None
    models: Models | None = None
    chat: Path | None = None
    completion: Path | None = None
    embed: Embed | None = None
    rerank: Rerank | None = None
    normalised: bool | None = None
    name_flags: tuple[str, ...] = ()
    any_model: bool = False
    store: Literal["qdrant", "postgres"] | None = None


def _check(row: Endpoints) -> Iterable[str]:
    if row.health is None and row.store is None:
        yield "health is missing"


TABLE = Table("endpoints.yaml", Endpoints, ("engine",), _check)


class EndpointTable:
    """Lookups by engine name."""

    def __init__(self, rows: tuple[Endpoints, ...]) -> None:
        self.rows = rows
        self._by_name = {row.engine: row for row in rows}

    def get(self, engine: str | None) -> Endpoints | None:
        """What this engine answers; None for one that is not in the table (then only its probe is known)."""
        return self._by_name.get(engine) if engine is not None else None
