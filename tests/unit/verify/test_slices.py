"""`ragstow verify` of MIG slices and of pairs of cards, under the GPU Operator: green, and every failure by its name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragstow.live import rbac

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


def test_the_cap_of_a_slice(slices: Any) -> None:
    """With simulated kubelets no probe runs: its answer is written into the pod's log."""
    answer = {"allocated": 9600 << 20, "stopped": "CUDA_ERROR_OUT_OF_MEMORY", "free": 0, "total": 9984 << 20}
    _allow_pods(slices)
    slices.rig.says({"ragstow.dev/cap-test": "research"}, f"ragstow-cap-test {json.dumps(answer)}")
    try:
        code, found, _ = slices.verify("--cap-test")
        caps = {check["component"]: check for check in found["checks"] if check["name"] == "gpu-cap"}
        assert (code, sorted(caps)) == (0, ["embedder", "reranker", "rewriter"])
        assert caps["embedder"]["found"] == "stopped at 9.38 GiB (CUDA_ERROR_OUT_OF_MEMORY)"
        assert "llm: has whole cards, so its cap is the card" in found["remarks"]
        assert _cap_pods(slices) == []
    finally:
        slices.rig.guests.said.clear()


def test_the_cap_test_needs_a_right_of_its_own(slices: Any) -> None:
    _allow_pods(slices, gone=True)
    code, found, _ = slices.verify("--cap-test")
    assert code == 0
    unknown = [item for item in found["unknown"] if item["check"] == "gpu-cap"]
    assert {item["forbidden"] for item in unknown} == {True}
    assert all('resources ["pods"], verbs ["create"]' in item["missing"] for item in unknown)
    assert {item["command"] for item in unknown} == {"ragstow rbac verify --cap-test | kubectl apply -f -"}


def test_the_cap_test_says_when_no_slot_is_free_and_leaves_nothing_after_an_interrupt(
    slices: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ragstow.live.verify import captest

    _allow_pods(slices)
    monkeypatch.setattr(captest, "_UNSCHEDULABLE_SECONDS", 1.0)
    limits = {"limits": {"nvidia.com/mig-1g.10gb": 2}}
    taker = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "taker", "namespace": "default"}}
    taker["spec"] = {
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "c", "image": "i", "resources": limits}],
    }
    slices.rig.plane.kubectl("create", "-f", "-", stdin=json.dumps(taker))
    slices.rig.plane.kubectl("wait", "-n", "default", "--for=condition=Ready", "pod/taker", "--timeout=30s")
    try:
        _, found, _ = slices.verify("--cap-test")
        unknown = [item for item in found["unknown"] if item["check"] == "gpu-cap"]
        assert len(unknown) == 3
        assert all(
            "one free slot" in item["missing"] and "Insufficient nvidia.com/mig-1g.10gb" in item["missing"] for item in unknown
        )

        def interrupted() -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(captest, "_pause", interrupted)
        assert slices.verify("--cap-test")[0] == 130
        slices.rig.wait("no pod is left", lambda: _cap_pods(slices) == [])
    finally:
        slices.rig.plane.kubectl("delete", "pod", "-n", "default", "taker", "--now")


def _cap_pods(slices: Any) -> list[str]:
    label = "ragstow.dev/cap-test"
    return [pod["metadata"]["name"] for pod in slices.rig.objects("pods") if label in (pod["metadata"].get("labels") or {})]


def _allow_pods(slices: Any, *, gone: bool = False) -> None:
    """What `ragstow rbac verify --cap-test -n research` adds."""
    subject = rbac.subject("user:verifier") or {}
    for item in rbac.documents("verify", subjects=[subject], namespace=slices.plan["namespace"], cap_test=True):
        if item["kind"] in ("Role", "RoleBinding"):
            slices.rig.plane.kubectl("delete" if gone else "apply", "-f", "-", stdin=json.dumps(item))


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
