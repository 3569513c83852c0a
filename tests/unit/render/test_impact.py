"""The blast radius of procedures: which DaemonSets restart where, which nodes close, whose pods lose a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragstow import facts
from ragstow.inventory.build import inventory
from ragstow.render import procedure
from ragstow.render.impact import Impact, impact
from render_plans import SCENARIOS, Scenario
from simulations import GPU, budget, cluster, deployed, node

FACTS = facts.load()


def daemon(name: str, namespace: str, *nodes: str) -> list[dict[str, Any]]:
    """A DaemonSet's pods on nodes."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{at}",
                "namespace": namespace,
                "uid": f"{name}-{at}",
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": name, "controller": True}
                ],
            },
            "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": at},
            "status": {"phase": "Running"},
        }
        for at in nodes
    ]


def radius(scenario: Scenario, *objects: dict[str, Any], **more: Any) -> Impact:
    snapshot = cluster(*objects)
    made = procedure(scenario.service, scenario.plan, FACTS)
    return impact(made, scenario.plan, snapshot, inventory(snapshot, FACTS), **more)


def restarted(found: Impact) -> dict[str, tuple[str, ...]]:
    return {item.daemon_set: item.nodes for item in found.daemon_sets}


PLUGIN, GFD, MANAGER = "nvidia-device-plugin-daemonset", "gpu-feature-discovery", "nvidia-mig-manager"


def test_a_plan_that_changes_no_node_has_none() -> None:
    found = radius(SCENARIOS["exclusive"](), node("n1", 2))
    assert (found.pods, found.budgets, found.daemon_sets, found.nodes, found.disturbed) == ((), (), (), (), ())


def test_mig_by_the_operator_restarts_its_manager_everywhere_and_pauses_the_plugin_on_one_node() -> None:
    nodes = ("gpu-h100-1", "gpu-h100-2")
    stack = [item for name in (PLUGIN, GFD, MANAGER) for item in daemon(name, "gpu-operator", *nodes)]
    found = radius(SCENARIOS["mig-operator"](), *(node(name, 8) for name in nodes), *stack)
    assert restarted(found) == {
        f"gpu-operator/{MANAGER}": nodes,
        f"gpu-operator/{PLUGIN}": ("gpu-h100-1",),
        f"gpu-operator/{GFD}": ("gpu-h100-1",),
    }
    (closed,) = found.nodes
    assert (closed.node, closed.stays) == ("gpu-h100-1", False)
    assert closed.until[-1].startswith("wait until gpu-h100-1 offers 7 x nvidia.com/gpu, 4 x nvidia.com/mig-1g.10gb")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("time-slicing-chart", {"nvidia-device-plugin/nvdp-nvidia-device-plugin": ("n2", "ragbox")}),
        ("time-slicing-static", {f"kube-system/{PLUGIN}": ("n2", "ragbox")}),
        ("time-slicing-operator", {f"gpu-operator/{PLUGIN}": ("n2", "ragbox"), f"gpu-operator/{GFD}": ("n2", "ragbox")}),
        ("time-slicing-operator-added", {f"gpu-operator/{PLUGIN}": ("n2", "ragbox"), f"gpu-operator/{GFD}": ("n2", "ragbox")}),
        (
            "mps-external",
            {
                "nvidia-device-plugin/nvdp-nvidia-device-plugin": ("n2", "ragbox"),
                "nvidia-device-plugin/nvdp-nvidia-device-plugin-gpu-feature-discovery": ("n2", "ragbox"),
            },
        ),
        ("mig-by-hand", {"nvidia-device-plugin/nvdp-nvidia-device-plugin": ("n2", "ragbox")}),
    ],
)
def test_new_plugin_configuration_restarts_the_plugin_on_all_its_nodes(name: str, expected: dict[str, Any]) -> None:
    scenario = SCENARIOS[name]()
    stack = [
        item
        for where in ("gpu-operator", "kube-system", "nvidia-device-plugin")
        for daemon_set in (PLUGIN, GFD, "nvdp-nvidia-device-plugin", "nvdp-nvidia-device-plugin-gpu-feature-discovery")
        for item in daemon(daemon_set, where, "ragbox", "n2")
    ]
    found = restarted(radius(scenario, node("ragbox", 2), node("n2", 2), *stack))
    if name == "mig-by-hand":
        key = "nvidia-device-plugin/nvdp-nvidia-device-plugin"
        assert set(expected[key]) <= set(found[key])
    else:
        assert found == expected


def test_pods_of_others_are_disturbed_own_ones_are_not() -> None:
    own = deployed("old", ["ragbox"], 1)
    own[-1]["metadata"]["labels"]["ragstow.dev/service"] = "notes"
    scenario = SCENARIOS["time-slicing-operator"]()
    objects = [node("ragbox", 2), node("n2", 1), *deployed("llm", ["ragbox"], 1), *own, budget("llm", "llm", maxUnavailable=1)]
    found = radius(scenario, *objects)
    assert found.disturbed == ("rag/llm-old-0",)
    assert {item.pod: (item.own, item.outcome, item.to) for item in found.pods} == {
        "rag/llm-old-0": (False, "moves", "n2"),
        "rag/old-old-0": (True, "waits", None),
    }
    assert [(item.budget, item.verdict) for item in found.budgets] == [("rag/llm", "allows")]


def test_a_node_that_was_closed_before_stays_so() -> None:
    closed = node("ragbox", 2)
    closed["spec"]["unschedulable"] = True
    assert [item.stays for item in radius(SCENARIOS["time-slicing-operator"](), closed).nodes] == [True]


def test_workloads_come_with_the_pods_they_have() -> None:
    changes = {("Deployment", "rag", "llm"): "replaced", ("Deployment", "rag", "new"): "new"}
    found = radius(SCENARIOS["exclusive"](), node("n1", 2), *deployed("llm", ["n1"], 1), changes=changes)
    assert [(item.workload, item.change, item.pods) for item in found.workloads] == [
        ("Deployment rag/llm", "replaced", ("rag/llm-old-0",)),
        ("Deployment rag/new", "new", ()),
    ]


def test_same_bytes_for_the_same_input() -> None:
    scenario = SCENARIOS["mig-operator"]()
    again = replace(scenario.plan, layouts=tuple(scenario.plan.layouts))
    objects = [node("gpu-h100-1", 8, extra={GPU: "8"}), *daemon(PLUGIN, "gpu-operator", "b", "a")]
    assert radius(scenario, *objects) == radius(Scenario(scenario.service, again), *objects)
