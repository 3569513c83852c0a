"""On which cards of a node a pod may sit: those that offer its resource."""

from __future__ import annotations

import pytest

from ragstow.cluster.read import read
from ragstow.inventory.build import inventory
from ragstow.simulate.model import PodEntry
from ragstow.simulate.run import Request, simulate
from simulations import FACTS, RELEASE, objects, workload
from support import DATA


def entry(name: str, resource: str, count: int = 1) -> PodEntry:
    snapshot = read(str(DATA / "clusters" / f"{name}.tar.gz"))
    given = workload("Deployment", "new", 1, tolerations=[{"operator": "Exists"}])
    given["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {resource: str(count)}
    answer = simulate(snapshot, objects(given), Request(RELEASE, inventory=inventory(snapshot, FACTS)), FACTS)
    return answer.pods[-1]


@pytest.mark.parametrize(
    ("name", "resource", "count", "cards", "certain"),
    [
        ("01-device-plugin-bare-metal", "nvidia.com/gpu", 1, {(0, 1, 2, 3), (0, 1)}, False),
        ("02-operator-mig-mixed", "nvidia.com/gpu", 1, {(0, 1, 2, 3)}, False),
        ("02-operator-mig-mixed", "nvidia.com/mig-2g.20gb", 1, {(4, 5)}, False),
        ("02-operator-mig-mixed", "nvidia.com/mig-3g.40gb", 1, {(4, 5, 6, 7)}, False),
        ("04-time-slicing-renamed", "nvidia.com/gpu.shared", 1, {(0, 1)}, False),
    ],
)
def test_cards_that_offer_the_resource(
    name: str, resource: str, count: int, cards: set[tuple[int, ...]], certain: bool
) -> None:
    found = entry(name, resource, count)
    if found.node is None:
        pytest.fail(found.message)
    choice = found.cards[resource]
    assert choice.cards in cards
    assert choice.certain is certain


def test_a_pod_without_gpu_has_none() -> None:
    snapshot = read(str(DATA / "clusters" / "01-device-plugin-bare-metal.tar.gz"))
    request = Request(RELEASE, inventory=inventory(snapshot, FACTS))
    assert simulate(snapshot, objects(workload("Deployment", "new", 1)), request, FACTS).pods[0].cards == {}
