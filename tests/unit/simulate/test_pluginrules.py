"""A plugin that gives a container one share only: bound by the scheduler, rejected by the node."""

from __future__ import annotations

import pytest

from ragstow.inventory.build import inventory
from ragstow.simulate import pluginrules
from simulations import FACTS, Json, cluster, node, play, workload

SHARED = {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [
        ({"mps": SHARED}, {"nvidia.com/gpu"}),
        ({"mps": {**SHARED, "failRequestsGreaterThanOne": False}}, set()),
        ({"timeSlicing": SHARED}, set()),
        ({"timeSlicing": {**SHARED, "failRequestsGreaterThanOne": True, "renameByDefault": True}}, {"nvidia.com/gpu.shared"}),
        (
            {
                "timeSlicing": {**SHARED, "failRequestsGreaterThanOne": True},
                "mps": {**SHARED, "failRequestsGreaterThanOne": False},
            },
            set(),
        ),
        ({}, set()),
    ],
)
def test_which_resources(sharing: Json, expected: set[str]) -> None:
    assert pluginrules.refused({"sharing": sharing}) == expected


def test_the_text_is_the_plugin_s_as_the_kubelet_passes_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pluginrules, "nodes", lambda _inventory: {"n1": frozenset({"nvidia.com/gpu"})})
    live = cluster(node("n1", 8))
    answer = play(live, workload("Deployment", "llm", 1, 2), inventory=inventory(live, FACTS))
    assert answer.loops[0].reason == "UnexpectedAdmissionError"
    assert answer.loops[0].message == (
        'Allocate failed due to rpc error: code = Unknown desc = invalid allocation request for "nvidia.com/gpu": '
        "invalid request: maximum request size for shared resources is 1; found 2, which is unexpected"
    )
