"""Every recorded decision of every recorded release, every field, both ways of asking: no difference."""

from __future__ import annotations

import pytest

from ragstow.scheduling.dra.cel import available
from recordings import Recording, differences, play, recordings
from support import need

_ALL = recordings("mix", "preempt", "gpu", "pdb", "edge", "samp", "vol", "dra")


@pytest.mark.parametrize("recording", _ALL, ids=str)
def test_recorded_decisions(recording: Recording) -> None:
    need("cel", recording.family != "dra" or available(), "device selectors are CEL")
    assert differences(recording, play(recording)) == []


_OLDEST_AND_NEWEST = [recording for recording in _ALL if recording.release in ("1.33.13", "1.37.2")]


@pytest.mark.parametrize("recording", _OLDEST_AND_NEWEST, ids=str)
def test_recorded_decisions_one_by_one(recording: Recording) -> None:
    need("cel", recording.family != "dra" or available(), "device selectors are CEL")
    assert differences(recording, play(recording, one_by_one=True)) == []


def test_all_releases_are_there() -> None:
    assert len({recording.release for recording in _ALL}) == 6
    complete = [recording for recording in _ALL if recording.family != "dra"]
    assert len(complete) == 6 * (8 + 40 + 6 * 3 + 15 + 6 + 4 + 6)
    assert {recording.release for recording in _ALL if recording.family == "dra"} == {"1.34.4", "1.35.4", "1.36.3", "1.37.2"}
