"""Wires what a rule may ask: the snapshot, its inventory, and the scheduler's answers. The one place that knows all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ragstow.cluster.claimsmade import uses_claims, with_claims
from ragstow.cluster.demand import pod_demand, resource_names
from ragstow.cluster.objects import Pod, Resources
from ragstow.cluster.release import detect
from ragstow.cluster.snapshot import Snapshot
from ragstow.facts import Facts
from ragstow.inventory.build import inventory
from ragstow.inventory.model import Inventory
from ragstow.rules.context import Context, PendingVerdict
from ragstow.rules.model import Report
from ragstow.rules.run import diagnose
from ragstow.scheduling.behaviours import DYNAMIC_RESOURCES, NEWEST
from ragstow.scheduling.release import Release
from ragstow.simulate.why import Explainer

_WITH_CLAIMS = Release.parse("1.34")


def make_context(
    snapshot: Snapshot, facts: Facts, *, found: Inventory | None = None, release: str | None = None, now: str | None = None
) -> Context:
    """The context of a snapshot.

    Args:
        snapshot: the cluster.
        facts: tables of facts.
        found: its inventory, where it is at hand.
        release: the release to decide as (default: the cluster's own).
        now: an RFC 3339 time; without it the moment a live cluster was read or captured, else the newest time in the snapshot.
    """
    decided_as = Release.parse(detect(snapshot, newest_recorded=str(NEWEST), asked=release).version)
    if uses_claims(snapshot) and not DYNAMIC_RESOURCES.at(decided_as):
        decided_as = _WITH_CLAIMS  # a beta release whose feature gate is on: decided as the first that has it by default
    return Context(
        snapshot=snapshot,
        inventory=found if found is not None else inventory(snapshot, facts),
        facts=facts,
        now=now or max(snapshot.source.taken_at or "", newest_time(snapshot)),
        requests=_requests,
        pending=_pending(snapshot, decided_as),
        elsewhere=lambda other: _pending(other, decided_as),
    )


def diagnose_cluster(
    snapshot: Snapshot, facts: Facts, *, found: Inventory | None = None, release: str | None = None, now: str | None = None
) -> Report:
    """What is wrong in a cluster, root causes first; arguments as for `make_context`."""
    return diagnose(make_context(snapshot, facts, found=found, release=release, now=now))


def newest_time(snapshot: Snapshot) -> str:
    """The newest time of an event, a condition or a creation; "" where there is none."""
    return max(_times(snapshot), default="")


def _times(snapshot: Snapshot) -> Iterable[str]:
    for (_, kind), table in snapshot.objects.items():
        for item in table.values():
            if item.created:
                yield item.created
            if kind == "Event":
                for key in ("lastTimestamp", "eventTime", "firstTimestamp"):
                    when = item.raw.get(key)
                    if isinstance(when, str):
                        yield when[:19] + "Z"
    for status in (*(pod.status for pod in snapshot.pods), *(node.status for node in snapshot.nodes)):
        for condition in status.get("conditions") or ():
            when = condition.get("lastTransitionTime") if isinstance(condition, dict) else None
            if isinstance(when, str):
                yield when


def _requests(pod: Pod) -> Resources:
    return {name: pod_demand(pod, name) for name in sorted(resource_names(pod))}


def _pending(snapshot: Snapshot, release: Release) -> Callable[[Pod], PendingVerdict]:
    made: list[tuple[Snapshot, Explainer]] = []

    def ask(pod: Pod) -> PendingVerdict:
        if not made:
            told = with_claims(snapshot)
            made.append((told, Explainer(told, release)))
        whole, explainer = made[0]
        known = whole.get("Pod", pod.name, pod.namespace) if snapshot.get("Pod", pod.name, pod.namespace) is pod else None
        verdict = explainer.explain(known if isinstance(known, Pod) else pod)
        return PendingVerdict(verdict.obstacles, verdict.plugins, verdict.feasible, verdict.message, verdict.before)

    return ask
