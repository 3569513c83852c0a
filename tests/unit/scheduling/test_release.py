"""Releases as values and the table of behaviours."""

from __future__ import annotations

import pytest

from ragstow.errors import InputError
from ragstow.scheduling import behaviours
from ragstow.scheduling.behaviours import TAINT_TEXT_SHORT, assumptions
from ragstow.scheduling.release import Release


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("1.34.1", (1, 34, 1)),
        ("v1.34.4-gke.1", (1, 34, 4)),
        ("v1.33.0+k3s1", (1, 33, 0)),
        ("v1.35.2-eks-3abbec1", (1, 35, 2)),
        ("1.36.3-aliyun.1", (1, 36, 3)),
    ],
)
def test_versions_of_distributions_are_read(text: str, key: tuple[int, int, int]) -> None:
    assert Release.parse(text).key == key


def test_a_minor_alone_stands_for_its_newest_patch() -> None:
    assert Release.parse("1.34") > Release.parse("1.34.17")
    assert Release.parse("1.34") < Release.parse("1.35.0")
    assert Release.parse("1.33+").minor == 33


@pytest.mark.parametrize("text", ["", "latest", "1", "one.two", "1.34.x"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        Release.parse(text)


@pytest.mark.parametrize(
    ("text", "short"), [("1.33.13", False), ("1.34.1", False), ("1.34.2", True), ("1.34", True), ("1.38", True)]
)
def test_the_taint_text_changed_with_a_patch_release(text: str, short: bool) -> None:
    assert TAINT_TEXT_SHORT.at(Release.parse(text)) is short


def test_steps_ascend_and_names_are_unique() -> None:
    for behaviour in behaviours.TABLE:
        since = [step[0] for step in behaviour.steps]
        assert since == sorted(since), behaviour.name
        assert behaviour.source
    names = [behaviour.name for behaviour in behaviours.TABLE]
    assert len(names) == len(set(names))


def test_recorded_releases_assume_nothing_and_others_say_what() -> None:
    for release in behaviours.RECORDED:
        assert assumptions(release) == ()
    between = assumptions(Release.parse("1.35.0"))
    assert "between 1.34.4 and 1.35.4" in between[0]
    assert any(line.startswith("claim-score as in 1.35.4") for line in between)
    assert "as 1.37.2" in assumptions(Release.parse("1.38.0"))[0]
    assert "newest recorded patch" in assumptions(Release.parse("1.37.5"))[0]
    assert "as 1.33.13" in assumptions(Release.parse("1.30.2"))[0]
