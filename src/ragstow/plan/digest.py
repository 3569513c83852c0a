"""A digest of what a plan rests on: nodes with their GPUs and labels, who holds them, claims, the plugin's configuration.

The service's own pods are not part of it (they count as free), nor are clocks and resource versions: the same state gives
the same digest, whoever read it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ragstow.cluster import dra
from ragstow.facts import Facts
from ragstow.plan.situation import Situation

_VOLATILE = ("nvidia.com/gfd.timestamp",)
_PREFIXES = ("nvidia.com/", "ragstow.dev/")


def digest(situation: Situation) -> str:
    """SHA-256 of the GPU-relevant state, in hexadecimal."""
    state: dict[str, Any] = {
        "nodes": [_node(situation, name) for name in situation.nodes],
        "claims": sorted(
            [claim.key, sorted(str(device.device) for device in claim.devices), sorted(claim.pods)]
            for claim in dra.claims(situation.snapshot)
        ),
        "plugin": [
            situation.install.kind,
            situation.install.mig_strategy,
            dict(situation.install.config_data),
            situation.install.config_default,
        ],
    }
    return hashlib.sha256(json.dumps(state, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _relevant(label: str, facts: Facts) -> bool:
    """Whether a label says something about GPUs: the vendor's, ours, or a cloud's own way to name cards."""
    return (label.startswith(_PREFIXES) and label not in _VOLATILE) or label in facts.clouds.gpu_labels


def _node(situation: Situation, name: str) -> dict[str, Any]:
    node, gpus = situation.nodes[name], situation.gpus[name]
    return {
        "name": name,
        "labels": {key: value for key, value in node.labels.items() if _relevant(key, situation.facts)},
        "taints": sorted([taint.key, taint.value, taint.effect] for taint in node.taints if "unreachable" not in taint.key),
        "unschedulable": node.unschedulable,
        "ready": node.ready,
        "product": gpus.product,
        "sharing": gpus.sharing,
        "resources": {
            key: [use.capacity, use.allocatable, dict(sorted(use.holders.items()))] for key, use in gpus.resources.items()
        },
        "devices": [[item.device, item.claim, list(item.pods)] for item in gpus.claims],
    }
