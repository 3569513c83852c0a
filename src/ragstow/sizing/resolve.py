"""From a component of the spec to what the formulas need: the model's dimensions, precisions, engine version, request size."""

from __future__ import annotations

from dataclasses import dataclass

from ragstow.errors import InputError, Place
from ragstow.facts import Facts
from ragstow.facts.engines import Engine
from ragstow.facts.model_config import from_config
from ragstow.facts.models import Model
from ragstow.facts.quantization import KvDtype, Quantization
from ragstow.spec.model import Component

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


@dataclass(frozen=True, slots=True)
class Resolved:
    """A component whose names have become facts. `kv_element_bytes` is what one cached value takes."""

    component: Component
    model: Model
    engine: Engine
    version: str
    scheme: Quantization
    kv_dtype: KvDtype
    dtype: str
    dtype_bytes: int
    kv_element_bytes: float
    cards: int
    context: int
    concurrency: int


def resolve(component: Component, facts: Facts) -> Resolved:
    """The component with its names looked up.

    Raises:
        InputError: a model, engine or precision that the facts do not know, or a model that cannot be summed.
    """
    place = Place(field=f"component {component.name}")
    engine = facts.engines.find(component.engine or "")
    if engine is None:
        raise InputError("engine-unknown", f"engine {component.engine!r} is not in the facts", place=place)
    if component.model is None:
        raise InputError("model-missing", "a sum needs a model", place=place, hint="model: or footprint:")
    model = model_of(component, facts)
    if model is None:
        near = facts.models.near(component.model)
        raise InputError("model-unknown", f"model {component.model!r} is not in the facts", place=place, hint=_near(near))
    if model.unsizable is not None:
        raise InputError(
            "model-unsizable",
            f"the memory of {model.id} cannot be summed: {model.unsizable}",
            place=place,
            hint="measure it and give footprint: {memoryMiB: ...}",
        )
    scheme_name = component.quantization or model.quantization or "none"
    scheme = facts.quantizations.find(scheme_name)
    kv_dtype = facts.quantizations.kv(component.kv_cache_dtype or "auto")
    if scheme is None or kv_dtype is None:
        unknown = scheme_name if scheme is None else component.kv_cache_dtype
        raise InputError("precision-unknown", f"precision {unknown!r} is not in the facts", place=place)
    dtype = component.dtype or ("float16" if model.dtype == "float32" else model.dtype)
    return Resolved(
        component=component,
        model=model,
        engine=engine,
        version=component.version or engine.newest or "unknown",
        scheme=scheme,
        kv_dtype=kv_dtype,
        dtype=dtype,
        dtype_bytes=DTYPE_BYTES[dtype],
        kv_element_bytes=kv_dtype.bytes or DTYPE_BYTES[dtype],
        cards=component.tensor_parallel,
        context=min(component.context or model.max_position, model.max_position),
        concurrency=component.concurrency or 1,
    )


def model_of(component: Component, facts: Facts) -> Model | None:
    """The dimensions of a component's model: its own config.json where given, else the table's; None where unknown."""
    if component.model is None:
        return None
    if component.model_config is not None:
        role = component.role
        return from_config(component.model, component.model_config, role if role in ("embedder", "reranker") else "llm")
    return facts.models.find(component.model)


def _near(names: tuple[str, ...]) -> str:
    known = f"did you mean {' or '.join(names)}? " if names else ""
    return f"{known}Else give config.json (model: ./folder) or footprint: {{memoryMiB: ...}}"
