"""NodeResourcesFit and BalancedAllocation over columns: the same integers and floats as `strategies`, all nodes at once.

Each keeps its answer for one shape of pods and brings it up to date for the nodes that changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragstow.scheduling.behaviours import FIT_UNRESOLVABLE
from ragstow.scheduling.framework import Status, unresolvable, unschedulable
from ragstow.scheduling.plugins.balanced_allocation import BalancedAllocation
from ragstow.scheduling.plugins.node_resources_fit import TOO_MANY_PODS, NodeResourcesFit
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.requests import is_scalar
from ragstow.simulate.vector.arrays import Floats, Ints, NodeArrays

Where = Ints | slice
"""Numbers of the nodes in question, or all of them."""

EVERYWHERE = slice(None)


class FitFilter:
    """What is short on every node, as bits: bit 0 too many pods, bit i the i-th wanted resource, the last bit hopeless."""

    def __init__(self, plugin: NodeResourcesFit, pod: PodInfo, arrays: NodeArrays) -> None:
        self.wanted = plugin.wanted(pod)
        self.hopeless = 1 << (len(self.wanted) + 1)
        self.resolvable = not FIT_UNRESOLVABLE.at(plugin.handle.release)
        self.room = arrays.room
        # A request above the whole allocatable is short whatever runs there.
        self.always: Ints = np.zeros(arrays.count, dtype=np.int64)
        self.columns: list[tuple[int, int, Ints]] = []
        for number, (name, amount) in enumerate(self.wanted):
            self.always |= (amount > arrays.allocatable(name)) * (self.hopeless | 2 << number)
            self.columns.append((2 << number, amount, arrays.free(name)))
        self.short: Ints = np.zeros(arrays.count, dtype=np.int64)
        self.update(EVERYWHERE)

    def update(self, where: Where) -> None:
        """Ask the nodes in question again."""
        bits = self.always[where] | (self.room[where] < 1)
        for bit, amount, free in self.columns:
            bits |= (amount > free[where]) * bit
        self.short[where] = bits

    def status(self, bits: int) -> Status:
        """The refusal that bits stand for."""
        texts = [TOO_MANY_PODS] if bits & 1 else []
        texts.extend(f"Insufficient {name}" for i, (name, _) in enumerate(self.wanted) if bits & (2 << i))
        hopeless = bool(bits & self.hopeless) and not self.resolvable
        return (unresolvable if hopeless else unschedulable)(*texts)


@dataclass(slots=True)
class _Column:
    """One resource of a score: weight (0 on nodes that have none of it), what is requested, what there is."""

    weight: Ints
    plain_weight: int
    asked: int
    requested: Ints
    allocatable: Ints
    divisor: Ints


class FitScore:
    """The strategy's score on every node."""

    def __init__(self, plugin: NodeResourcesFit, pod: PodInfo, arrays: NodeArrays) -> None:
        self.kind = plugin.kind
        self.columns: list[_Column] = []
        self.table = (
            np.array([plugin.shape.at(percent) for percent in range(101)], dtype=np.int64) if plugin.shape.points else None
        )
        self.weights: Ints = np.zeros(arrays.count, dtype=np.int64)
        for resource in plugin.resources:
            name, asked = resource.name, pod.sums.scored.get(resource.name, 0)
            if asked == 0 and is_scalar(name):
                continue
            if name == "cpu":
                requested = arrays.non_zero_cpu
            elif name == "memory":
                requested = arrays.non_zero_memory
            else:
                requested = arrays.requested(name)
            has = arrays.allocatable(name)
            weight = (has > 0) * resource.weight
            self.weights += weight
            self.columns.append(_Column(weight, resource.weight, asked, requested, has, np.maximum(has, 1)))
        self.uniform = all(bool((column.weight == column.plain_weight).all()) for column in self.columns)
        self.weights = np.maximum(self.weights, 1)
        self.scores: Ints = np.zeros(arrays.count, dtype=np.int64)
        self.update(EVERYWHERE)

    def update(self, where: Where) -> None:
        """Score the nodes in question again."""
        if self.table is not None and self.kind == "RequestedToCapacityRatio":
            self.scores[where] = self._ratio(where, self.table)
            return
        total: Ints | None = None
        for column in self.columns:
            if self.kind == "LeastAllocated":
                part = np.maximum(column.allocatable[where] - column.asked - column.requested[where], 0)
            else:
                part = np.minimum(column.requested[where] + column.asked, column.allocatable[where])
            part = part * 100 // column.divisor[where]
            if not self.uniform:
                part *= column.weight[where]
            elif column.plain_weight != 1:
                part *= column.plain_weight
            total = part if total is None else total + part
        if total is not None:
            self.scores[where] = total // self.weights[where]

    def _ratio(self, where: Where, table: Ints) -> Ints:
        total = weights = np.zeros(len(self.scores[where]), dtype=np.int64)
        for column in self.columns:
            used, has = column.requested[where] + column.asked, column.allocatable[where]
            points = table[np.where(used > has, 100, used * 100 // column.divisor[where])]
            weight = column.weight[where]
            total = total + points * weight
            weights = weights + weight * (points > 0)
        return rounded(total / np.maximum(weights, 1))


class Balance:
    """How even a node's resources are used, with something more asked of them: 100 minus the deviation, truncated.

    Args:
        parts: (asked, requested, allocatable) by resource.
        count: how many nodes there are.
    """

    def __init__(self, parts: Sequence[tuple[int, Ints, Ints]], count: int) -> None:
        self.parts = [(asked, requested, np.maximum(has, 1), has > 0) for asked, requested, has in parts]
        self.number: Ints = np.sum([counts for *_, counts in self.parts], axis=0, dtype=np.int64) + np.zeros(
            count, dtype=np.int64
        )
        self.two = len(self.parts) == 2 and bool((self.number == 2).all())
        self.scores: Ints = np.zeros(count, dtype=np.int64)
        self.update(EVERYWHERE)

    def update(self, where: Where) -> None:
        """Score the nodes in question again."""
        shares = [np.minimum((requested[where] + asked) / has[where], 1.0) for asked, requested, has, _ in self.parts]
        deviation = np.abs((shares[0] - shares[1]) / 2) if self.two else self._deviation(where, shares)
        self.scores[where] = (1 - deviation) * 100

    def _deviation(self, where: Where, shares: Sequence[Floats]) -> Floats:
        number = self.number[where]
        size = len(number)
        largest, smallest, total = np.full(size, -np.inf), np.full(size, np.inf), np.zeros(size)
        for share, (*_, counts) in zip(shares, self.parts, strict=True):
            largest = np.maximum(largest, np.where(counts[where], share, -np.inf))
            smallest = np.minimum(smallest, np.where(counts[where], share, np.inf))
            total = total + np.where(counts[where], share, 0.0)
        mean = total / np.maximum(number, 1)
        squares = np.zeros(size)
        for share, (*_, counts) in zip(shares, self.parts, strict=True):
            squares = squares + np.where(counts[where], (share - mean) * (share - mean), 0.0)
        pair = number == 2
        spread = np.where(pair, largest, 0.0) - np.where(pair, smallest, 0.0)
        deviation = np.where(pair, np.abs(spread / 2), np.sqrt(squares / np.maximum(number, 1)))
        return np.where(number > 1, deviation, 0.0)


class BalanceScore:
    """BalancedAllocation's score on every node."""

    def __init__(self, plugin: BalancedAllocation, pod: PodInfo, arrays: NodeArrays) -> None:
        names = [(resource.name, pod.sums.plain.get(resource.name, 0)) for resource in plugin.resources]
        counted = [(name, asked) for name, asked in names if asked or not is_scalar(name)]
        columns = [(asked, arrays.requested(name), arrays.allocatable(name)) for name, asked in counted]
        self.after = Balance(columns, arrays.count)
        self.before = Balance([(0, requested, has) for _, requested, has in columns], arrays.count) if plugin.delta else None
        self.scores: Ints = np.zeros(arrays.count, dtype=np.int64)
        self._combine(EVERYWHERE)

    def update(self, where: Where) -> None:
        """Score the nodes in question again."""
        self.after.update(where)
        if self.before is not None:
            self.before.update(where)
        self._combine(where)

    def _combine(self, where: Where) -> None:
        with_pod = self.after.scores[where]
        self.scores[where] = with_pod if self.before is None else 50 + (50 + with_pod - self.before.scores[where]) // 2


def rounded(numbers: Floats) -> Ints:
    """Halves away from zero, for numbers that are not negative."""
    floor = np.floor(numbers)
    return (floor + (numbers - floor >= 0.5)).astype(np.int64)
