"""The bundled clusters hang together: what the API server would refuse or never show does not occur in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from ragstow import facts, kubeyaml
from ragstow.cluster.read import read
from ragstow.cluster.snapshot import Snapshot
from ragstow.inventory.build import inventory
from ragstow.spec import load
from support import ROOT

EXAMPLES = ROOT / "examples"
CLUSTERS = sorted(path.parent.name for path in EXAMPLES.glob("*/cluster"))
SERVICES = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.glob("*/service*.yaml"))
FACTS = facts.load()


def snapshot(name: str) -> Snapshot:
    return read(str(EXAMPLES / name / "cluster"))


def raw(name: str) -> list[dict[str, Any]]:
    files = sorted((EXAMPLES / name / "cluster").glob("*.yaml"))
    return [item for file in files for item in kubeyaml.load_all(file.read_text())[0].value["items"]]


@pytest.mark.parametrize("name", CLUSTERS)
def test_every_object_is_read(name: str) -> None:
    assert snapshot(name).problems == ()


@pytest.mark.parametrize("name", CLUSTERS)
def test_every_object_is_valid_in_its_release(name: str) -> None:
    version = json.loads((EXAMPLES / name / "cluster" / "version.json").read_text())["serverVersion"]
    for item in raw(name):
        if item["kind"] != "ClusterPolicy":
            kubernetes_validate.validate(item, f"{version['major']}.{version['minor']}", strict=True)


@pytest.mark.parametrize("name", CLUSTERS)
def test_owners_namespaces_nodes_and_addresses_exist(name: str) -> None:
    items = raw(name)
    uids = {item["metadata"]["uid"] for item in items}
    assert len(uids) == len(items)
    namespaces = {item["metadata"]["name"] for item in items if item["kind"] == "Namespace"}
    nodes = {item["metadata"]["name"]: item for item in items if item["kind"] == "Node"}
    addresses: list[str] = []
    for item in items:
        assert item["metadata"].get("namespace", "") in {*namespaces, ""}
        assert all(owner["uid"] in uids for owner in item["metadata"].get("ownerReferences", []))
        if item["kind"] == "Pod":
            node = nodes[item["spec"]["nodeName"]]
            assert item["status"]["hostIP"] in [row["address"] for row in node["status"]["addresses"]]
            if not item["spec"].get("hostNetwork") and item["status"]["phase"] == "Running":
                addresses.append(item["status"]["podIP"])
    assert len(addresses) == len(set(addresses))


@pytest.mark.parametrize("name", CLUSTERS)
def test_no_node_holds_more_than_it_has_and_every_pod_tolerates_its_node(name: str) -> None:
    found = snapshot(name)
    for node in found.nodes:
        pods = [pod for pod in found.pods if pod.node == node.name and not pod.finished]
        assert len(pods) <= node.allocatable["pods"]
        for resource in {name for pod in pods for container in pod.containers for name in container.requests}:
            used = sum(container.requests.get(resource, 0) for pod in pods for container in pod.containers)
            assert used <= node.allocatable[resource], f"{node.name} {resource}"
        for pod in pods:
            for taint in node.taints:
                assert any(
                    row.key in ("", taint.key) and (row.operator == "Exists" or row.value == taint.value)
                    for row in pod.tolerations
                ), f"{pod.key} does not tolerate {taint}"


@pytest.mark.parametrize("name", CLUSTERS)
def test_controllers_count_the_pods_that_are_there(name: str) -> None:
    items = raw(name)
    owners = [owner["uid"] for item in items if item["kind"] == "Pod" for owner in item["metadata"].get("ownerReferences", [])]
    for item in items:
        count = owners.count(item["metadata"]["uid"])
        if item["kind"] == "DaemonSet":
            assert item["status"]["desiredNumberScheduled"] == count, item["metadata"]["name"]
        if item["kind"] in ("ReplicaSet", "StatefulSet"):
            assert item["spec"]["replicas"] == count, item["metadata"]["name"]


CARDS = {
    "all-cards-taken": {"NVIDIA-L4": (4, 0)},
    "cloud-l4-pool": {"NVIDIA-L4": (4, 4)},
    "h100-operator": {"NVIDIA-H100-80GB-HBM3": (8, 8)},
    "k3s-two-cards": {"unknown": (2, 2)},
    "k3s-two-cards-dra": {"NVIDIA-GeForce-RTX-3090": (2, 2)},
    "mixed-t4-a100": {"NVIDIA-A100-SXM4-40GB": (8, 7), "Tesla-T4": (4, 4)},
    "no-gpu": {},
}


@pytest.mark.parametrize("name", CLUSTERS)
def test_cards_and_what_is_free(name: str) -> None:
    totals = inventory(snapshot(name), FACTS).totals
    assert {product: (row.cards, row.cards_free) for product, row in totals.items()} == CARDS[name]


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_accepted(name: str) -> None:
    assert load(EXAMPLES / name, FACTS).components


def test_the_readme_names_every_example() -> None:
    text = (EXAMPLES / "README.md").read_text()
    assert all(f"`{name}`" in text for name in CLUSTERS)


def test_examples_are_small() -> None:
    for name in CLUSTERS:
        size = sum(path.stat().st_size for path in Path(EXAMPLES / name).rglob("*") if path.is_file())
        assert size < 200_000, name
