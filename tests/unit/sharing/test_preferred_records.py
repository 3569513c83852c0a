"""The plugin's preference among shares and MIG devices is the recorded set; among whole cards it is said to be unknown."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from golden_plugin import machine, records
from ragstow.sharing import devices, preferred, verdict
from ragstow.sharing.devices import Device


def full(short: str, found: dict[str, Device]) -> str:
    index, shares, number = short.partition("::")
    uuid = next(device.uuid for device in found.values() if device.index == index)
    return f"{uuid}::{number}" if shares else uuid


@pytest.mark.parametrize("record", records("preferred"), ids=lambda record: record["id"])
def test_preferred(record: dict[str, Any]) -> None:
    here = machine(record["node"])
    read = verdict.plugin(record["config"])
    assert read.effective is not None
    found = dict(devices.offer(read, here).resources[record["resource"]])
    made = preferred.preferred(
        read.effective,
        here.platform,
        found,
        [full(short, found) for short in record["available"]],
        [full(short, found) for short in record["required"]],
        record["size"],
    )
    recorded = [outcome for outcome in record["outcomes"] if "error" not in outcome]
    if not made.known:
        # Whole cards on a mocked topology are not asked for.
        assert "topo" in record["node"]
        return
    assert [outcome["error"] for outcome in record["outcomes"] if "error" in outcome] == ([made.error] if made.error else [])
    index_of = {device.uuid: device.index for device in found.values()}
    ours = [Counter({index_of[uuid]: count for uuid, count in outcome.items()}) for outcome in made.outcomes]
    theirs = [Counter(outcome["devices"]) for outcome in recorded]
    assert all(outcome in ours for outcome in theirs)
    if "distinct_outcomes_seen" not in record:
        assert len(ours) == len(theirs)
    else:
        assert len(ours) >= record["distinct_outcomes_seen"]
