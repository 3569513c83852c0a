"""Nodes that the scheduler cannot tell apart: swapping them changes no decision, only names.

Two nodes are alike when everything that plugins read of them is equal: labels (but the host name), taints, allocatable, images,
features, and of the pods on them what counts: sums, ports, labels, affinity, volumes. A node that somebody names (by host name,
a local volume, a device slice) is like no other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.world import World

_HOSTNAME = "kubernetes.io/hostname"


def classes(world: World, arrivals: Iterable[PodInfo]) -> dict[str, int]:
    """Node name -> number of its class, as the world is now; classes in node order."""
    named = _named(world, arrivals)
    numbers: dict[str, int] = {}
    found: dict[str, int] = {}
    for node in world.nodes:
        key = f"name {node.name}" if _mentioned(node, named) else _look(node)
        found[node.name] = numbers.setdefault(key, len(numbers))
    return found


def _named(world: World, arrivals: Iterable[PodInfo]) -> str:
    """Every text in which a node may be named."""
    parts: list[Any] = [dict(pod.pod.spec) for pod in arrivals]
    parts += [
        item.raw
        for kind, group in (("PersistentVolume", ""), ("ResourceSlice", "resource.k8s.io"))
        for item in world.objects(kind, group)
    ]
    parts += [item.raw.get("status") for item in world.objects("ResourceClaim", "resource.k8s.io")]
    parts += [pod.affinity for pod, _ in world.placed if pod.has_affinity]
    return json.dumps(parts, default=str)


def _mentioned(node: NodeInfo, named: str) -> bool:
    return any(json.dumps(name) in named for name in (node.name, node.labels.get(_HOSTNAME, node.name)))


def _look(node: NodeInfo) -> str:
    status: Mapping[str, Any] = node.node.status
    return json.dumps(
        [
            {key: value for key, value in sorted(node.labels.items()) if key != _HOSTNAME},
            _HOSTNAME in node.labels,
            [[taint.key, taint.value, taint.effect] for taint in node.node.taints],
            node.node.unschedulable,
            dict(sorted(node.allocatable.items())),
            node.max_pods,
            status.get("images") or [],
            status.get("declaredFeatures") or [],
            dict(sorted((name, amount) for name, amount in node.requested.items() if amount)),
            node.non_zero_cpu_milli,
            node.non_zero_memory_bytes,
            sorted([list(port), count] for port, count in node.ports.items()),
            sorted(_pod(pod) for pod in node.pods),
        ],
        sort_keys=True,
        default=str,
    )


def _pod(pod: PodInfo) -> str:
    volumes = [
        volume for volume in pod.pod.spec.get("volumes") or () if "projected" not in volume and "configMap" not in volume
    ]
    affinity = {side: pod.affinity.get(side) for side in ("podAffinity", "podAntiAffinity")}
    return json.dumps(
        [pod.namespace, dict(pod.labels), affinity, volumes, pod.terminating, pod.priority], sort_keys=True, default=str
    )
