"""Every recorded decision about volumes and device claims, of every recorded release, every field: no difference."""

from __future__ import annotations

import pytest

from ragstow.scheduling.dra.cel import available
from recordings import Recording, differences, play, recordings
from support import need

VOLUMES = recordings("vol")
DEVICES = recordings("dra")


@pytest.mark.parametrize("recording", VOLUMES, ids=str)
def test_volumes(recording: Recording) -> None:
    assert differences(recording, play(recording)) == []


@pytest.mark.parametrize("recording", DEVICES, ids=str)
def test_devices(recording: Recording) -> None:
    need("cel", available(), "device selectors are CEL")
    assert differences(recording, play(recording)) == []


def test_all_releases_are_there() -> None:
    assert len(VOLUMES) == 6 * 6
    assert {recording.release for recording in DEVICES} == {"1.34.4", "1.35.4", "1.36.3", "1.37.2"}
    assert len(DEVICES) == 12 + 12 + 11 + 11
