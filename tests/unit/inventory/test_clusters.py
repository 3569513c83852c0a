"""The inventory of recorded clusters equals what their makers say of them, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ragstow import kubeyaml
from ragstow.cluster.read import read
from ragstow.facts import load
from ragstow.inventory.build import inventory
from ragstow.inventory.document import body
from support import DATA

CLUSTERS = sorted((DATA / "clusters").glob("[0-9]*.tar.gz"))
BROKEN = sorted((DATA / "clusters-broken").glob("[0-9]*.tar.gz"))
NOT_COMPARED = {"productInReality"}


def described(path: Path) -> dict[str, Any]:
    return body(inventory(read(str(path)), load()))


def differences(expected: Any, found: Any, at: str = "") -> list[str]:
    """Every field of `expected` that `found` lacks or has otherwise."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        wrong = [f"{at}.{key} is missing" for key in expected if key not in found and key not in NOT_COMPARED]
        for key in expected:
            if key in found:
                wrong += differences(expected[key], found[key], f"{at}.{key}")
        return wrong
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [text for i, pair in enumerate(zip(expected, found, strict=True)) for text in differences(*pair, f"{at}[{i}]")]
    return [] if expected == found else [f"{at}: expected {expected!r}, found {found!r}"]


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.name.split(".")[0])
def test_what_the_maker_says(path: Path) -> None:
    text = path.with_name(path.name.replace(".tar.gz", ".expect.yaml")).read_text(encoding="utf-8")
    expected = kubeyaml.load_all(text)[0].value
    found = described(path)
    assert differences({"totals": expected["totals"], "nodes": expected["nodes"]}, found) == []
    assert list(found["totals"]) == list(expected["totals"])


@pytest.mark.parametrize("path", CLUSTERS + BROKEN, ids=lambda path: path.name.split(".")[0])
def test_numbers_that_always_hold(path: Path) -> None:
    for node in described(path)["nodes"]:
        free = node["cardsFree"]
        low, high = (free["min"], free["max"]) if isinstance(free, dict) else (free, free)
        assert 0 <= low <= high <= node["cards"]
        for use in node["resources"].values():
            assert use["requested"] == sum(use["holders"].values())
            assert use["free"] == max(0, use["allocatable"] - use["requested"])
        if node["layout"] and node["layout"][0]["cards"] is not None:
            assert sorted(index for group in node["layout"] for index in group["cards"]) == list(range(node["cards"]))


def test_a_layout_that_the_data_do_not_name_is_not_guessed() -> None:
    path = next(path for path in BROKEN if path.name.startswith("10-"))
    node = next(node for node in described(path)["nodes"] if node["cards"])
    assert node["sharing"] == "mig-mixed"
    assert node["layout"] == []
    # Six slices are held: 13 of 8 memory slices per card need two cards at least, and may be on all four.
    assert node["cardsFree"] == {"min": 2, "max": 4}
    assert "not in the data" in node["assumed"][0]


def test_a_node_whose_plugin_does_not_run() -> None:
    path = next(path for path in BROKEN if path.name.startswith("09-"))
    node = next(node for node in described(path)["nodes"] if node["name"] == "l4-3")
    assert (node["sharing"], node["cards"], node["cardsFree"], node["product"]) == ("unknown", 0, 0, None)
    assert node["assumed"] == ["the node offers no GPU now"]
