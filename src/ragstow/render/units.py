"""The workloads of one component: usually one; more where replicas need claims of different names.

A pod template can name one shared ResourceClaim only, so each replica that shares a card with another component's replica is
a workload of its own; what is left over is one more. All are behind the same Service and PodDisruptionBudget.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragstow.render import claims, names, volumes
from ragstow.render.model import Context, Item


@dataclass(frozen=True, slots=True)
class Unit:
    """One workload: its name, how many replicas, its label (None where it is the only one), and its DRA claim or template."""

    name: str
    replicas: int
    label: str | None = None
    claim: str | None = None
    template: str | None = None
    stateful: bool = False
    in_order: bool = False
    """Whether replicas start one after the other, because they may share a card and the engine measures free memory."""


def units(context: Context, item: Item) -> tuple[Unit, ...]:
    """The workloads of a component, in the order of their replicas."""
    replicas = item.component.replicas
    group = claims.sharers(context, item)
    if not group:
        template = names.of(item, "gpu") if item.slot.mode == "dra" else None
        in_order = replicas > 1 and _may_meet_itself(item)
        stateful = volumes.claim_per_replica(item) or in_order
        return (Unit(names.of(item), replicas, template=template, stateful=stateful, in_order=in_order),)
    count = claims.shared_count(context, item)
    if count == replicas == 1:
        return (Unit(names.of(item), 1, claim=claims.shared_name(group, 0, 1)),)
    made = [
        Unit(names.of(item, str(index)), 1, label=str(index), claim=claims.shared_name(group, index, count))
        for index in range(count)
    ]
    if replicas > count:
        template = names.of(item, "gpu")
        stateful = volumes.claim_per_replica(item) and replicas - count > 1
        made.append(Unit(names.of(item, "more"), replicas - count, label="more", template=template, stateful=stateful))
    return tuple(made)


def _may_meet_itself(item: Item) -> bool:
    shares = item.slot.mode in ("time-slicing", "mps") and item.slot.sharers > 1
    measures = item.serving is not None and item.serving.flags.utilization is not None
    return shares and measures and item.name not in item.planned.not_beside
