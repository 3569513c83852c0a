"""Times as the API server writes them, and how long ago they were, in words. No clock: now is an argument."""

from __future__ import annotations

from datetime import UTC, datetime


def parse(text: object) -> datetime | None:
    """An RFC 3339 time in UTC; None where it is none."""
    if not isinstance(text, str) or not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def ago(since: str | None, now: str) -> str:
    """How long before `now` that was: "40 s", "37 min", "5 h", "12 d"; "" where either is unknown or it lies after."""
    start, end = parse(since), parse(now)
    if start is None or end is None or end < start:
        return ""
    seconds = int((end - start).total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
