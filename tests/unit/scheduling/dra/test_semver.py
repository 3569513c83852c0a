"""Semantic versions: the order of semver.org 2.0.0, section 11."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ragstow.scheduling.dra import semver

ASCENDING = [
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
]


def test_order_of_the_specification() -> None:
    for lower, higher in pairwise(ASCENDING):
        assert semver.compare(lower, higher) == -1
        assert semver.compare(higher, lower) == 1


def test_build_metadata_does_not_count() -> None:
    assert semver.compare("1.2.3+a", "1.2.3+b") == 0
    assert semver.canonical("1.2.3-rc.1+build.5") == "1.2.3-rc.1"


@pytest.mark.parametrize("text", ["1", "1.2", "01.2.3", "1.2.3.4", "v1.2.3", "1.2.-3", ""])
def test_strict(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        semver.parse(text)


@pytest.mark.parametrize(
    ("loose", "strict"), [("v1.2", "1.2.0"), ("1", "1.0.0"), ("1.02.03", "1.2.3"), ("v0.1.0-rc1", "0.1.0-rc1")]
)
def test_normalised(loose: str, strict: str) -> None:
    assert semver.normalize(loose) == strict
