"""Extended resources that a device class backs: who serves them on a node, and with which requests."""

from __future__ import annotations

from typing import Any

import pytest

from support_dra import Json, pod, raw_class, raw_slice
from support_player import Player
from support_volumes import node

pytestmark = pytest.mark.usefixtures("with_cel")

NAME = "example.com/gpu"


def plugin_node(name: str, amount: str) -> Json:
    """A node whose device plugin serves the resource."""
    made = node(name)
    made["status"]["allocatable"] = {**made["status"]["allocatable"], NAME: amount}
    return made


def cluster(devices: int = 2, *nodes: Json, release: str = "1.37.2") -> Player:
    """n0 has devices in a slice."""
    slices = raw_slice("n0", [f"gpu-{number}" for number in range(devices)])
    return Player([node("n0"), *nodes, raw_class("gpu", resource=NAME), slices], release)


def test_a_node_with_devices_gets_a_claim() -> None:
    booked = cluster().place(pod("p", c={NAME: "2"}), "n0")
    assert [item["device"] for item in booked["devices"]["extended-resources"]["results"]] == ["gpu-0", "gpu-1"]
    assert booked["extended_requests"] == ["container-0-request-0=gpu x2"]
    assert booked["extended_mappings"] == [{"containerName": "c", "resourceName": NAME, "requestName": "container-0-request-0"}]


def test_a_node_with_a_device_plugin_needs_no_claim() -> None:
    player = cluster(2, plugin_node("n1", "4"))
    assert player.refusals(pod("p", c={NAME: "2"})) == {}
    assert player.place(pod("p", c={NAME: "4"}), "n1") == {}
    assert player.refusals(pod("q", c={NAME: "1"})) == {"n1": (f"Insufficient {NAME}",)}


def test_devices_run_out_and_come_back() -> None:
    player = cluster()
    player.place(pod("p", c={NAME: "1"}), "n0")
    assert player.refusals(pod("q", c={NAME: "2"})) == {"n0": ("cannot allocate all claims",)}
    player.leave("p")
    assert player.refusals(pod("q", c={NAME: "2"})) == {}


def test_releases_before_ask_the_node() -> None:
    assert cluster(release="1.35.4").refusals(pod("p", c={NAME: "1"})) == {"n0": (f"Insufficient {NAME}",)}


def test_the_implicit_name_of_a_class_needs_no_field() -> None:
    implicit = "deviceclass.resource.kubernetes.io/gpu"
    player = Player([node("n0"), node("n1"), raw_class("gpu"), raw_slice("n0", ["gpu-0"])])
    assert player.refusals(pod("p", c={implicit: "1"})) == {"n1": ("cannot allocate all claims",)}


@pytest.mark.parametrize(
    ("containers", "requests"),
    [
        ({"init": {NAME: "1"}, "c": {NAME: "2"}}, ["container-1-request-0=gpu x2"]),
        ({"init": {NAME: "3"}, "c": {NAME: "2"}}, ["container-0-request-0=gpu x1", "container-1-request-0=gpu x2"]),
        (
            {"init_stays": {NAME: "1"}, "init": {NAME: "1"}, "c": {NAME: "1"}},
            ["container-0-request-0=gpu x1", "container-2-request-0=gpu x1"],
        ),
        ({"init": {NAME: "2"}, "init_b": {NAME: "3"}, "c": {}}, ["container-1-request-0=gpu x3"]),
        (
            {"a": {NAME: "1", "example.com/a": "0"}, "b": {NAME: "1"}},
            ["container-0-request-1=gpu x1", "container-1-request-0=gpu x1"],
        ),
    ],
)
def test_init_containers_reuse_what_later_ones_need(containers: dict[str, Any], requests: list[str]) -> None:
    assert cluster(8).place(pod("p", **containers), "n0")["extended_requests"] == requests


def test_of_two_classes_the_newer_counts() -> None:
    old, new = raw_class("old", driver="none.example.com", resource=NAME), raw_class("gpu", resource=NAME)
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    new["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    booked = Player([node("n0"), old, new, raw_slice("n0", ["gpu-0"])]).place(pod("p", c={NAME: "1"}), "n0")
    assert booked["extended_requests"] == ["container-0-request-0=gpu x1"]


def test_a_class_that_lost_its_resource_has_no_implicit_name() -> None:
    """The original leaves it out altogether, where it comes after the winner."""
    first, second = raw_class("a", resource=NAME), raw_class("b", resource=NAME)
    player = Player([node("n0"), first, second, raw_slice("n0", ["gpu-0"])])
    assert player.refusals(pod("p", c={"deviceclass.resource.kubernetes.io/a": "1"})) == {}
    lost = "deviceclass.resource.kubernetes.io/b"
    assert player.refusals(pod("p", c={lost: "1"})) == {"n0": (f"Insufficient {lost}",)}
