"""Does our answer agree with what the live scheduler wrote about a pod that is Pending?

The scheduler leaves its text in the PodScheduled condition and in FailedScheduling events. Where ours differs, either the data
are older or newer than that text, or the cluster decides by something we do not see; both are worth a warning.
"""

from __future__ import annotations

from collections.abc import Iterable

from ragstow.cluster.objects import KubeObject, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import Reason
from ragstow.simulate.model import PodEntry


def live_text(snapshot: Snapshot, pod: Pod) -> str | None:
    """The newest text of the live scheduler about a pod, None where there is none."""
    for condition in pod.status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable" and condition.get("message"):
            return str(condition["message"])
    events = [*snapshot.of("Event"), *snapshot.of("Event", "events.k8s.io")]
    told = [_told(event) for event in events if _about(event, pod)]
    return max(told)[1] if told else None


def _about(event: KubeObject, pod: Pod) -> bool:
    about = event.raw.get("involvedObject") or event.raw.get("regarding") or {}
    return (
        event.raw.get("reason") == "FailedScheduling"
        and about.get("kind") == "Pod"
        and about.get("name") == pod.name
        and about.get("namespace") == pod.namespace
    )


def _told(event: KubeObject) -> tuple[str, str]:
    raw = event.raw
    series = raw.get("series") or {}
    at = (
        series.get("lastObservedTime") or raw.get("lastTimestamp") or raw.get("eventTime") or raw.get("deprecatedLastTimestamp")
    )
    return (str(at or event.created or ""), str(raw.get("message") or raw.get("note") or ""))


def differences(snapshot: Snapshot, pending: Iterable[Pod], entries: Iterable[PodEntry]) -> tuple[Reason, ...]:
    """A warning for every Pending pod about which the live scheduler says something else than we do."""
    first: dict[str, PodEntry] = {}
    for entry in entries:
        first.setdefault(entry.key, entry)
    found: list[Reason] = []
    for pod in pending:
        written, ours = live_text(snapshot, pod), first.get(pod.key)
        if written is None or ours is None:
            continue
        if ours.node is not None:
            text = f"{pod.key}: here it fits on {ours.node}; the live scheduler wrote: {written}"
            found.append(Reason("event-differs", text, "the event may be older than the data, or the cluster is changing"))
        elif ours.message and not _same(written, ours.message):
            text = f"{pod.key}: the live scheduler wrote: {written}; here: {ours.message}"
            found.append(Reason("event-differs", text, "the event may be older than the data, or decided by another release"))
    return tuple(found)


def _same(written: str, ours: str) -> bool:
    """Equal up to what preemption adds: whether it ran is a choice here."""
    return _without_preemption(written) == _without_preemption(ours)


def _without_preemption(text: str) -> str:
    if text.endswith(". not found"):
        text = text.removesuffix(" not found")
    for mark in (" preemption:", " no new claims to deallocate,", " still not schedulable,"):
        text = text.partition(mark)[0]
    return text.strip()
