"""A dictionary of answers that keeps the ones used last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    """At most `limit` values by key; the one not used for longest goes first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made if it is not there."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
            return value
        value = self._values[key] = make()
        if len(self._values) > self._limit:
            self._values.popitem(last=False)
        return value
