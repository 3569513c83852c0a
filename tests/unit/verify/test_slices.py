"""`ragstow verify` of MIG slices and of pairs of cards, under the GPU Operator: green, and every failure by its name."""

from __future__ import annotations

from typing import Any

NODE = "gpu-h100-1"


def test_green(slices: Any) -> None:
    code, found, _ = slices.verify()
    assert (code, found["passed"]) == (0, True)
    table: dict[str, list[dict[str, Any]]] = {}
    for check in found["checks"]:
        table.setdefault(check["name"], []).append(check)
    assert {check["expected"] for check in table["gpu-slice"]} == {"1g.10gb"}
    assert len(table["gpu-slice"]) == 5
    assert all("MIG-" in check["found"] for check in table["gpu-slice"])
    llm = [check for check in table["gpu-visible"] if check["component"] == "llm"]
    assert [check["expected"] for check in llm] == ["2 cards", "2 cards"]
    assert [check["found"] for check in table["node-sharing"]] == ["mig-mixed"]
    assert [check["found"] for check in table["node-mig-state"]] == ["success"]
    assert {check["expected"] for check in table["node-allocatable"]} == {"nvidia.com/gpu: 7", "nvidia.com/mig-1g.10gb: 7"}
    assert any("MIG manager" in check["expected"] for check in table["stack-pod"])
    assert all("NVIDIA device plugin gpu-operator/" in check["expected"] for check in table["gpu-driver"])


def test_memory_of_slices_is_their_own(slices: Any) -> None:
    _, found, _ = slices.verify()
    rows = [row for row in found["memory"] if row["component"] == "embedder"]
    assert {row["totalBytes"] >> 20 for row in rows} == {9984}
    assert all(abs(row["measuredBytes"] - row["predictedBytes"]) < 4 << 20 for row in rows)


def test_a_slice_used_by_somebody_else(slices: Any) -> None:
    name, index = _slice(slices, "embedder")
    slices.rig.steal(NODE, 0, 4000, slice_=index)
    try:
        assert slices.failed() == {"gpu-memory-used": [name]}
    finally:
        slices.rig.steal(NODE, 0, 0, slice_=index)


def test_a_slice_that_is_gone(slices: Any) -> None:
    name, index = _slice(slices, "reranker")
    with slices.rig.world.changed() as world:
        kept = world.card(NODE, 0).mig
        world.card(NODE, 0).mig = [item for number, item in enumerate(kept) if number != index]
    try:
        code, found, _ = slices.verify()
        bad = [check for check in found["checks"] if not check["passed"]]
        assert code == 1
        assert [(check["name"], check["object"]["name"]) for check in bad] == [("gpu-visible", name)]
        assert bad[0]["expected"] == "1 MIG slice 1g.10gb"
    finally:
        with slices.rig.world.changed() as world:
            world.card(NODE, 0).mig = kept


def test_another_slice(slices: Any) -> None:
    name, index = _slice(slices, "rewriter")
    with slices.rig.world.changed() as world:
        item = world.card(NODE, 0).mig[index]
        item.profile, item.total_mib = "2g.20gb", 20096
    try:
        assert slices.failed() == {"gpu-slice": [name], "gpu-memory-total": [name]}
    finally:
        with slices.rig.world.changed() as world:
            item = world.card(NODE, 0).mig[index]
            item.profile, item.total_mib = "1g.10gb", 9984


def test_the_plugin_offers_nothing(slices: Any) -> None:
    slices.rig.programs.plugin_dead.add(NODE)
    try:
        slices.rig.wait("nothing offered", lambda: not _offered(slices))
        found = slices.failed()
        assert found["node-allocatable"] == [NODE, NODE]
        assert "gpu-visible" not in found
    finally:
        slices.rig.programs.plugin_dead.clear()


def _offered(slices: Any) -> int:
    amounts = slices.rig.node(NODE)["status"]["allocatable"]
    return sum(int(count) for name, count in amounts.items() if name.startswith("nvidia.com/"))


def _slice(slices: Any, component: str) -> tuple[str, int]:
    """A pod of a component and the number of its slice on card 0."""
    pod = slices.pods(component)[0]["metadata"]
    uuid = slices.rig.world.pods[f"{pod['namespace']}/{pod['name']}"].devices[0]
    return pod["name"], next(number for number, item in enumerate(slices.rig.world.card(NODE, 0).mig) if item.uuid == uuid)
