"""The arithmetic of a Deployment's rolling update.

Source: pkg/controller/deployment/util ResolveFenceposts: maxUnavailable rounds down, maxSurge up; both 0 is maxUnavailable 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstow.cluster.objects import KubeObject


def removes_last(deployment: KubeObject) -> bool:
    """Whether the strategy keeps every old pod until a new one is ready: RollingUpdate with maxUnavailable rounding to 0."""
    update = _update(deployment)
    if update is None:
        return False
    return _amount(update.get("maxUnavailable", "25%"), replicas(deployment), up=False) == 0 and surge(deployment) > 0


def surge(deployment: KubeObject) -> int:
    """New pods that may exist beside the wanted number; 0 for strategy Recreate."""
    update = _update(deployment)
    return 0 if update is None else _amount(update.get("maxSurge", "25%"), replicas(deployment), up=True)


def replicas(deployment: KubeObject) -> int:
    """spec.replicas, 1 where it is absent."""
    value = _mapping(deployment.raw.get("spec")).get("replicas", 1)
    return value if isinstance(value, int) else 1


def _update(deployment: KubeObject) -> Mapping[str, Any] | None:
    strategy = _mapping(_mapping(deployment.raw.get("spec")).get("strategy"))
    return None if strategy.get("type") == "Recreate" else _mapping(strategy.get("rollingUpdate"))


def _amount(value: Any, of: int, *, up: bool) -> int:
    text = str(value)
    if text.endswith("%") and text[:-1].isdecimal():
        part = int(text[:-1]) * of
        return -(-part // 100) if up else part // 100
    return int(text) if text.isdecimal() else 0


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
