"""Which MIG instances fit on a card together, worked out from where instances may start and how long they are.

A multiset of roles or profiles is legal when non-overlapping placements for all of it exist and no maximum is exceeded. Sums of
slices are not enough: a 3g at start 0 takes the room of a fourth 1g (MIG user guide, `nvidia-smi mig -lgipp`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from ragstow.facts.drivers import version
from ragstow.facts.mig import Geometry

Layout = Mapping[str, int]
"""Role or profile name -> how many."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where instances of one kind may lie: possible starts and length in memory slices, and how many there may be."""

    starts: tuple[int, ...]
    size: int
    max: int


@dataclass(frozen=True, slots=True)
class Layouts:
    """All layouts of a card, smallest first.

    `legal`: every non-empty multiset that can be placed. `maximal`: those to which nothing can be added. `stuck`: those with
    a placement that leaves no room for anything more (all maximal ones are among them).
    """

    legal: tuple[dict[str, int], ...]
    maximal: tuple[dict[str, int], ...]
    stuck: tuple[dict[str, int], ...]


def layouts(kinds: Mapping[str, Placement], exclusive: Collection[str] = ()) -> Layouts:
    """Every layout of a card with these kinds of instances.

    Args:
        kinds: role or profile name -> its placements, in the order in which layouts name them.
        exclusive: kinds of which there may be one instance altogether (media engines exist once).
    """
    names = tuple(kinds)
    found: set[tuple[int, ...]] = set()
    stuck: set[tuple[int, ...]] = set()

    def room(used: int, counts: tuple[int, ...]) -> bool:
        return any(
            not used & _mask(start, kinds[name].size)
            for index, name in enumerate(names)
            if _may_add(index, names, counts, kinds, exclusive)
            for start in kinds[name].starts
        )

    def extend(used: int, counts: tuple[int, ...], after: int) -> None:
        if any(counts):
            found.add(counts)
            if not room(used, counts):
                stuck.add(counts)
        for index, name in enumerate(names):
            kind = kinds[name]
            if not _may_add(index, names, counts, kinds, exclusive):
                continue
            more = (*counts[:index], counts[index] + 1, *counts[index + 1 :])
            for start in kind.starts:
                # Placements are listed from left to right, so that each set comes up once.
                if start > after and not used & _mask(start, kind.size):
                    extend(used | _mask(start, kind.size), more, start)

    extend(0, (0,) * len(names), -1)
    maximal = {
        counts
        for counts in found
        if not any((*counts[:index], counts[index] + 1, *counts[index + 1 :]) in found for index in range(len(names)))
    }
    return Layouts(_in_order(found, names), _in_order(maximal, names), _in_order(stuck, names))


def place(
    kinds: Mapping[str, Placement], wanted: Layout, exclusive: Collection[str] = ()
) -> tuple[tuple[str, int], ...] | None:
    """Starts for all instances of a layout, as (kind, start) from left to right; None where it does not fit.

    Args:
        kinds: as in `layouts`.
        wanted: kind -> how many; a kind that the card lacks never fits.
        exclusive: as in `layouts`.
    """
    if any(count < 0 or (count and (name not in kinds or count > kinds[name].max)) for name, count in wanted.items()):
        return None
    if sum(wanted.get(name, 0) for name in exclusive) > 1:
        return None
    # Long ones first: they have the fewest starts.
    order = sorted((name for name, count in wanted.items() for _ in range(count)), key=lambda name: -kinds[name].size)

    def extend(index: int, used: int, placed: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...] | None:
        if index == len(order):
            return placed
        kind = kinds[order[index]]
        for start in reversed(kind.starts):
            mask = _mask(start, kind.size)
            if used & mask:
                continue
            found = extend(index + 1, used | mask, (*placed, (order[index], start)))
            if found is not None:
                return found
        return None

    found = extend(0, 0, ())
    return None if found is None else tuple(sorted(found, key=lambda item: item[1]))


def kinds_of(geometry: Geometry, *, driver: str | None = None, base_only: bool = False) -> dict[str, Placement]:
    """The profiles of a kind of card by name.

    Args:
        geometry: the card's geometry.
        driver: leave out profiles that this driver does not know yet.
        base_only: only 1g, 2g, 3g, 4g, 7g without suffixes, and no double-memory profile.
    """
    return {
        profile.name: Placement(profile.starts, profile.size, profile.max)
        for profile in geometry.profiles
        if (profile.base or not base_only)
        and (driver is None or profile.min_driver is None or version(driver) >= version(profile.min_driver))
    }


def exclusive_of(names: Iterable[str]) -> tuple[str, ...]:
    """The profiles or roles that own the card's media engines, of which there may be one instance (MIG user guide)."""
    return tuple(name for name in names if "+me" in name)


@lru_cache(maxsize=64)
def _of(kinds: tuple[tuple[str, Placement], ...]) -> Layouts:
    return layouts(dict(kinds), exclusive_of(name for name, _ in kinds))


def of_geometry(geometry: Geometry, *, driver: str | None = None, base_only: bool = False) -> Layouts:
    """All layouts of a kind of card, by profile name; the arguments are those of `kinds_of`."""
    return _of(tuple(kinds_of(geometry, driver=driver, base_only=base_only).items()))


def fits(geometry: Geometry, wanted: Layout, *, driver: str | None = None) -> bool:
    """Whether a layout (profile name -> count) can be made on a kind of card."""
    kinds = kinds_of(geometry, driver=driver)
    return place(kinds, wanted, exclusive_of(kinds)) is not None


def _mask(start: int, size: int) -> int:
    return ((1 << size) - 1) << start


def _may_add(
    index: int, names: tuple[str, ...], counts: tuple[int, ...], kinds: Mapping[str, Placement], exclusive: Collection[str]
) -> bool:
    name = names[index]
    if counts[index] >= kinds[name].max:
        return False
    return name not in exclusive or not any(counts[other] for other, kind in enumerate(names) if kind in exclusive)


def _in_order(found: Iterable[tuple[int, ...]], names: tuple[str, ...]) -> tuple[dict[str, int], ...]:
    return tuple(
        {name: count for name, count in zip(names, counts, strict=True) if count}
        for counts in sorted(found, key=lambda counts: (sum(counts), tuple(-count for count in counts)))
    )
