"""A Kubernetes release as a value, and a behaviour as something that changed at a release.

kube-scheduler decides differently from release to release; which rule holds in which one is the table in `behaviours`.
This module only parses and orders releases and picks a behaviour's value. It never looks at a cluster.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Generic, TypeVar

from ragstow.errors import InputError

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?\+?(?:[-+].*)?", re.ASCII)
_ANY_PATCH = 1_000_000

T = TypeVar("T")


@total_ordering
@dataclass(frozen=True, slots=True)
class Release:
    """A release. `patch` is None where only the minor is known: it then stands for that minor's newest patch.

    `text` is what was given ("v1.34.4-gke.1"); it takes no part in comparisons.
    """

    major: int
    minor: int
    patch: int | None = None
    text: str = ""

    @classmethod
    def parse(cls, text: str) -> Release:
        """The release that "1.34", "v1.34.4", "v1.34.4-gke.1" or "1.33+" names.

        Raises:
            InputError: `text` is not a Kubernetes version.
        """
        match = _VERSION.fullmatch(text.strip())
        if match is None:
            raise InputError(
                "release-invalid",
                f"{text[:60]!r} is not a Kubernetes release",
                hint="write it as 1.34, 1.34.4 or v1.34.4-gke.1",
            )
        major, minor, patch = match.groups()
        return cls(int(major), int(minor), None if patch is None else int(patch), text.strip())

    @property
    def key(self) -> tuple[int, int, int]:
        """What releases are ordered by."""
        return (self.major, self.minor, _ANY_PATCH if self.patch is None else self.patch)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self.key == other.key

    def __lt__(self, other: Release) -> bool:
        return self.key < other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}" + ("" if self.patch is None else f".{self.patch}")


@dataclass(frozen=True, slots=True)
class Behaviour(Generic[T]):
    """One thing that kube-scheduler does differently since some release.

    `steps` are (first release, value), ascending; the first step holds for everything older too. `source` names the upstream
    file, KEP or pull request, `what` says it in words.
    """

    name: str
    what: str
    source: str
    steps: tuple[tuple[tuple[int, int, int], T], ...]

    def at(self, release: Release) -> T:
        """The value that holds in a release."""
        value = self.steps[0][1]
        for since, step in self.steps[1:]:
            if release.key >= since:
                value = step
        return value
