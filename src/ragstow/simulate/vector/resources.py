"""NodeResourcesFit and BalancedAllocation over columns: the same integers and floats as `strategies`, all nodes at once.

Each keeps its answer for one shape of pods and brings it up to date for the nodes that changed.
"""

from __future__ import annotations

import numpy as np

from ragstow.scheduling.behaviours import FIT_UNRESOLVABLE
from ragstow.scheduling.framework import Status, unresolvable, unschedulable
from ragstow.scheduling.plugins.balanced_allocation import BalancedAllocation
from ragstow.scheduling.plugins.node_resources_fit import TOO_MANY_PODS, NodeResourcesFit
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.requests import is_scalar
from ragstow.scheduling.strategies import Shape
from ragstow.simulate.vector.arrays import Bools, Floats, Ints, NodeArrays

Where = Ints | slice
"""Numbers of the nodes in question, or all of them."""

EVERYWHERE = slice(None)


class FitFilter:
    """What is short on every node, as bits: bit 0 too many pods, bit i the i-th wanted resource, the last bit hopeless."""

    def __init__(self, plugin: NodeResourcesFit, pod: PodInfo, arrays: NodeArrays) -> None:
        self.arrays = arrays
        self.wanted = plugin.wanted(pod)
        self.hopeless = 1 << (len(self.wanted) + 1)
        self.resolvable = not FIT_UNRESOLVABLE.at(plugin.handle.release)
        self.columns = [(amount, arrays.allocatable(name), arrays.requested(name)) for name, amount in self.wanted]
        self.short: Ints = np.zeros(arrays.count, dtype=np.int64)
        self.update(EVERYWHERE)

    def update(self, where: Where) -> None:
        """Ask the nodes in question again."""
        arrays = self.arrays
        bits = (arrays.pods[where] + 1 > arrays.max_pods[where]).astype(np.int64)
        for number, (amount, allocatable, requested) in enumerate(self.columns):
            has = allocatable[where]
            lacking = amount > has - requested[where]
            bits |= lacking.astype(np.int64) << (number + 1)
            bits |= (lacking & (amount > has)).astype(np.int64) * self.hopeless
        self.short[where] = bits

    def status(self, bits: int) -> Status:
        """The refusal that bits stand for."""
        texts = [TOO_MANY_PODS] if bits & 1 else []
        texts.extend(f"Insufficient {name}" for i, (name, _) in enumerate(self.wanted) if bits & (2 << i))
        hopeless = bool(bits & self.hopeless) and not self.resolvable
        return (unresolvable if hopeless else unschedulable)(*texts)


class FitScore:
    """The strategy's score on every node."""

    def __init__(self, plugin: NodeResourcesFit, pod: PodInfo, arrays: NodeArrays) -> None:
        self.kind = plugin.kind
        self.shape = plugin.shape
        self.columns: list[tuple[int, int, Ints, Ints]] = []
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
            self.columns.append((resource.weight, asked, requested, arrays.allocatable(name)))
        self.scores: Ints = np.zeros(arrays.count, dtype=np.int64)
        self.update(EVERYWHERE)

    def update(self, where: Where) -> None:
        """Score the nodes in question again."""
        total = weights = np.zeros(len(self.scores[where]), dtype=np.int64)
        for weight, asked, requested, allocatable in self.columns:
            has = allocatable[where]
            counts = has > 0
            divisor = np.maximum(has, 1)
            used = requested[where] + asked
            if self.kind == "LeastAllocated":
                points = np.where(used > has, 0, (has - used) * 100 // divisor)
            elif self.kind == "MostAllocated":
                points = np.minimum(used, has) * 100 // divisor
            else:
                points = shape_points(self.shape, np.where(used > has, 100, used * 100 // divisor))
                counts &= points > 0
            total = total + np.where(counts, points * weight, 0)
            weights = weights + np.where(counts, weight, 0)
        divisor = np.maximum(weights, 1)
        if self.kind == "RequestedToCapacityRatio":
            self.scores[where] = rounded(total / divisor)
        else:
            self.scores[where] = total // divisor


class BalanceScore:
    """BalancedAllocation's score on every node."""

    def __init__(self, plugin: BalancedAllocation, pod: PodInfo, arrays: NodeArrays) -> None:
        self.delta = plugin.delta
        self.columns: list[tuple[int, Ints, Ints]] = []
        for resource in plugin.resources:
            asked = pod.sums.plain.get(resource.name, 0)
            if asked or not is_scalar(resource.name):
                self.columns.append((asked, arrays.requested(resource.name), arrays.allocatable(resource.name)))
        self.scores: Ints = np.zeros(arrays.count, dtype=np.int64)
        self.update(EVERYWHERE)

    def update(self, where: Where) -> None:
        """Score the nodes in question again."""
        with_pod = self._balance(where, with_pod=True)
        self.scores[where] = 50 + (50 + with_pod - self._balance(where, with_pod=False)) // 2 if self.delta else with_pod

    def _balance(self, where: Where, *, with_pod: bool) -> Ints:
        shares: list[Floats] = []
        counted: list[Bools] = []
        for asked, requested, allocatable in self.columns:
            has = allocatable[where]
            used = requested[where] + asked if with_pod else requested[where]
            shares.append(np.minimum(used / np.maximum(has, 1), 1.0))
            counted.append(has > 0)
        size = len(self.scores[where])
        if len(shares) == 2 and counted[0].all() and counted[1].all():
            return ((1 - np.abs((shares[0] - shares[1]) / 2)) * 100).astype(np.int64)
        number = np.sum(counted, axis=0) if counted else np.zeros(size, dtype=np.int64)
        largest, smallest, total = np.full(size, -np.inf), np.full(size, np.inf), np.zeros(size)
        for share, counts in zip(shares, counted, strict=True):
            largest = np.maximum(largest, np.where(counts, share, -np.inf))
            smallest = np.minimum(smallest, np.where(counts, share, np.inf))
            total = total + np.where(counts, share, 0.0)
        mean = total / np.maximum(number, 1)
        squares = np.zeros(size)
        for share, counts in zip(shares, counted, strict=True):
            squares = squares + np.where(counts, (share - mean) * (share - mean), 0.0)
        spread = np.where(number == 2, largest, 0.0) - np.where(number == 2, smallest, 0.0)
        deviation = np.where(number == 2, np.abs(spread / 2), np.sqrt(squares / np.maximum(number, 1)))
        return ((1 - np.where(number > 1, deviation, 0.0)) * 100).astype(np.int64)


def shape_points(shape: Shape, utilization: Ints) -> Ints:
    """`Shape.at` over a column; utilisation is 0..100, so a table does it."""
    table = np.array([shape.at(percent) for percent in range(101)], dtype=np.int64)
    return table[np.clip(utilization, 0, 100)]


def rounded(numbers: Floats) -> Ints:
    """Halves away from zero, for numbers that are not negative."""
    floor = np.floor(numbers)
    return (floor + (numbers - floor >= 0.5)).astype(np.int64)
