"""Topology hints and how the topology manager merges them (cm/topologymanager: policy.go, numa_info.go, bitmask).

A mask is an integer with bit i set for NUMA node i; None is "no preference". Merging looks at every combination of one hint
from each list; because only the AND of the masks counts, the combinations are folded list by list and never multiplied out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hint:
    """A NUMA affinity (bit mask, None = any) and whether it is a preferred one."""

    mask: int | None
    preferred: bool


ANY = (Hint(None, True),)
"""What a provider without an opinion contributes."""
IMPOSSIBLE = (Hint(None, False),)
"""What a provider contributes whose request no NUMA node combination can meet."""

Lists = Sequence[Sequence[Hint]]


def bits(mask: int) -> tuple[int, ...]:
    """The NUMA node ids of a mask, ascending."""
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)


def mask_of(ids: Iterable[int]) -> int:
    """The mask of these NUMA node ids."""
    mask = 0
    for i in ids:
        mask |= 1 << i
    return mask


def submasks(mask: int) -> Iterable[int]:
    """All non-empty subsets of a mask."""
    sub = mask
    while sub:
        yield sub
        sub = (sub - 1) & mask


def merge(lists: Lists, everything: int, distance: Callable[[int], int] | None = None) -> Hint:
    """The best merged hint, or all nodes, not preferred, where no combination leaves a node.

    Args:
        lists: one list of hints a resource; a list is either masks or a single hint without mask.
        everything: the mask of all NUMA nodes.
        distance: sum of distances within a mask, for prefer-closest-numa-nodes; None: lower bits win.
    """

    def rank(mask: int) -> tuple[int, int]:
        return (distance(mask) if distance else 0, mask)

    if any(not hints for hints in lists):
        return Hint(everything, False)
    best = _preferred(lists, everything)
    if best:
        narrowest = min(mask.bit_count() for mask in best)
        return Hint(min((m for m in best if m.bit_count() == narrowest), key=rank), True)
    left = _ands(lists, everything)
    left.discard(0)
    if not left:
        return Hint(everything, False)
    wanted = max((min(h.mask.bit_count() if h.mask is not None else 0 for h in hints) for hints in lists), default=0)
    below = [mask.bit_count() for mask in left if mask.bit_count() <= wanted]
    size = max(below) if below else min(mask.bit_count() for mask in left)
    return Hint(min((m for m in left if m.bit_count() == size), key=rank), False)


def _preferred(lists: Lists, everything: int) -> set[int]:
    """Masks of the combinations in which every hint is preferred and all masks are equal."""
    common: set[int] | None = None
    for hints in lists:
        if hints[0].mask is None:
            if not hints[0].preferred:
                return set()
            continue
        masks = {hint.mask & everything for hint in hints if hint.preferred and hint.mask is not None}
        common = masks if common is None else common & masks
    found = {everything} if common is None else common
    return found - {0}


def _ands(lists: Lists, everything: int) -> set[int]:
    """Every AND of one mask from each list."""
    found = {everything}
    for hints in lists:
        masks = {hint.mask if hint.mask is not None else everything for hint in hints}
        if len(found) * len(masks) <= 4 * everything.bit_count() * (everything + 1):
            found = {one & other for one in found for other in masks}
        else:
            found = _convolve(found, {mask & everything for mask in masks}, everything.bit_length())
    return found


def _convolve(one: set[int], other: set[int], width: int) -> set[int]:
    """The same as all pairwise ANDs, counted through superset sums (zeta and Moebius transform)."""
    size = 1 << width
    left, right = [0] * size, [0] * size
    for mask in one:
        left[mask] = 1
    for mask in other:
        right[mask] = 1
    for table in (left, right):
        for bit in range(width):
            step = 1 << bit
            for mask in range(size):
                if not mask & step:
                    table[mask] += table[mask | step]
    both = [a * b for a, b in zip(left, right, strict=True)]
    for bit in range(width):
        step = 1 << bit
        for mask in range(size):
            if not mask & step:
                both[mask] -= both[mask | step]
    return {mask for mask, count in enumerate(both) if count}
