"""Broken clusters: healthy recordings with one defect each, and small reports as people attach them to an issue.

A defect is a function that makes the cluster and says what must come out. Each is tested as it is and in every disguise
(`broken.disguises`): other names, another order, more noise, less data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broken.cluster import Cluster


@dataclass(frozen=True)
class Wanted:
    """What must come out: the cause, an object that its finding names, the pods held (None: not compared), causes that may
    stand beside it, and words that its headline, explanation or evidence must have."""

    cause: str
    object: str
    held: tuple[str, ...] | None = ()
    also: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()


Defect = Callable[[], tuple["Cluster", Wanted]]

DEFECTS: dict[str, Defect] = {}


def defect(function: Defect) -> Defect:
    """Registers a defect under `module: function`."""
    name = f"{function.__module__.rpartition('.')[2]}: {function.__name__.replace('_', ' ')}"
    assert name not in DEFECTS, name
    DEFECTS[name] = function
    return function
