"""Go durations ("1m30s") read and printed as Go's time package does (documentation of time.ParseDuration, Duration.String)."""

from __future__ import annotations

import re

from ragstow.sharing.gojson import Refused

INFINITE = 2**63 - 1
"""GFD's "infinite", in nanoseconds."""

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"(?P<whole>[0-9]*)(?P<dot>\.?)(?P<fraction>[0-9]*)(?P<unit>[^0-9.]*)")


def parse(text: str) -> int:
    """Nanoseconds of a duration.

    Raises:
        Refused: with Go's words.
    """
    invalid = Refused(f"time: invalid duration {quote(text)}", "duration")
    rest, negative = text, False
    if rest[:1] in ("-", "+"):
        negative, rest = rest[0] == "-", rest[1:]
    if rest == "0":
        return 0
    if not rest:
        raise invalid
    total = 0
    while rest:
        match = _PART.match(rest)
        if match is None or not (match["whole"] or match["fraction"]):
            raise invalid
        if not match["unit"]:
            raise Refused(f"time: missing unit in duration {quote(text)}", "duration")
        unit = _UNITS.get(match["unit"])
        if unit is None:
            raise Refused(f"time: unknown unit {quote(match['unit'])} in duration {quote(text)}", "duration")
        total += int(match["whole"] or "0") * unit
        if match["fraction"]:
            total += int(match["fraction"]) * unit // 10 ** len(match["fraction"])
        if total > 2**63 - (0 if negative else 1):
            raise invalid
        rest = rest[match.end() :]
    return -total if negative else total


def quote(text: str) -> str:
    """The text in quotes as the time package writes it: everything but plain ASCII as bytes."""
    shown = []
    for character in text:
        if character in '"\\':
            shown.append("\\" + character)
        elif " " <= character < "\x80":
            shown.append(character)
        else:
            shown += [f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass")]
    return f'"{"".join(shown)}"'


def show(nanoseconds: int) -> str:
    """A duration as Go prints it; GFD's infinite one as "infinite"."""
    if nanoseconds == INFINITE:
        return "infinite"
    if nanoseconds == 0:
        return "0s"
    sign, left = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if left < 10**9:
        unit, name = next((size, word) for size, word in ((1, "ns"), (10**3, "µs"), (10**6, "ms")) if left < size * 1000)
        return f"{sign}{_decimal(left, unit)}{name}"
    hours, left = divmod(left, 3600 * 10**9)
    minutes, left = divmod(left, 60 * 10**9)
    shown = f"{_decimal(left, 10**9)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{shown}"
    return f"{sign}{minutes}m{shown}" if minutes else f"{sign}{shown}"


def _decimal(amount: int, unit: int) -> str:
    whole, part = divmod(amount, unit)
    return f"{whole}.{str(part).zfill(len(str(unit)) - 1).rstrip('0')}" if part else str(whole)
