"""Checks of one component that take several of its fields, or facts, together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ragstow.errors import InputError
from ragstow.facts import Facts
from ragstow.facts.engines import Engine
from ragstow.facts.models import Model
from ragstow.spec.lookup import Known
from ragstow.spec.problems import Where, near

_LONGEST_NAME = 63
# Deployments and StatefulSets append a hash or an ordinal to the names of their pods.
_ROOM_FOR_PODS = 17


def check_component(known: Known, service_name: str, facts: Facts, where: Where) -> Iterator[InputError]:
    """Everything wrong with one component, in the order of its fields."""
    yield from _names(known, service_name, where)
    yield from _required(known, facts, where)
    if known.engine is not None and known.model is not None:
        yield from _fits_engine(known, known.engine, known.model, facts, where)
    if known.model is not None:
        yield from _dimensions(known, known.model, where)
    yield from _precision(known, facts, where)
    yield from _numbers(known, facts, where)


def _error(where: Where, known: Known, field: str, code: str, message: str, hint: str = "") -> InputError:
    return where.error(code, (*known.path, field), message, hint)


def _names(known: Known, service_name: str, where: Where) -> Iterator[InputError]:
    longest = _LONGEST_NAME - _ROOM_FOR_PODS
    if len(f"{service_name}-{known.shape.name}") > longest:
        said = f"{service_name}-{known.shape.name} is too long for the names of its pods"
        yield _error(
            where, known, "name", "name-too-long", said, f"service and component together at most {longest - 1} characters"
        )


def _required(known: Known, facts: Facts, where: Where) -> Iterator[InputError]:
    shape, engine = known.shape, known.engine
    if known.needs_model and shape.model is None:
        example = next((row.id for row in facts.models.rows if row.role == shape.role and row.unsizable is None), "")
        hint = f"for example model: {example}; or footprint: {{memoryMiB: ...}} for a server that ragstow cannot sum"
        yield _error(where, known, "model", "model-missing", f"a component of role {shape.role} needs a model", hint)
    if known.role.needs_image and shape.image is None:
        yield _error(where, known, "image", "image-missing", f"a component of role {shape.role} needs an image")
    if engine is None:
        return
    if shape.image is None and facts.serving.get(engine.name) is None:
        hint = f"image: of {engine.title}"
        yield _error(where, known, "image", "image-missing", f"the facts have no image of {engine.title}", hint)
    serving = facts.serving.get(engine.name)
    named = {item.name for item in shape.env or ()}
    # An image of one's own may call these variables otherwise.
    if serving is not None and shape.image is None and serving.needs_env and not named & set(serving.needs_env):
        first = serving.needs_env[0]
        said = f"{engine.title} does not start without {first}"
        hint = f"env: [{{name: {first}, valueFrom: {{secretKeyRef: {{name: a Secret of yours, key: its key}}}}}}]"
        yield _error(where, known, "env", "env-missing", said, hint)
    if serving is not None and serving.data_dir and serving.peers is None and (shape.replicas or 1) > 1:
        said = f"replicas of {engine.title} are no cluster: each would keep its own data behind one Service"
        yield _error(where, known, "replicas", "replicas-apart", said, "replicas: 1, or an operator of your own for it")
    if known.gpu != "never" and shape.footprint is None and engine.sizing in ("none", "host"):
        said = f"ragstow cannot sum the GPU memory of {engine.title}"
        yield _error(where, known, "footprint", "footprint-missing", said, "measure it: footprint: {memoryMiB: ...}")
    if shape.gpu == "never" and engine.gpu == "required":
        yield _error(where, known, "gpu", "gpu-never", f"{engine.title} needs a GPU", "gpu: required, or another engine")
    if known.model is not None and known.model.unsizable is not None and shape.footprint is None:
        said = f"the memory of {known.model.id} cannot be summed: {known.model.unsizable}"
        yield _error(where, known, "model", "model-unsizable", said, "measure it: footprint: {memoryMiB: ...}")


def _fits_engine(known: Known, engine: Engine, model: Model, facts: Facts, where: Where) -> Iterator[InputError]:
    role = known.shape.role
    if role == "llm" and model.encoder:
        yield _error(
            where, known, "model", "model-role", f"{model.id} is an encoder: it cannot write text", "role: embedder or reranker"
        )
    if engine.sizing != "tei":
        return
    if engine.model_types and model.model_type not in engine.model_types:
        said = f"{engine.title} does not serve models of type {model.model_type} ({model.id})"
        yield _error(where, known, "engine", "engine-model", said, _other_engine(known, facts))
    elif role == "reranker" and not model.encoder:
        said = f"{engine.title} serves cross-encoders as rerankers, {model.id} is a decoder"
        yield _error(where, known, "engine", "engine-model", said, _other_engine(known, facts))


def _dimensions(known: Known, model: Model, where: Where) -> Iterator[InputError]:
    shape, cards = known.shape, known.shape.tensor_parallel or 1
    if shape.context is not None and shape.context > model.max_position:
        said = f"{model.id} ends at {model.max_position} tokens, context asks for {shape.context}"
        yield _error(where, known, "context", "context-too-long", said, f"context: {model.max_position}")
    if model.heads % cards:
        fitting = [str(count) for count in range(2, 17) if model.heads % count == 0]
        said = f"{model.heads} attention heads of {model.id} cannot be divided over {cards} cards"
        yield _error(where, known, "tensorParallel", "tensor-parallel", said, f"1, {', '.join(fitting)}")


def _precision(known: Known, facts: Facts, where: Where) -> Iterator[InputError]:
    shape, model = known.shape, known.model
    if shape.kv_cache_dtype is not None and facts.quantizations.kv(shape.kv_cache_dtype) is None:
        names = [row.name for row in facts.quantizations.kv_rows]
        hint = near(shape.kv_cache_dtype, names) or f"one of {', '.join(names)}"
        yield _error(
            where, known, "kvCacheDtype", "precision-unknown", f"unknown KV cache precision {shape.kv_cache_dtype!r}", hint
        )
    if shape.quantization is None:
        return
    scheme = facts.quantizations.find(shape.quantization)
    if scheme is None:
        names = [row.name for row in facts.quantizations.rows]
        hint = near(shape.quantization, names) or f"one of {', '.join(names)}"
        yield _error(where, known, "quantization", "precision-unknown", f"unknown quantization {shape.quantization!r}", hint)
        return
    if model is None:
        return
    own = model.quantization or "none"
    if scheme.name == own:
        return
    if own != "none":
        said = f"the checkpoint {model.id} is {own}, it cannot be loaded as {scheme.name}"
        yield _error(where, known, "quantization", "quantization", said, f"leave it out, or quantization: {own}")
    elif not scheme.online:
        listed = [row.id for row in facts.models.variants_of(model.id) if row.quantization == scheme.name]
        listed += [row.id for row in facts.models.rows if row.quantization == scheme.name and row.id.startswith(model.id)]
        hint = f"model: {listed[0]}" if listed else "name a checkpoint that has it; fp8 and bitsandbytes can be made at load"
        said = f"{scheme.name} is not made at load, and {model.id} is a 16-bit checkpoint"
        yield _error(where, known, "quantization", "quantization", said, hint)


def _numbers(known: Known, facts: Facts, where: Where) -> Iterator[InputError]:
    shape, engine = known.shape, known.engine
    measured = shape.footprint.cards if shape.footprint is not None else None
    if measured is not None and shape.tensor_parallel not in (None, measured):
        said = f"footprint.cards is {measured}, tensorParallel {shape.tensor_parallel}"
        yield _error(where, known, "footprint", "cards-contradict", said, "give one of them")
    if engine is not None and engine.sizing == "tei":
        for field, value in (("tensorParallel", shape.tensor_parallel), ("kvCacheDtype", shape.kv_cache_dtype)):
            if value not in (None, 1, "auto"):
                yield _error(
                    where,
                    known,
                    field,
                    "engine-field",
                    f"{engine.title} has no such setting",
                    f"{_other_engine(known, facts)}, or leave it out",
                )
        if shape.quantization not in (None, "none"):
            yield _error(where, known, "quantization", "engine-field", f"{engine.title} has no such setting", "leave it out")
    if known.gpu == "never" and (shape.tensor_parallel or 1) > 1:
        yield _error(where, known, "tensorParallel", "gpu-never", "a component without GPU has no cards to be cut over")
    store = shape.role == "vector-store"
    for field, given in (("vectors", shape.vectors), ("dimensions", shape.dimensions)):
        if given is not None and not store:
            yield _error(where, known, field, "field-role", f"{field} belongs to a vector-store, this is a {shape.role}")
    yield from _environment(known, where)


def _environment(known: Known, where: Where) -> Iterable[InputError]:
    seen: set[str] = set()
    for index, item in enumerate(known.shape.env or ()):
        path = (*known.path, "env", index)
        if (item.value is None) == (item.value_from is None):
            yield where.error("env", path, f"{item.name}: either value or valueFrom")
        if item.name in seen:
            yield where.error("env", path, f"{item.name} is given twice")
        seen.add(item.name)


def _other_engine(known: Known, facts: Facts) -> str:
    """An engine of this role that serves any model and can be summed."""
    able = [row.name for row in facts.engines.for_role(known.shape.role) if row.sizing == "vllm"]
    return f"engine: {able[0]}" if able else "another engine"
