"""What a node will offer and which labels it will carry once its cards are cut or shared as planned.

Asked of the device plugin's and GFD's own rules in `sharing`: a machine with these cards and this configuration. Labels of
others stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragstow.cluster.objects import Node
from ragstow.facts.gpus import split_product
from ragstow.plan.cardfacts import CardFacts
from ragstow.plan.steering import PRODUCT_LABEL
from ragstow.sharing import devices, labels, verdict
from ragstow.sharing.machine import Card, Instance, InstanceProfile, Machine

VENDOR = "nvidia.com/"
OURS = "ragstow.dev/"
_DRIVER, _CUDA, _MACHINE = (
    "nvidia.com/cuda.driver-version.full",
    "nvidia.com/cuda.runtime-version.full",
    "nvidia.com/gpu.machine",
)


@dataclass(frozen=True, slots=True)
class Afterwards:
    """GPU resources and vendor labels of a node after a change."""

    resources: Mapping[str, int]
    labels: Mapping[str, str]


def afterwards(
    node: Node, card: CardFacts, cuts: Sequence[Mapping[str, int]], config: Mapping[str, Any], strategy: str | None
) -> Afterwards:
    """What the plugin and GFD will make of a node.

    Args:
        node: the node as it is.
        card: its cards.
        cuts: for each card its MIG instances by profile; empty for a whole card.
        config: the plugin's configuration file.
        strategy: the MIG strategy that the environment sets over the file (the operator does), or None.
    """
    machine = _machine(node, card, cuts)
    text = json.dumps(config)
    env = {"MIG_STRATEGY": strategy} if strategy else {}
    offered = devices.offer(verdict.plugin(text, env={**env, "MPS_ROOT": "/run/nvidia/mps"}), machine).counts()
    resources = dict.fromkeys((name for name in node.allocatable if name.startswith(VENDOR)), 0)
    resources.update(offered)
    return Afterwards(dict(sorted(resources.items())), _labels(node, machine, text, env))


def _labels(node: Node, machine: Machine, config: str, env: Mapping[str, str]) -> dict[str, str]:
    kept = {key: value for key, value in node.labels.items() if key.startswith(VENDOR)}
    if PRODUCT_LABEL not in kept:
        return kept  # no GFD: nothing follows by itself
    made = labels.labels(verdict.gfd(config, env=env), machine).possible()[0]
    # A reading that the machine's description lacks stays what it was.
    known = {key: value for key, value in made.items() if key not in kept or not _unknown(key, value)}
    gone = {key for key in kept if key.startswith("nvidia.com/mig-") or (key == "nvidia.com/mig.strategy" and key not in made)}
    return {key: value for key, value in sorted({**kept, **known}.items()) if key not in gone or key in known}


def _unknown(key: str, value: str) -> bool:
    return key in ("nvidia.com/gpu.machine", "nvidia.com/gpu.mode", "nvidia.com/vgpu.present") or value == "unknown"


def _machine(node: Node, card: CardFacts, cuts: Sequence[Mapping[str, int]]) -> Machine:
    profiles = tuple(
        InstanceProfile(profile.role, profile.memory.mib, profile.multiprocessors or 0)
        for profile in (card.geometry.profiles if card.geometry is not None else ())
    )
    by_name = (
        {profile.name: made for profile, made in zip(card.geometry.profiles, profiles, strict=True)} if card.geometry else {}
    )
    product = split_product(node.labels.get(PRODUCT_LABEL, "") or card.product or "unknown").base
    cards = []
    for index, cut in enumerate(cuts):
        instances = tuple(
            Instance(
                by_name[profile], by_name[profile].slices, by_name[profile].multiprocessors, f"MIG-{index}-{profile}-{number}"
            )
            for profile, count in cut.items()
            for number in range(count)
        )
        cards.append(
            Card(
                product, f"GPU-{index}", card.label_mib, card.compute_capability or (0, 0), profiles, instances if cut else None
            )
        )
    major, _, minor = (node.labels.get(_CUDA) or "0.0").partition(".")
    cuda = int(major) * 1000 + int(minor or 0) * 10 if major.isdigit() and (minor or "0").isdigit() else 0
    return Machine(tuple(cards), node.labels.get(_DRIVER) or "0.0.0", cuda, node.labels.get(_MACHINE))
