"""What has only just begun: nodes that joined minutes ago, pods that are still within the time that a start takes.

A driver is compiled, images are pulled and labels are set in the first minutes of a node; that is no fault yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from ragstow.cluster.objects import Node, Pod
from ragstow.rules.context import Context
from ragstow.rules.taints import stuck_taints
from ragstow.rules.times import parse

_JOINING = timedelta(minutes=10)
_STARTING = timedelta(minutes=10)


def just_joined(context: Context, node: Node) -> bool:
    """Whether a node is minutes old in a cluster that is not: where all nodes are new, nothing has been seen to work yet."""
    now, born = parse(context.now), parse(node.created)
    others = [made for item in context.snapshot.nodes if (made := parse(item.created)) is not None]
    return now is not None and born is not None and now - born < _JOINING and born - min(others) > _JOINING


def passing(context: Context, node: Node) -> bool:
    """Whether a node comes or goes: it joined minutes ago, is not ready for anybody, or is being deleted."""
    return bool(node.deleted) or bool(stuck_taints(node)) or just_joined(context, node)


def still_starting(context: Context, pod: Pod) -> bool:
    """Whether a pod is not ready, has not failed once, and is younger than its start-up probe allows (ten minutes at least)."""
    state = context.states.of(pod)
    if state is None or state.state not in ("starting", "unready") or any(container.restarts for container in state.containers):
        return False
    now, born = parse(context.now), parse(pod.created)
    patience = max((_budget(container.raw) for container in pod.containers), default=timedelta())
    return now is not None and born is not None and now - born < max(_STARTING, patience)


def _budget(container: Mapping[str, Any]) -> timedelta:
    probe = container.get("startupProbe")
    if not isinstance(probe, Mapping):
        return timedelta()
    # Defaults of the API: no initial delay, period 10 s, failureThreshold 3.
    period, tries = int(probe.get("periodSeconds") or 10), int(probe.get("failureThreshold") or 3)
    return timedelta(seconds=int(probe.get("initialDelaySeconds") or 0) + period * tries)
