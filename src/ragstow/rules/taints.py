"""Taints that keep a pod off a node, as rules name them. Whether the pod fits is the scheduler's to say, not this room's."""

from __future__ import annotations

from ragstow.cluster.objects import Node, Pod, Taint, Toleration

_HARD = ("NoSchedule", "NoExecute")


def untolerated(node: Node, pod: Pod) -> list[Taint]:
    """Taints of the node that keep the pod off, in the node's order."""
    return [
        taint for taint in node.taints if taint.effect in _HARD and not any(_tolerates(item, taint) for item in pod.tolerations)
    ]


def stuck_taints(node: Node) -> tuple[str, ...]:
    """Keys of the taints of the node's own condition (not ready, unreachable, ...): a toleration is not what is missing."""
    return tuple(taint.key for taint in node.taints if taint.key.startswith("node.kubernetes.io/"))


def text(taint: Taint) -> str:
    """A taint as `kubectl taint` writes it."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or (bool(toleration.key) and toleration.value == taint.value)
