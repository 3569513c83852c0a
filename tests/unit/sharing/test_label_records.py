"""On every recorded machine the node gets the labels that GPU feature discovery gave it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from golden_plugin import machine, records
from ragstow.sharing import labels, verdict

CONFIGS = {record["id"]: record for record in records("resources")}


def log_lines(lines: list[str]) -> list[str]:
    """Log lines without the order of a Go map's keys."""
    return [re.sub(r"\[(.*)\]", lambda match: f"[{' '.join(sorted(match[1].split()))}]", line) for line in lines]


@pytest.mark.parametrize("record", records("labels"), ids=lambda record: record["id"])
def test_labels(record: dict[str, Any]) -> None:
    asked = CONFIGS[record["id"]]
    made = labels.labels(verdict.gfd(asked["config"], env=asked.get("env")), machine(record["node"]))
    assert made.known
    ours: dict[str, Any] = {}
    if made.failure is not None:
        ours = {"stage": made.failure.stage, "error": made.failure.text}
    else:
        ours["labels"] = dict(made.fixed)
    expected = {key: value for key, value in record.items() if key in ("stage", "error", "labels")}
    assert ours == expected
    assert sorted(made.refused) == sorted(record.get("not_valid_in_kubernetes", []))
    assert log_lines(list(made.log)) == log_lines(record.get("log", []))
    alternatives = [dict(entry["labels"]) for entry in record.get("one_of", [])]
    assert sorted(map(str, map(sorted, map(dict.items, map(dict, made.one_of))))) == sorted(
        str(sorted(entry.items())) for entry in alternatives
    )


def test_what_needs_a_cuda_driver_is_said_to_be_unknown() -> None:
    without = {record["id"] for record in records("labels")}
    for record in records("resources"):
        if record["id"] not in without and "tegra" in str(machine(record["node"]).platform):
            assert not labels.labels(verdict.gfd(record["config"]), machine(record["node"])).known
