"""Outcomes that are remembered are those that a new attempt would find."""

from __future__ import annotations

import random

import pytest

from ragstow.scheduling.dra.remembered import Remembered
from support_dra import DRIVER, Json, pod, raw_claim, raw_class, raw_slice
from support_player import Player
from support_volumes import node

pytestmark = pytest.mark.usefixtures("with_cel")

NODES = ("n0", "n1", "n2")


def objects(draw: random.Random) -> list[Json]:
    """Nodes with devices of their own, and a pool that all of them reach."""
    listed = [{"name": f"d{number}", "attributes": {"rack": {"int": number % 2}}} for number in range(4)]
    far = raw_slice("far", [f"f{number}" for number in range(3)], driver="far.example.com", allNodes=True)
    del far["spec"]["nodeName"]
    claims = [raw_claim(f"c{number}", *wanted(draw)) for number in range(14)]
    classes = [raw_class("gpu"), raw_class("far", driver="far.example.com", resource="example.com/far")]
    return [*(node(name) for name in NODES), *classes, *(raw_slice(name, listed) for name in NODES), far, *claims]


def wanted(draw: random.Random) -> list[Json]:
    """One of a few shapes."""
    one = {"name": "r", "exactly": {"deviceClassName": draw.choice(["gpu", "gpu", "far"]), "count": draw.choice([1, 2])}}
    rack = [{"cel": {"expression": f'device.attributes["{DRIVER}"].rack == 1'}}]
    either = {
        "name": "s",
        "firstAvailable": [
            {"name": "a", "deviceClassName": "gpu", "selectors": rack},
            {"name": "b", "deviceClassName": "far"},
        ],
    }
    return draw.choice([[one], [either], [one, either]])


def play(seed: int) -> list[object]:
    """What is refused and booked as pods come and go."""
    draw = random.Random(seed)
    player = Player(objects(draw))
    said: list[object] = []
    running: list[str] = []
    for number in range(14):
        if running and draw.random() < 0.3:
            player.leave(running.pop(draw.randrange(len(running))))
        extended: Json = {"c": {"example.com/far": "1"}} if draw.random() < 0.3 else {}
        raw = pod(f"p{number}", f"c{number}", **extended)
        refused = player.refusals(raw)
        said.append(refused)
        fits = [name for name in NODES if name not in refused]
        if fits:
            said.append(player.place(raw, draw.choice(fits)))
            running.append(f"p{number}")
    return said


def test_remembered_outcomes_are_those_of_new_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = [play(seed) for seed in range(30)]
    monkeypatch.setattr(Remembered, "find", lambda *_: None)
    assert [play(seed) for seed in range(30)] == remembered
