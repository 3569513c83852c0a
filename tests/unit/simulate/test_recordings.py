"""Every recorded decision of every recorded release, every field: no difference."""

from __future__ import annotations

import pytest

from recordings import Recording, differences, play, recordings

_ALL = recordings("mix", "preempt", "gpu", "pdb", "edge", "samp")


@pytest.mark.parametrize("recording", _ALL, ids=str)
def test_recorded_decisions(recording: Recording) -> None:
    assert differences(recording, play(recording)) == []


def test_all_releases_are_there() -> None:
    assert len({recording.release for recording in _ALL}) == 6
    assert len(_ALL) == 6 * (8 + 40 + 6 * 3 + 15 + 6 + 4)
