"""Sentences of refusals that several rooms of the planner use, with numbers in the units people read."""

from __future__ import annotations

GIB = 2**30


def gib(amount_bytes: int) -> str:
    """Bytes as "36.1 GiB"."""
    return f"{amount_bytes / GIB:.1f} GiB"


def listed(names: tuple[str, ...] | list[str], *, most: int = 4, last: str = "and") -> str:
    """Names as "a, b and c"; of many only the first and how many more."""
    names = list(names)
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}" if names else "nothing"


def plural(number: int, one: str, many: str | None = None) -> str:
    """ "1 card", "3 cards"."""
    return f"{number} {one if number == 1 else many or one + 's'}"
