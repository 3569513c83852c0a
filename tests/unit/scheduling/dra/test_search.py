"""The allocator: search order, counts, All, alternatives, constraints, counters, shares, taints, admin access, limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragstow.scheduling.dra.model import Allocation, DeviceId, DeviceResult
from ragstow.scheduling.dra.requests import AllocationError, NodeFailure
from ragstow.scheduling.dra.state import AllocatedDevices
from support_dra import CLASSES, RULES, allocate, claim, exactly, gpus, names, node, slice_of

pytestmark = pytest.mark.usefixtures("with_cel")


def held(*devices: str, pool: str = "node-1") -> AllocatedDevices:
    state = AllocatedDevices(True)
    state.add(Allocation(tuple(DeviceResult("r", DeviceId("gpu.example.com", pool, name)) for name in devices)))
    return state


def test_first_fit_in_the_order_of_slices_and_devices() -> None:
    slices = [slice_of("b", gpus(2), count=2), slice_of("a", [{"name": "gpu-9"}], count=2)]
    assert names(allocate(slices, [claim("c", exactly(count=2))])) == [["gpu-9", "gpu-0"]]


def test_devices_in_use_are_passed_over() -> None:
    assert names(allocate([slice_of("a", gpus(3))], [claim("c", exactly())], allocated=held("gpu-0"))) == [["gpu-1"]]
    assert allocate([slice_of("a", gpus(1))], [claim("c", exactly())], allocated=held("gpu-0")) is None


def test_claims_of_one_pod_do_not_share_a_device() -> None:
    assert names(allocate([slice_of("a", gpus(2))], [claim("c", exactly()), claim("d", exactly())])) == [["gpu-0"], ["gpu-1"]]
    assert allocate([slice_of("a", gpus(1))], [claim("c", exactly()), claim("d", exactly())]) is None


def test_backtracks_over_requests() -> None:
    slices = [
        slice_of(
            "a",
            [{"name": "big", "attributes": {"big": {"bool": True}}}, {"name": "small", "attributes": {"big": {"bool": False}}}],
        )
    ]
    wants_big = exactly("big", selectors=[{"cel": {"expression": 'device.attributes["gpu.example.com"].big'}}])
    assert names(allocate(slices, [claim("c", exactly("any"), wants_big)])) == [["small", "big"]]


def test_only_the_newest_generation_counts() -> None:
    slices = [slice_of("old", gpus(2), generation=1), slice_of("new", [{"name": "gpu-7"}], generation=2)]
    assert names(allocate(slices, [claim("c", exactly())])) == [["gpu-7"]]


def test_incomplete_pool() -> None:
    slices = [slice_of("a", gpus(2), count=2)]
    assert allocate(slices, [claim("c", exactly())]) is None
    with pytest.raises(
        AllocationError, match=r"asks for all devices, but resource pool gpu.example.com/node-1 is currently being updated"
    ):
        allocate(slices, [claim("c", exactly(allocationMode="All"))])
    older = replace(RULES, whole_pool=False, incomplete_used=True)
    assert names(allocate(slices, [claim("c", exactly())], rules=older)) == [["gpu-0"]]


def test_slices_for_other_nodes_complete_a_pool() -> None:
    slices = [
        slice_of("a", gpus(1), pool="shared", count=2),
        slice_of("b", [{"name": "x"}], pool="shared", count=2, nodeName="node-2"),
    ]
    assert names(allocate(slices, [claim("c", exactly())])) == [["gpu-0"]]


def test_invalid_pool() -> None:
    slices = [slice_of("a", [{"name": "gpu-0"}, {"name": "gpu-0"}])]
    with pytest.raises(NodeFailure, match="invalid resource pools were encountered"):
        allocate(slices, [claim("c", exactly())])
    with pytest.raises(AllocationError, match="pool node-1 is invalid: duplicate device name gpu-0"):
        allocate(slices, [claim("c", exactly())], rules=replace(RULES, invalid_is_error=True))


def test_all_takes_every_device_or_none() -> None:
    slices = [slice_of("a", gpus(3))]
    assert names(allocate(slices, [claim("c", exactly(allocationMode="All"))])) == [["gpu-0", "gpu-1", "gpu-2"]]
    assert allocate(slices, [claim("c", exactly(allocationMode="All"))], allocated=held("gpu-1")) is None
    assert allocate([], [claim("c", exactly(allocationMode="All"))]) is None


def test_limit_of_32_devices() -> None:
    slices = [slice_of("a", gpus(40))]
    with pytest.raises(
        AllocationError, match="claim default/c, request r: adding 33 devices exceeds the claim limit of 32, with 0"
    ):
        allocate(slices, [claim("c", exactly(count=33))])
    with pytest.raises(AllocationError, match="claim default/c: number of requested devices 34 exceeds the claim limit of 32"):
        allocate(
            slices, [claim("c", exactly("r", count=17), exactly("s", count=17))], rules=replace(RULES, limit_by_request=False)
        )


def test_alternatives_in_order_of_preference() -> None:
    first = {
        "name": "r",
        "firstAvailable": [
            {"name": "four", "deviceClassName": "gpu", "count": 4},
            {"name": "two", "deviceClassName": "gpu", "count": 2},
        ],
    }
    found = allocate([slice_of("a", gpus(3))], [claim("c", first)])
    assert names(found) == [["gpu-0", "gpu-1"]]
    assert found is not None
    assert {item.request for item in found[0].results} == {"r/two"}


def test_alternatives_that_would_exceed_the_limit_are_passed_over() -> None:
    first = {
        "name": "r",
        "firstAvailable": [
            {"name": "many", "deviceClassName": "gpu", "count": 30},
            {"name": "few", "deviceClassName": "gpu", "count": 2},
        ],
    }
    found = allocate([slice_of("a", gpus(40))], [claim("c", first, exactly("s", count=5))])
    assert found is not None
    assert [item.request for item in found[0].results] == ["r/few"] * 2 + ["s"] * 5


def test_match_attribute() -> None:
    devices = [{"name": f"gpu-{n}", "attributes": {"root": {"string": root}}} for n, root in enumerate("abab")]
    constraint = {"matchAttribute": "gpu.example.com/root"}
    assert names(allocate([slice_of("a", devices)], [claim("c", exactly(count=2), constraints=[constraint])])) == [
        ["gpu-0", "gpu-2"]
    ]
    assert allocate([slice_of("a", devices)], [claim("c", exactly(count=3), constraints=[constraint])]) is None
    assert allocate([slice_of("a", gpus(2))], [claim("c", exactly(), constraints=[constraint])]) is None


def test_distinct_attribute_by_release() -> None:
    devices = [{"name": f"gpu-{n}", "attributes": {"root": {"string": root}}} for n, root in enumerate("aab")]
    wanted = [claim("c", exactly("r"), exactly("s"), constraints=[{"distinctAttribute": "gpu.example.com/root"}])]
    assert names(allocate([slice_of("a", devices)], wanted)) == [["gpu-0", "gpu-2"]]
    assert names(allocate([slice_of("a", devices)], wanted, rules=replace(RULES, distinct="exists"))) == [["gpu-0", "gpu-1"]]


def test_shared_counters() -> None:
    halves = [
        {"name": f"half-{n}", "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": "20Gi"}}}]}
        for n in range(3)
    ]
    counters = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]
    slices = [slice_of("counters", [], sharedCounters=counters, count=2), slice_of("devices", halves, count=2)]
    assert names(allocate(slices, [claim("c", exactly(count=2))])) == [["half-0", "half-1"]]
    assert allocate(slices, [claim("c", exactly(count=3))]) is None
    assert allocate(slices, [claim("c", exactly())], allocated=held("half-0", "half-1")) is None
    assert names(allocate(slices, [claim("c", exactly())], allocated=held("half-1"))) == [["half-0"]]


def test_shareable_device_until_its_capacity_is_used() -> None:
    device = {"name": "v", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}
    wanted = [claim(name, exactly(capacity={"requests": {"memory": "5Gi"}})) for name in "abc"]
    found = allocate([slice_of("a", [device])], wanted[:2])
    assert names(found) == [["v"], ["v"]]
    assert found is not None
    assert found[0].results[0].shared
    assert allocate([slice_of("a", [device])], wanted) is None
    assert allocate([slice_of("a", [device])], [claim("c", exactly(count=2, capacity={"requests": {"memory": "1Gi"}}))]) is None


def test_taints_and_tolerations() -> None:
    taint = {"key": "health", "value": "bad", "effect": "NoSchedule"}
    devices = [{"name": "gpu-0", "taints": [taint]}, {"name": "gpu-1", "taints": [{**taint, "effect": "None"}]}]
    assert names(allocate([slice_of("a", devices)], [claim("c", exactly())])) == [["gpu-1"]]
    tolerant = exactly(tolerations=[{"key": "health", "operator": "Exists"}])
    assert names(allocate([slice_of("a", devices)], [claim("c", tolerant)])) == [["gpu-0"]]
    assert names(allocate([slice_of("a", devices)], [claim("c", exactly())], rules=replace(RULES, taints=False))) == [["gpu-0"]]


def test_admin_access_sees_devices_in_use_but_not_twice_in_a_claim() -> None:
    found = allocate([slice_of("a", gpus(1))], [claim("c", exactly(adminAccess=True))], allocated=held("gpu-0"))
    assert names(found) == [["gpu-0"]]
    assert found is not None
    assert found[0].results[0].admin
    assert allocate([slice_of("a", gpus(1))], [claim("c", exactly(adminAccess=True, count=2))]) is None


def test_node_selector_of_the_allocation() -> None:
    local = allocate([slice_of("a", gpus(1))], [claim("c", exactly())])
    assert local is not None
    assert local[0].scope is not None
    assert local[0].scope.compiled.matches(node("node-1"))
    assert not local[0].scope.compiled.matches(node("node-2"))
    zoned = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    shared = allocate([slice_of("a", gpus(1), nodeSelector=zoned)], [claim("c", exactly())], on=node("node-3", zone="a"))
    assert shared is not None
    assert shared[0].scope is not None
    assert shared[0].scope.raw == zoned
    anywhere = allocate([slice_of("a", gpus(1), allNodes=True)], [claim("c", exactly())])
    assert anywhere is not None
    assert anywhere[0].scope is None


def test_devices_that_say_their_node() -> None:
    devices = [{"name": "x", "nodeName": "node-2"}, {"name": "y", "nodeName": "node-1"}]
    assert names(allocate([slice_of("a", devices, perDeviceNodeSelection=True)], [claim("c", exactly())])) == [["y"]]


def test_selector_errors_abort_and_name_the_owner() -> None:
    broken = exactly(selectors=[{"cel": {"expression": 'device.attributes["gpu.example.com"].nope == 1'}}])
    with pytest.raises(AllocationError) as caught:
        allocate([slice_of("a", gpus(1))], [claim("c", broken)])
    assert str(caught.value).startswith(
        "claim default/c: selector #0 on device gpu.example.com/node-1/gpu-0: CEL runtime error: no such key: nope"
    )
    with pytest.raises(AllocationError, match=r"^claim default/c: selector #0: CEL runtime error: no such key: nope$"):
        allocate([slice_of("a", gpus(1))], [claim("c", broken)], rules=replace(RULES, device_in_error=False))


def test_unknown_class_aborts() -> None:
    with pytest.raises(AllocationError, match="could not retrieve device class gpu"):
        allocate([slice_of("a", gpus(1))], [claim("c", exactly())], classes={})
    assert CLASSES
