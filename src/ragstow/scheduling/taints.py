"""Taints and tolerations (k8s.io/component-helpers scheduling/corev1/helpers.go, core/v1/toleration.go)."""

from __future__ import annotations

from collections.abc import Iterable

from ragstow.cluster.objects import Taint, Toleration

HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
CORDON_KEY = "node.kubernetes.io/unschedulable"
CONDITION_PREFIX = "node.kubernetes.io/"
"""What the control plane says about a node that takes no pods now: cordoned, not ready, out of something."""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers one taint: an empty effect or key covers all, operator Exists any value."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether any toleration covers the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def first_untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first NoSchedule or NoExecute taint that nothing tolerates."""
    for taint in taints:
        if taint.effect in HARD_EFFECTS and not tolerated(taint, tolerations):
            return taint
    return None
