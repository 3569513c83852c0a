"""Volumes: model caches, a store's data, shared memory; and which of them need a claim per replica.

A ReadWriteOnce volume can be attached to one node, so a component with more than one replica gets a claim for each
(a StatefulSet), never one that two nodes fight for.
"""

from __future__ import annotations

import math

from ragstow.quantity import NANO, Quantity
from ragstow.render import names
from ragstow.render.container import DATA, MIB, MODELS, SHM, mounts, needs_shm
from ragstow.render.model import Item, Manifest

GIB = 1024 * MIB


def storage(item: Item) -> tuple[str, Quantity, str | None, str] | None:
    """What must be kept between starts: (volume name, size, storage class, access mode); None where nothing must.

    A store without `cache` gets twice its raw vectors (4 bytes a dimension; segments are rewritten beside the old ones), at
    least 10 GiB.
    """
    cache = item.component.cache
    is_store = item.serving is not None and item.serving.data_dir is not None
    if cache is not None:
        return (DATA if is_store else MODELS), cache.size, cache.storage_class, cache.access_mode
    if not is_store:
        return None
    raw_bytes = (item.component.vectors or 0) * (item.component.dimensions or 0) * 4
    size_gib = max(10, math.ceil(2 * raw_bytes / GIB))
    return DATA, Quantity(size_gib * GIB * NANO, "binary"), None, "ReadWriteOnce"


def claim_per_replica(item: Item) -> bool:
    """Whether each replica needs a claim of its own."""
    kept = storage(item)
    if kept is None:
        return False
    return kept[0] == DATA or (item.component.replicas > 1 and kept[3] in ("ReadWriteOnce", "ReadWriteOncePod"))


def claim_spec(item: Item) -> Manifest | None:
    """The spec of the claim; None where nothing is kept."""
    kept = storage(item)
    if kept is None:
        return None
    _, size, storage_class, access_mode = kept
    return {
        "accessModes": [access_mode],
        **({"storageClassName": storage_class} if storage_class else {}),
        "resources": {"requests": {"storage": str(size)}},
    }


def claim(item: Item, name: str) -> Manifest | None:
    """A PersistentVolumeClaim on its own; None where nothing is kept or each replica brings its own."""
    spec = claim_spec(item)
    if spec is None:
        return None
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": item.service.namespace, "labels": names.labels(item)},
        "spec": spec,
    }


def volumes(item: Item, claim_name: str | None, templated: bool) -> list[Manifest]:
    """The pod's volumes.

    Args:
        item: the component.
        claim_name: the claim that holds its files, where it is one on its own.
        templated: whether the claim comes from a StatefulSet's template, which adds the volume by itself.
    """
    kept = storage(item)
    made: list[Manifest] = []
    for mount in mounts(item):
        name = mount["name"]
        if name == SHM:
            continue
        if kept is not None and name == kept[0]:
            if templated:
                continue
            if claim_name is not None:
                made.append({"name": name, "persistentVolumeClaim": {"claimName": claim_name}})
                continue
        made.append({"name": name, "emptyDir": {}})
    if needs_shm(item):
        serving = item.serving
        assert serving is not None
        cards = max(item.slot.count, item.component.tensor_parallel)
        size_mib = (serving.shm_mib or 0) + (serving.shm_mib_per_card or 0) * (cards if cards > 1 else 0)
        made.append(
            {"name": SHM, "emptyDir": {"medium": "Memory", "sizeLimit": str(Quantity(size_mib * MIB * NANO, "binary"))}}
        )
    return made
