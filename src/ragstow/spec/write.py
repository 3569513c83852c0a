"""Components and placement as parts of a document, fields in the order of INTERFACE, absent ones left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstow.spec.model import Component, Placement


def component_document(component: Component) -> dict[str, Any]:
    """One entry of spec.components."""
    footprint, cache = component.footprint, component.cache
    fields: dict[str, Any] = {
        "name": component.name,
        "role": component.role,
        "engine": component.engine,
        "version": component.version,
        "image": component.image,
        "model": component.model,
        "modelConfig": _plain(component.model_config),
        "quantization": component.quantization,
        "dtype": component.dtype,
        "kvCacheDtype": component.kv_cache_dtype,
        "tensorParallel": component.tensor_parallel,
        "replicas": component.replicas,
        "context": component.context,
        "concurrency": component.concurrency,
        "maxBatchTokens": component.max_batch_tokens,
        "args": list(component.args) or None,
        "env": [
            _present({"name": item.name, "value": item.value, "valueFrom": _plain(item.value_from)}) for item in component.env
        ]
        or None,
        "footprint": None if footprint is None else {"memoryMiB": footprint.memory_mib, "cards": footprint.cards},
        "gpu": component.gpu,
        "cpu": str(component.cpu),
        "memory": str(component.memory),
        "cache": None
        if cache is None
        else _present({"size": str(cache.size), "storageClass": cache.storage_class, "accessMode": cache.access_mode}),
        "port": component.port,
        "vectors": component.vectors,
        "dimensions": component.dimensions,
        "isolation": component.isolation,
    }
    return _present(fields)


def placement_document(placement: Placement) -> dict[str, Any]:
    """spec.placement."""
    tolerations = [
        _present(
            {
                "key": item.key,
                "operator": item.operator,
                "value": item.value,
                "effect": item.effect,
                "tolerationSeconds": item.seconds,
            }
        )
        for item in placement.tolerations
    ]
    return _present(
        {
            "products": list(placement.products) or None,
            "sharing": list(placement.sharing) if placement.sharing_given else "auto",
            "together": [list(group) for group in placement.together] or None,
            "apart": [list(group) for group in placement.apart] or None,
            "survive": placement.survive,
            "maxCards": placement.max_cards,
            "nodeSelector": dict(placement.node_selector) or None,
            "tolerations": tolerations or None,
        }
    )


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
