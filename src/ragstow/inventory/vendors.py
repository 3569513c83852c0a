"""Allocators that keep their books in annotations: HAMi (which card each pod got) and KAI (who shares a reserved card)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ragstow.cluster.objects import Node, Pod

HAMI_REGISTER = "hami.io/node-nvidia-register"
_HAMI_ALLOCATED = "hami.io/vgpu-devices-allocated"
_KAI_RESERVATION = ("app", "kai-resource-reservation")
_KAI_GROUP = "runai-gpu-group"
_KAI_INDEX = "run.ai/reserve_for_gpu_index"
_KAI_ASKS = ("gpu-fraction", "gpu-memory")


@dataclass(frozen=True, slots=True)
class HamiCard:
    """A card as HAMi's plugin registers it, and the pods that hold a part of it."""

    uuid: str
    index: int | None
    shares: int
    memory_mib: int | None
    type: str
    pods: tuple[str, ...]


def hami_cards(node: Node, pods: Sequence[Pod]) -> tuple[HamiCard, ...]:
    """The cards that HAMi manages on a node; empty where it manages none."""
    registered = _registered(node.annotations.get(HAMI_REGISTER, ""))
    holders: dict[str, list[str]] = {}
    for pod in pods:
        for uuid in re.findall(r"([^,;:\s]+),[^,;:]*,[0-9]+,[0-9]+", pod.annotations.get(_HAMI_ALLOCATED, "")):
            if pod.key not in holders.setdefault(uuid, []):
                holders[uuid].append(pod.key)
    return tuple(
        HamiCard(uuid, index, shares, memory, kind, tuple(sorted(holders.get(uuid, ()))))
        for uuid, index, shares, memory, kind in registered
    )


def _registered(text: str) -> list[tuple[str, int | None, int, int | None, str]]:
    """A JSON list since 2.x (index 0 is left out there), before that `uuid,shares,MiB,cores,type,numa,health:` and so on."""
    if text.lstrip().startswith("["):
        try:
            listed = msgspec.json.decode(text)
        except msgspec.DecodeError:
            return []
        return [
            (
                str(item.get("id")),
                _number(item.get("index", 0)),
                _number(item.get("count")) or 1,
                _number(item.get("devmem")),
                str(item.get("type") or ""),
            )
            for item in listed
            if isinstance(item, dict) and item.get("id")
        ]
    found: list[tuple[str, int | None, int, int | None, str]] = []
    for index, part in enumerate(item for item in text.split(":") if item.count(",") >= 4):
        uuid, shares, memory, _, kind, *_rest = part.split(",")
        found.append((uuid, index, _number(shares) or 1, _number(memory), kind))
    return found


@dataclass(frozen=True, slots=True)
class KaiCard:
    """A card that KAI reserved to share it: the pod that holds it for the API, and those that use it."""

    uuid: str | None
    reservation: str
    pods: tuple[str, ...]


def kai_cards(pods: Sequence[Pod]) -> tuple[KaiCard, ...]:
    """The cards that KAI shares on a node, from the pods there."""
    label, value = _KAI_RESERVATION
    found = []
    for pod in sorted(pods, key=lambda pod: pod.key):
        if pod.labels.get(label) != value:
            continue
        groups = _kai_groups(pod)
        sharers = sorted(other.key for other in pods if groups & _kai_groups(other) and other is not pod)
        found.append(KaiCard(pod.annotations.get(_KAI_INDEX), pod.key, tuple(sharers)))
    return tuple(found)


def _kai_groups(pod: Pod) -> set[str]:
    """The reserved cards a pod is tied to: one label, or one label for each where it has several."""
    return {value for key, value in pod.labels.items() if key == _KAI_GROUP or key.startswith(f"{_KAI_GROUP}/")}


def asks_kai_for_a_fraction(pod: Pod) -> bool:
    """Whether the pod asks KAI for a part of a card (it names no nvidia.com/gpu at all)."""
    return any(key in pod.annotations for key in _KAI_ASKS) and pod.scheduler.startswith("kai")


def _number(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, str) and value.strip().isdigit() else None
