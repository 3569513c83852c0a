"""A component of the spec for tests, without going through a document."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ragstow.quantity import parse
from ragstow.spec.model import Component

_PLAIN = Component(
    name="llm",
    role="llm",
    engine="vllm",
    version="0.19.0",
    image=None,
    model="Qwen/Qwen2.5-7B-Instruct",
    model_config=None,
    quantization=None,
    dtype=None,
    kv_cache_dtype=None,
    tensor_parallel=1,
    replicas=1,
    context=8192,
    concurrency=16,
    max_batch_tokens=None,
    args=(),
    env=(),
    footprint=None,
    gpu="required",
    cpu=parse("4"),
    memory=parse("16Gi"),
    cache=None,
    port=None,
    vectors=None,
    dimensions=None,
    isolation="memory",
)


def component(**changes: Any) -> Component:
    """A 7B model on vLLM 0.19, with these fields changed."""
    return replace(_PLAIN, **changes)


def embedder(**changes: Any) -> Component:
    """A multilingual embedder on TEI, with these fields changed."""
    plain: dict[str, Any] = {"name": "embedder", "role": "embedder", "engine": "tei", "version": "1.9", "model": "BAAI/bge-m3"}
    return replace(_PLAIN, **{**plain, **changes})
