"""The text of a FailedScheduling event (pkg/scheduler/framework/types.go, FitError)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ragstow.scheduling.framework import Status


def histogram(nodes: int, statuses: Mapping[str, Status], absent: Status) -> dict[str, int]:
    """Reason text -> number of nodes, in the event's order; nodes without a status of their own count for `absent`."""
    counts: Counter[str] = Counter()
    for status in statuses.values():
        counts.update(status.texts)
    rest = nodes - len(statuses)
    if rest > 0:
        for text in absent.texts:
            counts[text] += rest
    return dict(sorted(counts.items(), key=lambda item: f"{item[1]} {item[0]}"))


def fit_error(nodes: int, reasons: Mapping[str, int], pre_filter: str = "", post_filter: str = "") -> str:
    """The event's text: counts sorted as strings, or the pre-filter's message alone; then what the post-filters said."""
    text = f"0/{nodes} nodes are available:"
    if pre_filter:
        text += f" {pre_filter}."
    elif reasons:
        text += f" {', '.join(sorted(f'{count} {reason}' for reason, count in reasons.items()))}."
    return f"{text} {post_filter}" if post_filter else text
