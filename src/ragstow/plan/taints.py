"""Which taints GPU pods of the service tolerate by themselves, and which keep a node out.

A taint that marks GPU nodes (a cloud's or the vendor's key, or one that says gpu) is tolerated and listed; any other one was
put there by somebody for a reason, so the user must name it (placement.tolerations).
"""

from __future__ import annotations

from collections.abc import Iterable

from ragstow.cluster.objects import Node, Taint, Toleration
from ragstow.facts import Facts
from ragstow.scheduling.taints import HARD_EFFECTS, first_untolerated, tolerated
from ragstow.spec.model import Toleration as WantedToleration

_VENDOR = "nvidia.com/"


def wanted(tolerations: Iterable[WantedToleration]) -> tuple[Toleration, ...]:
    """The user's tolerations in the cluster's form."""
    return tuple(
        Toleration(item.key or "", item.operator, item.value or "", item.effect or "", item.seconds) for item in tolerations
    )


def marks_gpu(taint: Taint, facts: Facts) -> bool:
    """Whether a taint only says that a node has GPUs."""
    if taint.key.startswith(_VENDOR) or "gpu" in f"{taint.key}={taint.value}".lower():
        return True
    return any(taint.key == known.key and taint.value == known.value for row in facts.clouds.rows for known in row.taints)


def added(node: Node, given: tuple[Toleration, ...], facts: Facts) -> tuple[Toleration, ...]:
    """Tolerations beside the given ones that a GPU pod needs for this node, for taints that mark GPUs only."""
    return tuple(
        Toleration(taint.key, "Exists", "", taint.effect)
        if taint.key.startswith(_VENDOR)
        else Toleration(taint.key, "Equal", taint.value, taint.effect)
        for taint in node.taints
        if taint.effect in HARD_EFFECTS and not tolerated(taint, given) and marks_gpu(taint, facts)
    )


def in_the_way(node: Node, tolerations: tuple[Toleration, ...]) -> Taint | None:
    """The first taint that keeps a pod with these tolerations off the node."""
    return first_untolerated(node.taints, tolerations)
