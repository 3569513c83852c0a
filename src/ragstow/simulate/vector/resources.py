"""NodeResourcesFit and BalancedAllocation over columns: the same integers and floats as `strategies`, all nodes at once.

Each keeps its answer for one shape of pods and brings it up to date for the nodes that changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragstow.scheduling.amounts import is_scalar
from ragstow.scheduling.behaviours import FIT_UNRESOLVABLE
from ragstow.scheduling.framework import Status, unresolvable, unschedulable
from ragstow.scheduling.plugins.balanced_allocation import BalancedAllocation
from ragstow.scheduling.plugins.node_resources_fit import TOO_MANY_PODS, NodeResourcesFit
from ragstow.scheduling.podinfo import PodInfo
from ragstow.simulate.vector.arrays import Bools, Floats, Ints, NodeArrays

Where = Ints | slice
"""Numbers of the nodes in question, or all of them."""

EVERYWHERE = slice(None)

_ZERO, _ONE, _FIFTY, _HUNDRED = (np.array(value, dtype=np.int64) for value in (0, 1, 50, 100))
_ONE_SHARE, _TWO = np.array(1.0), np.array(2.0)


class FitFilter:
    """Where there is enough of everything (`passes`), and on demand what is short."""

    def __init__(self, plugin: NodeResourcesFit, pod: PodInfo, arrays: NodeArrays) -> None:
        self.wanted = plugin.wanted(pod)
        self.hopeless = 1 << (len(self.wanted) + 1)
        self.resolvable = not FIT_UNRESOLVABLE.at(plugin.handle.release)
        self.room = arrays.room
        self.columns = [(number(amount), arrays.free(name), arrays.allocatable(name)) for name, amount in self.wanted]
        self.passes: Bools = np.zeros(arrays.count, dtype=np.bool_)
        self.update(EVERYWHERE)

    def update(self, where: Where) -> None:
        """Ask the nodes in question again."""
        enough = self.room[where] > _ZERO
        for amount, free, _ in self.columns:
            enough &= free[where] >= amount
        self.passes[where] = enough

    def short(self) -> Ints:
        """What is short, as bits: bit 0 too many pods, bit i the i-th wanted resource, the last bit hopeless."""
        bits = (self.room < 1).astype(np.int64)
        for i, (amount, free, has) in enumerate(self.columns):
            bits |= (amount > free) * (2 << i)
            bits |= ((amount > free) & (amount > has)) * self.hopeless
        return bits

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
    asked: Ints
    requested: Ints
    allocatable: Ints
    headroom: Ints
    divisor: Ints


class FitScore:
    """The strategy's score on every node."""

    def __init__(self, plugin: NodeResourcesFit, pod: PodInfo, arrays: NodeArrays) -> None:
        self.kind = plugin.kind
        self.columns: list[_Column] = []
        points = [plugin.shape.at(percent) for percent in range(101)] if plugin.shape.points else [0]
        self.table: Ints = np.array(points, dtype=np.int64)
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
            self.columns.append(_Column(weight, number(asked), requested, has, has - asked, np.maximum(has, 1)))
        self.plain = all(bool((column.weight == 1).all()) for column in self.columns)
        self.weights = np.maximum(self.weights, 1)
        self.scores: Ints = np.zeros(arrays.count, dtype=np.int64)
        self.update(EVERYWHERE)

    def update(self, where: Where) -> None:
        """Score the nodes in question again."""
        if self.kind == "RequestedToCapacityRatio":
            self.scores[where] = self._ratio(where)
            return
        total: Ints | None = None
        for column in self.columns:
            if self.kind == "LeastAllocated":
                part = np.maximum(column.headroom[where] - column.requested[where], _ZERO)
            else:
                part = np.minimum(column.requested[where] + column.asked, column.allocatable[where])
            part = part * _HUNDRED // column.divisor[where]
            if not self.plain:
                part *= column.weight[where]
            total = part if total is None else total + part
        if total is not None:
            self.scores[where] = total // self.weights[where]

    def _ratio(self, where: Where) -> Ints:
        total: Ints | None = None
        weights: Ints | None = None
        for column in self.columns:
            used = np.minimum((column.requested[where] + column.asked) * _HUNDRED // column.divisor[where], _HUNDRED)
            points = self.table[used]
            weight = column.weight[where]
            counted = weight * (points > _ZERO)
            total = points * weight if total is None else total + points * weight
            weights = counted if weights is None else weights + counted
        if total is None or weights is None:
            return self.scores[where]
        return rounded(total / np.maximum(weights, _ONE))


class Balance:
    """How even a node's resources are used, with something more asked of them: 100 minus the deviation, truncated.

    Args:
        parts: (asked, requested, allocatable) by resource.
        count: how many nodes there are.
    """

    def __init__(self, parts: Sequence[tuple[int, Ints, Ints]], count: int) -> None:
        self.parts = [
            (number(asked), requested, np.maximum(has, 1).astype(np.float64), has > 0) for asked, requested, has in parts
        ]
        self.counted: Ints = np.sum([counts for *_, counts in self.parts], axis=0, dtype=np.int64) + np.zeros(
            count, dtype=np.int64
        )
        self.two = len(self.parts) == 2 and bool((self.counted == 2).all())
        self.scores: Ints = np.zeros(count, dtype=np.int64)
        self.update(EVERYWHERE)

    def update(self, where: Where) -> None:
        """Score the nodes in question again."""
        shares = [np.minimum((requested[where] + asked) / has[where], _ONE_SHARE) for asked, requested, has, _ in self.parts]
        deviation = np.abs((shares[0] - shares[1]) / _TWO) if self.two else self._deviation(where, shares)
        self.scores[where] = (_ONE_SHARE - deviation) * _HUNDRED

    def _deviation(self, where: Where, shares: Sequence[Floats]) -> Floats:
        counted = self.counted[where]
        size = len(counted)
        largest, smallest, total = np.full(size, -np.inf), np.full(size, np.inf), np.zeros(size)
        for share, (*_, counts) in zip(shares, self.parts, strict=True):
            largest = np.maximum(largest, np.where(counts[where], share, -np.inf))
            smallest = np.minimum(smallest, np.where(counts[where], share, np.inf))
            total = total + np.where(counts[where], share, 0.0)
        mean = total / np.maximum(counted, 1)
        squares = np.zeros(size)
        for share, (*_, counts) in zip(shares, self.parts, strict=True):
            squares = squares + np.where(counts[where], (share - mean) * (share - mean), 0.0)
        pair = counted == 2
        spread = np.where(pair, largest, 0.0) - np.where(pair, smallest, 0.0)
        deviation = np.where(pair, np.abs(spread / 2), np.sqrt(squares / np.maximum(counted, 1)))
        return np.where(counted > 1, deviation, 0.0)


class Before:
    """How even the nodes are used now, without another pod: shared by all shapes that look at the same resources."""

    def __init__(self, names: Sequence[str], arrays: NodeArrays) -> None:
        self.arrays = arrays
        self.balance = Balance([(0, arrays.requested(name), arrays.allocatable(name)) for name in names], arrays.count)
        self._seen = arrays.seen

    def scores(self) -> Ints:
        """The scores now."""
        changed = self.arrays.changed_since(self._seen)
        if changed is not None:
            self.balance.update(changed)
            self._seen = self.arrays.seen
        return self.balance.scores


class BalanceScore:
    """BalancedAllocation's score on every node; `before` is there where it counts what the pod changes."""

    def __init__(self, plugin: BalancedAllocation, pod: PodInfo, arrays: NodeArrays, before: Before | None) -> None:
        columns = [
            (pod.sums.plain.get(name, 0), arrays.requested(name), arrays.allocatable(name)) for name in counted(plugin, pod)
        ]
        self.after = Balance(columns, arrays.count)
        self.before = before
        self.scores: Ints = np.zeros(arrays.count, dtype=np.int64)
        self._combine(EVERYWHERE)

    def update(self, where: Where) -> None:
        """Score the nodes in question again."""
        self.after.update(where)
        self._combine(where)

    def _combine(self, where: Where) -> None:
        with_pod = self.after.scores[where]
        if self.before is not None:
            with_pod = _FIFTY + ((_FIFTY + with_pod - self.before.scores()[where]) >> _ONE)
        self.scores[where] = with_pod


def counted(plugin: BalancedAllocation, pod: PodInfo) -> tuple[str, ...]:
    """The resources that BalancedAllocation looks at for a pod."""
    names = (resource.name for resource in plugin.resources)
    return tuple(name for name in names if pod.sums.plain.get(name, 0) or not is_scalar(name))


def number(value: int) -> Ints:
    """A number as an array of no dimension, which numpy combines with columns faster than an int."""
    return np.array(value, dtype=np.int64)


def rounded(numbers: Floats) -> Ints:
    """Halves away from zero, for numbers that are not negative."""
    floor = np.floor(numbers)
    return (floor + (numbers - floor >= 0.5)).astype(np.int64)
