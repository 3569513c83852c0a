"""Events by the object they are about, newest first, in both API shapes (core/v1 and events.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ragstow.cluster.objects import KubeObject
from ragstow.cluster.snapshot import Snapshot
from ragstow.rules.model import Evidence, ObjectRef


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `about` the object, `component` who wrote it, times as RFC 3339 texts ("" where unknown)."""

    about: ObjectRef
    reason: str
    message: str
    type: str
    component: str
    count: int
    first: str
    last: str

    @property
    def evidence(self) -> Evidence:
        """The event as evidence."""
        return Evidence(self.message, self.about, f"event {self.reason}")


class Events:
    """Event look-ups over one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @cached_property
    def all(self) -> tuple[Event, ...]:
        """Every event, newest first; ties in the order read."""
        raw = (*self._snapshot.of("Event"), *self._snapshot.of("Event", "events.k8s.io"))
        return tuple(sorted((_event(item) for item in raw), key=lambda event: event.last, reverse=True))

    @cached_property
    def _about(self) -> Mapping[ObjectRef, tuple[Event, ...]]:
        table: dict[ObjectRef, list[Event]] = {}
        for event in self.all:
            table.setdefault(event.about, []).append(event)
        return {key: tuple(events) for key, events in table.items()}

    def about(self, item: KubeObject | ObjectRef, *reasons: str) -> tuple[Event, ...]:
        """The events about an object, newest first, of these reasons (any, if none is named)."""
        ref = item if isinstance(item, ObjectRef) else ObjectRef.of(item)
        return tuple(event for event in self._about.get(ref, ()) if not reasons or event.reason in reasons)


def _event(item: KubeObject) -> Event:
    raw = item.raw
    about: Any = raw.get("involvedObject") or raw.get("regarding") or {}
    series: Any = raw.get("series") or {}
    source: Any = raw.get("source") or raw.get("deprecatedSource") or {}
    when = str(raw.get("eventTime") or item.created or "")
    last = str(series.get("lastObservedTime") or raw.get("lastTimestamp") or raw.get("deprecatedLastTimestamp") or when)
    return Event(
        about=ObjectRef(str(about.get("kind") or ""), str(about.get("namespace") or ""), str(about.get("name") or "")),
        reason=str(raw.get("reason") or ""),
        message=str(raw.get("message") or raw.get("note") or ""),
        type=str(raw.get("type") or "Normal"),
        component=str(raw.get("reportingComponent") or raw.get("reportingController") or source.get("component") or ""),
        count=int(series.get("count") or raw.get("count") or raw.get("deprecatedCount") or 1),
        first=str(raw.get("firstTimestamp") or raw.get("deprecatedFirstTimestamp") or when or last),
        last=last,
    )
