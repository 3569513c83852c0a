"""What autoscalers say about waiting pods: cluster-autoscaler's and Karpenter's events, taken apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ragstow.rules.context import Context
from ragstow.rules.index.events import Event
from ragstow.rules.waiting import Waiting, waiting

REASONS = ("NotTriggerScaleUp", "FailedScaleUp", "FailedScheduling", "ScaleUpFailed")
_LACKING = re.compile(
    r"Insufficient (?P<resource>[\w.-]+/[\w.-]+)"
    r"|no instance type (?:satisfied|has enough) resources \{[^}]*\"(?P<unknown>nvidia\.com/[\w.-]+)\""
)
"""cluster-autoscaler names the resource that its template lacks; Karpenter what no instance type that it may launch has."""
_LIMIT = re.compile(
    r"(?i)max node group size reached|max(?:imum)? (?:cluster|node) (?:size|limit)|exceed[^,;]* limits? for"
    r"|limits? (?:of|for) (?:node ?pool|provisioner)|quota|insufficient capacity|out of (?:stock|resources)"
    r"|ZONE_RESOURCE_POOL_EXHAUSTED|(?:in )?backoff after failed scale-up|max pods"
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An autoscaler's refusal for a waiting workload: the extended resource it finds lacking, and the limit it names."""

    group: Waiting
    event: Event
    lacking: str | None
    limit: str | None


def refusals(context: Context) -> Iterator[Refusal]:
    """The newest word of an autoscaler about each waiting workload, where it is a refusal."""
    program = context.facts.stack.role("autoscaler")
    known = program.containers if program is not None else ()
    for group in waiting(context):
        for pod in group.pods:
            said = [event for event in context.events.about(pod) if _from_autoscaler(event, known)]
            if not said or said[0].reason in ("TriggeredScaleUp", "Nominated"):
                continue
            lacking, limit = _LACKING.search(said[0].message), _LIMIT.search(said[0].message)
            yield Refusal(
                group, said[0], (lacking["resource"] or lacking["unknown"]) if lacking else None, limit[0] if limit else None
            )
            break


def _from_autoscaler(event: Event, known: tuple[str, ...]) -> bool:
    its_own = any(name in event.component for name in known)
    return event.reason in ("NotTriggerScaleUp", "TriggeredScaleUp") or (its_own and event.reason in (*REASONS, "Nominated"))
