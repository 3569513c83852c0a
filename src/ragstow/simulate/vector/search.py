"""What a search over the nodes found: who passed, who was refused and why; spelt out node by node only when asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ragstow.scheduling.framework import Code, Status, Statuses
from ragstow.simulate.vector.arrays import Bools, Ints
from ragstow.simulate.vector.entry import Refusals


@dataclass(slots=True)
class Search:
    """See the module. To be asked before the world changes: refusals are read from live columns.

    `feasible` and `looked_at` are numbers of nodes in the order of the search, `refusals` the columns by plugin, `single`
    refusals that stand in no column; `names` are those of all nodes, `order` the calling order of the filters.
    """

    names: Sequence[str]
    order: Sequence[str]
    feasible: Ints
    looked_at: Ints
    refusals: Mapping[str, Refusals] = field(default_factory=dict)
    single: dict[int, Status] = field(default_factory=dict)
    error: Status | None = None

    def statuses(self) -> dict[str, Status]:
        """The first refusal of every node looked at, by name, in the order of the search."""
        by_number = dict(self.single)
        for plugin, said, nodes, codes in self._refused():
            known = {code: said.status(code).by(plugin) for code, _ in tally(codes)}
            by_number.update((number, known[code]) for number, code in zip(nodes.tolist(), codes.tolist(), strict=True))
        return {self.names[i]: by_number[i] for i in self.looked_at.tolist() if i in by_number}

    def counted(self) -> list[tuple[Status, int]]:
        """(status, how many nodes) of all refusals; a status may come up twice."""
        made = [(status, 1) for status in self.single.values()]
        for _, said, _, codes in self._refused():
            made.extend((said.status(code), number) for code, number in tally(codes))
        return made

    def reasons(self, outside: int, absent: Status) -> dict[str, int]:
        """Reason text -> number of nodes, in the event's order; `outside` nodes count for `absent`."""
        counts: Counter[str] = Counter()
        for status, number in self.counted():
            for text in status.texts:
                counts[text] += number
        for text in absent.texts if outside else ():
            counts[text] += outside
        return dict(sorted(counts.items(), key=lambda item: f"{item[1]} {item[0]}"))

    def _refused(self) -> Iterator[tuple[str, Refusals, Ints, Ints]]:
        """Plugin by plugin: its column, the nodes that it refused first, and its codes there."""
        out: Bools = np.zeros(len(self.names), dtype=np.bool_)
        out[self.looked_at] = True
        out[self.feasible] = False
        out[list(self.single)] = False
        left = self.looked_at[out[self.looked_at]]
        for plugin in self.order:
            said = self.refusals.get(plugin)
            if said is None or not len(left):
                continue
            codes = said.codes[left]
            hit = codes != 0
            yield plugin, said, left[hit], codes[hit]
            left = left[~hit]


class LateStatuses(Statuses):
    """The refusals of a search by node, spelt out when somebody asks for a node. `said` came before the search."""

    def __init__(self, search: Search, said: Mapping[str, Status]) -> None:
        super().__init__({})
        self._search, self._said = search, said
        self._whole: Mapping[str, Status] | None = None

    def _all(self) -> Mapping[str, Status]:
        if self._whole is None:
            self._whole = {**self._said, **self._search.statuses()}
        return self._whole

    def __getitem__(self, node: str) -> Status:
        return self._all()[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        if self._said or self._whole is not None:
            return len(self._all())
        return len(self._search.looked_at) - len(self._search.feasible)

    def number(self, code: Code) -> int:
        """How many nodes have a status with this code, without spelling them out."""
        if self._said or self._whole is not None:
            return super().number(code)
        return sum(number for status, number in self._search.counted() if status.code is code)


def tally(codes: Ints) -> list[tuple[int, int]]:
    """(code, how often), ascending; codes are small numbers in most cases."""
    if not len(codes):
        return []
    if int(codes.max()) > 4096:
        found, numbers = np.unique(codes, return_counts=True)
        return list(zip(found.tolist(), numbers.tolist(), strict=True))
    numbers = np.bincount(codes)
    found = np.flatnonzero(numbers)
    return list(zip(found.tolist(), numbers[found].tolist(), strict=True))
