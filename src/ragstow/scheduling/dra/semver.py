"""Semantic versions as the CEL library of Kubernetes compares them.

Rules: semver.org 2.0.0, read strictly (three numbers without leading zeros); `normalize` first drops a leading v, pads to three
numbers and drops leading zeros (k8s.io/apiserver/pkg/cel/library/semver.go). Build metadata never counts.
"""

from __future__ import annotations

import re
from functools import lru_cache

Key = tuple[int, int, int, tuple[tuple[int, int, str], ...], int]
"""Sorts like the version: numbers, then identifiers of the pre-release; a release sorts after its pre-releases."""

_NUMBER = r"(0|[1-9][0-9]*)"
_IDENTIFIER = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


@lru_cache(maxsize=4096)
def parse(text: str) -> tuple[int, int, int, str]:
    """Major, minor, patch and pre-release.

    Raises:
        ValueError: not a semantic version.
    """
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError("No Major.Minor.Patch elements found" if text.count(".") < 2 else f"Invalid version {text!r}")
    return int(match[1]), int(match[2]), int(match[3]), match[4] or ""


def normalize(text: str) -> str:
    """The strict form of a loose version such as v1.02."""
    text = text.removeprefix("v")
    numbers, rest = re.match(r"([0-9.]*)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    parts = [part.lstrip("0") or "0" if part else part for part in numbers.split(".")]
    return ".".join(parts + ["0"] * (3 - len(parts))) + rest


def canonical(text: str) -> str:
    """The version without build metadata: equal texts are equal versions."""
    major, minor, patch, pre = parse(text)
    return f"{major}.{minor}.{patch}" + (f"-{pre}" if pre else "")


@lru_cache(maxsize=4096)
def key(text: str) -> Key:
    """A value that sorts like the version."""
    major, minor, patch, pre = parse(text)
    if not pre:
        return major, minor, patch, (), 1
    identifiers = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in pre.split("."))
    return major, minor, patch, identifiers, 0


def compare(left: str, right: str) -> int:
    """-1, 0 or 1."""
    a, b = key(left), key(right)
    if a[:3] != b[:3]:
        return -1 if a[:3] < b[:3] else 1
    if a[4] != b[4]:
        return -1 if a[4] < b[4] else 1
    return (a[3] > b[3]) - (a[3] < b[3])
