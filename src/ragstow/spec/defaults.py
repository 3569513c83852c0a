"""What an absent field becomes, and the sentence that says why."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragstow.facts import Facts
from ragstow.quantity import Quantity, parse
from ragstow.spec.check_placement import isolation_of
from ragstow.spec.document import SpecShape
from ragstow.spec.lookup import Known
from ragstow.spec.model import GIVEN, AccessMode, Cache, Component, EnvVar, Footprint

_GIB = 2**30
_TAG = re.compile(r":v?([0-9]+\.[0-9]+(?:\.[0-9]+)?)(?:[^0-9.].*)?$")


class Filler:
    """Fills the fields of one component and notes where each value came from.

    Args:
        known: the component.
        spec: the service around it.
        facts: defaults by role and engine.
        dimensions: of the service's embedder, for its vector store.
        recorded: origins that an earlier normalisation wrote down, by field.
    """

    def __init__(
        self, known: Known, spec: SpecShape, facts: Facts, dimensions: int | None, recorded: Mapping[str, str]
    ) -> None:
        self._known = known
        self._spec = spec
        self._facts = facts
        self._dimensions = dimensions
        self._recorded = recorded
        self.origins: dict[str, str] = {}

    def component(self) -> Component:
        """The component with every default filled in."""
        shape, known, role = self._known.shape, self._known, self._known.role
        model, engine = known.model, known.engine
        by_role = f"default of role {shape.role} ({role.source})"
        engine_name = self._take("engine", shape.engine, role.engine, by_role)
        version, version_origin = self._version()
        cards = self._take("tensor_parallel", shape.tensor_parallel, self._footprint_cards(), "default: one card")
        context, why_context = self._context()
        vectors = self._take("vectors", shape.vectors, None, "unknown")
        dimensions = self._take(
            "dimensions", shape.dimensions, self._default_dimensions(), "hidden size of the embedder's model"
        )
        serving = self._facts.serving.get(engine.name) if engine is not None else None
        sized = model is not None
        own_scheme = (model.quantization or "none") if model is not None else None
        return Component(
            name=shape.name,
            role=shape.role,
            engine=engine_name,
            version=self._take("version", shape.version.removeprefix("v") if shape.version else None, version, version_origin),
            image=self._take("image", shape.image, None, "the engine's own for its version and the card"),
            model=known.model_name,
            model_config=known.model_config,
            quantization=self._take("quantization", self._scheme(), own_scheme, "that of the checkpoint"),
            dtype=self._take("dtype", None if shape.dtype == "auto" else shape.dtype, self._dtype(), "that of the checkpoint"),
            kv_cache_dtype=self._take("kv_cache_dtype", shape.kv_cache_dtype, "auto" if sized else None, "as dtype"),
            tensor_parallel=cards,
            replicas=self._take("replicas", shape.replicas, 1, "default: one replica"),
            context=self._take("context", shape.context, context, why_context),
            concurrency=self._take("concurrency", shape.concurrency, role.concurrency, by_role),
            max_batch_tokens=self._take("max_batch_tokens", shape.max_batch_tokens, None, "the engine's own for the card"),
            args=tuple(shape.args or ()),
            env=tuple(EnvVar(item.name, item.value, item.value_from) for item in shape.env or ()),
            footprint=None
            if shape.footprint is None
            else Footprint(shape.footprint.memory_mib, shape.footprint.cards or cards),
            gpu=self._take("gpu", shape.gpu, known.gpu, "as its engine needs"),
            cpu=self._take("cpu", shape.cpu, parse(role.cpu), by_role),
            memory=self._memory(by_role, vectors, dimensions),
            cache=self._cache(),
            port=self._take("port", shape.port, serving.port if serving is not None else role.port, "the engine's port"),
            vectors=vectors,
            dimensions=dimensions,
            isolation=self._take("isolation", shape.isolation, isolation_of(known, self._spec), "that of the service"),
            origins=self.origins,
        )

    def _take(self, field: str, given: Any, default: Any, why: str) -> Any:
        """The given value or the default, with the origin noted."""
        if given is not None:
            self.origins[field] = self._recorded.get(field, GIVEN)
            return given
        self.origins[field] = why
        return default

    def _version(self) -> tuple[str | None, str]:
        shape, engine = self._known.shape, self._known.engine
        tag = _TAG.search(shape.image) if shape.image is not None and engine is not None else None
        if tag is not None:
            return tag[1], "the tag of the image"
        return (engine.newest if engine is not None else None), "the newest that the facts know"

    def _context(self) -> tuple[int | None, str]:
        role, model = self._known.role, self._known.model
        if role.context is None:
            return None, "not used"
        if model is not None and model.max_position < role.context:
            return model.max_position, "the end of the model"
        return role.context, f"default of role {role.role}"

    def _scheme(self) -> str | None:
        asked = self._known.shape.quantization
        row = self._facts.quantizations.find(asked) if asked is not None else None
        return row.name if row is not None else asked

    def _dtype(self) -> str | None:
        model = self._known.model
        if model is None:
            return None
        return "float16" if model.dtype == "float32" else model.dtype

    def _footprint_cards(self) -> int:
        footprint = self._known.shape.footprint
        return footprint.cards if footprint is not None and footprint.cards is not None else 1

    def _default_dimensions(self) -> int | None:
        return self._dimensions if self._known.shape.role == "vector-store" else None

    def _memory(self, by_role: str, vectors: int | None, dimensions: int | None) -> Quantity:
        engine = self._known.engine
        default, why = parse(self._known.role.memory), by_role
        if engine is not None and engine.host_bytes_per_dimension is not None and vectors and dimensions:
            needed = vectors * dimensions * engine.host_bytes_per_dimension * engine.host_memory_factor
            default = parse(f"{max(1, -(-int(needed) // _GIB) + 1)}Gi")
            per_vector = f"{engine.host_memory_factor} x {engine.host_bytes_per_dimension:.0f} bytes x dimensions"
            why = f"{per_vector} a vector, and 1 GiB ({engine.source})"
        memory: Quantity = self._take("memory", self._known.shape.memory, default, why)
        return memory

    def _cache(self) -> Cache | None:
        shape = self._known.shape.cache
        if shape is None:
            return None
        mode: AccessMode = shape.access_mode or "ReadWriteOnce"
        return Cache(shape.size, shape.storage_class, mode)


def embedder_dimensions(components: Sequence[Known]) -> int | None:
    """The length of the service's vectors, where all its embedders agree on one."""
    sizes = {known.model.hidden_size for known in components if known.shape.role == "embedder" and known.model is not None}
    return sizes.pop() if len(sizes) == 1 else None
