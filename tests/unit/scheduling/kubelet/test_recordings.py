"""Every recorded admission of the unmodified managers: the same verdict, text, devices, hints, calls, CPUs and memory."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from ragstow.errors import InputError
from ragstow.scheduling.kubelet.scenario import play
from support import DATA

FOLDER = DATA / "golden" / "kubelet-1.37.2"
SCENARIOS = {
    "pref": 600, "nopref": 300, "badpref": 180, "closest": 200, "cpumem": 180,
    "restart": 280, "grace": 8, "options": 60, "choice": 90, "bound": 400,
}  # fmt: skip
RESULTS = (
    "admit", "reason", "message", "panic", "devices", "hints", "calls", "cpus", "memory",
    "held", "capacity", "allocatable", "outcomes",
)  # fmt: skip


def scenarios(family: str) -> Iterator[dict[str, Any]]:
    with gzip.open(FOLDER / f"{family}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


@pytest.mark.parametrize("family", list(SCENARIOS))
def test_same_as_recorded(family: str) -> None:
    played = 0
    for scenario in scenarios(family):
        ours = play(scenario)
        assert ours.get("error") == scenario.get("error"), scenario["id"]
        assert len(ours["steps"]) == len(scenario["steps"]), scenario["id"]
        for number, (mine, recorded) in enumerate(zip(ours["steps"], scenario["steps"], strict=True)):
            for key in RESULTS:
                assert mine.get(key) == recorded.get(key), f"{scenario['id']} step {number} {recorded['op']}: {key}"
        played += 1
    assert played == SCENARIOS[family]


def test_without_a_recording_to_follow_nothing_determined_changes() -> None:
    # A plugin that always answers a preference, and no init containers: nothing is left to chance.
    checked = 0
    for scenario in scenarios("bound"):
        if any(not plugin["preferred"] for plugin in scenario["plugins"].values()):
            continue
        if any("init" in step["pod"] for step in scenario["steps"] if "pod" in step):
            continue
        bare = {**scenario, "steps": [inputs(step) for step in scenario["steps"]]}
        ours = play(bare, follow=False)
        for mine, recorded in zip(ours["steps"], scenario["steps"], strict=True):
            assert mine.get("admit") == recorded.get("admit"), scenario["id"]
            assert mine.get("devices") == recorded.get("devices"), scenario["id"]
        checked += 1
    assert checked > 50


def test_own_pick_is_one_that_can_occur() -> None:
    """Small sets, no preference: the pick that we name was seen among 300 repetitions."""
    checked = 0
    for scenario in scenarios("choice"):
        bare = {**scenario, "steps": [inputs(step) for step in scenario["steps"]]}
        ours = play(bare, follow=False)
        for mine, recorded in zip(ours["steps"], scenario["steps"], strict=True):
            if recorded["op"] == "admit":
                if mine.get("devices") != recorded.get("devices"):
                    break  # an earlier free choice went another way
                continue
            if recorded["op"] != "repeat_admit":
                continue
            asked = [count for c in pods(recorded) for count in c.get("devices", {}).values() if count]
            small = all(len(plugin["devices"]) <= 8 for plugin in scenario["plugins"].values())
            if small and len(asked) == 1:
                seen = [outcome.get("devices") for outcome in recorded["outcomes"]]
                assert mine["outcomes"][0].get("devices") in seen, scenario["id"]
                checked += 1
    assert checked > 20


def inputs(step: dict[str, Any]) -> dict[str, Any]:
    keys = ("op", "resource", "plugin", "pod", "name", "running", "times", "node_not_synced")
    return {key: step[key] for key in keys if key in step}


def pods(step: dict[str, Any]) -> list[dict[str, Any]]:
    return [*step["pod"].get("init", []), *step["pod"]["containers"]]


def test_unknown_step_is_an_input_error() -> None:
    scenario: dict[str, Any] = {"numa": [{"id": 0}], "kubelet": {}, "steps": [{"op": "explode"}]}
    with pytest.raises(InputError, match="explode"):
        play(scenario)
