"""Nodes for the tests of sharing modes, by hand and from recorded clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstow import facts
from ragstow.cluster.objects import Node
from ragstow.cluster.read import read
from ragstow.facts.gpus import Gpu, split_product
from ragstow.sharing.host import Host
from support import DATA

KNOWN = facts.load()


def card(product: str) -> Gpu:
    """The card of this product."""
    found = KNOWN.gpus.find(product)
    assert found is not None
    return found


def host(product: str, count: int = 1, **more: Any) -> Host:
    """A node of the chart with GFD and named configurations, unless told otherwise."""
    settings: dict[str, Any] = {
        "name": "n1",
        "gpus": (card(product),) * count,
        "driver": "580.95.05",
        "cuda": "13.0",
        "gfd": True,
        "named_configs": True,
        "resources": {"nvidia.com/gpu": count},
    }
    return Host(**(settings | more))


def node(cluster: str, name: str) -> Node:
    """A node of a recorded cluster."""
    snapshot = read(str(DATA / "clusters" / f"{cluster}.tar.gz"))
    return next(node for node in snapshot.nodes if node.name == name)


def gpu_resources(allocatable: Mapping[str, int]) -> dict[str, int]:
    """The vendor's resources of a node."""
    return {name: count for name, count in allocatable.items() if name.startswith("nvidia.com/")}


def recorded(cluster: str, name: str, **more: Any) -> Host:
    """A recorded node as a host."""
    found = node(cluster, name)
    gpu = card(split_product(found.labels["nvidia.com/gpu.product"]).base)
    settings: dict[str, Any] = {
        "name": name,
        "gpus": (gpu,) * int(found.labels["nvidia.com/gpu.count"]),
        "label_mib": int(found.labels["nvidia.com/gpu.memory"]),
        "driver": found.labels["nvidia.com/cuda.driver-version.full"],
        "cuda": found.labels["nvidia.com/cuda.runtime-version.full"],
        "gfd": True,
        "labels": found.labels,
        "resources": gpu_resources(found.allocatable),
    }
    return Host(**(settings | more))
