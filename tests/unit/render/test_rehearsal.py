"""What a plan's own manifests do on the cluster: rollouts, lost nodes, broken promises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from plan_clusters import A100, chart, cluster, gpu_node, holder, planned, service
from ragstow import facts
from ragstow.cluster.build import build
from ragstow.cluster.snapshot import Snapshot
from ragstow.plan.model import Plan
from ragstow.render import render
from ragstow.render.rehearsal import rehearse
from ragstow.render.rehearsalwords import rehearsed
from ragstow.spec import load_text

FACTS = facts.load()
LLM = "llm 30000 %d"
HEAD = "apiVersion: ragstow.dev/v1alpha1\nkind: RagService\nmetadata: {name: demo, namespace: rag}\nspec:\n"
STORE = """  components:
  - {name: llm, role: ingest, image: "registry.example/llm:1", gpu: required, replicas: 2, footprint: {memoryMiB: 30000}}
  - {name: vectors, role: vector-store, vectors: 1M, dimensions: 768}
"""


def played(wanted: Any, snapshot: Snapshot) -> Plan:
    return rehearse(wanted, planned(wanted, snapshot), snapshot, FACTS)


def simulation(made: Plan) -> Any:
    assert made.simulation is not None
    return made.simulation


def test_a_single_replica_is_recreated_and_moves_when_its_node_is_lost() -> None:
    made = played(service(LLM % 1), cluster(chart(), gpu_node("n1", A100, 1), gpu_node("n2", A100, 1)))
    (rollout,) = simulation(made)["rollouts"]
    assert (rollout["component"], rollout["strategy"], rollout["done"], rollout["leastReady"]) == ("llm", "Recreate", True, 0)
    (lost,) = simulation(made)["nodesLost"]
    assert lost["survives"] is True
    assert lost["components"][0]["moved"] == [{"pod": "rag/demo-llm-0", "node": "n2" if lost["node"] == "n1" else "n1"}]


def test_a_lost_node_without_another() -> None:
    made = played(service(LLM % 2), cluster(chart(), gpu_node("n1", A100, 2)))
    (lost,) = simulation(made)["nodesLost"]
    assert made.feasible
    assert lost["survives"] is False
    assert [(row["component"], row["running"], len(row["waiting"])) for row in lost["components"]] == [("llm", 0, 2)]
    assert ("one node lost", "llm may be left without a replica") in rehearsed(made)


def test_pods_of_others_take_what_is_free_first_where_they_are_more_important() -> None:
    important = holder("batch", "n1")
    important["spec"]["priority"] = 1000
    important["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "batch", "uid": "batch", "controller": True}
    ]
    snapshot = cluster(chart(), gpu_node("n1", A100, 2), gpu_node("n2", A100, 1), holder("here", "n2"))
    alone = snapshot.replace(remove=list(snapshot.pods))
    for what, others, running in ((alone, {"moved": 0, "waiting": []}, 1), (alone, {"moved": 1, "waiting": []}, 0)):
        with_it = what.replace(put=_typed(important)) if others["moved"] else what
        made = played(service(LLM % 1), with_it)
        lost = next(row for row in simulation(made)["nodesLost"] if row["node"] == made.placements[0].node)
        assert made.placements[0].node == "n1"
        assert (lost["others"], lost["components"][0]["running"]) == (others, running)


def test_the_service_that_runs_already_is_rolled_where_it_is() -> None:
    wanted = service(LLM % 1)
    snapshot = cluster(chart(), gpu_node("n1", A100, 1), gpu_node("n2", A100, 1))
    first = planned(wanted, snapshot)
    objects = [dict(item) for item in render(wanted, first, FACTS).objects]
    (deployment,) = [item for item in objects if item["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **template["metadata"],
            "name": "demo-llm-abc",
            "namespace": "rag",
            "uid": "p",
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "demo-llm", "uid": "d", "controller": True}
            ],
        },
        "spec": {**template["spec"], "nodeName": "n2"},
        "status": {"phase": "Running"},
    }
    running = snapshot.replace(put=[item for raw in (*objects, pod) for item in _typed(raw)])
    made = rehearse(wanted, planned(wanted, running), running, FACTS)
    assert simulation(made)["unplaced"] == []
    assert [row["done"] for row in simulation(made)["rollouts"]] == [True]
    lost = next(row for row in simulation(made)["nodesLost"] if row["components"])
    assert lost["components"][0]["moved"][0]["pod"] == "rag/demo-llm-abc"


def _typed(raw: Any) -> list[Any]:
    return [item for table in build([raw], any_shape=True).objects.values() for item in table.values()]


def test_a_volume_that_cannot_follow_breaks_the_promise_to_survive() -> None:
    """The only node of the volume's zone is lost: planned without volumes in sight, refused by the simulation."""
    nodes = [gpu_node(f"n{number}", A100, 1, {"topology.kubernetes.io/zone": f"z{number}"}) for number in (1, 2)]
    ssd = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "ssd", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    snapshot = build([chart(), *nodes, ssd], version="v1.34.1")
    assert played(load_text(f"{HEAD}{STORE}", FACTS), snapshot).feasible
    made = played(load_text(f"{HEAD}  placement: {{survive: node}}\n{STORE}", FACTS), snapshot)
    assert not made.feasible
    assert {reason.code for reason in made.reasons} == {"node-lost"}


def test_a_plan_that_does_not_fit_is_left_alone() -> None:
    made = planned(service(LLM % 1), cluster(chart(), gpu_node("n1", A100, 0)))
    assert not made.feasible
    assert rehearse(service(LLM % 1), made, cluster(chart()), FACTS) is made


def test_the_steps_say_it() -> None:
    wanted = service(LLM % 1)
    made = played(wanted, cluster(chart(), gpu_node("n1", A100, 1)))
    page = next(file.text for file in render(wanted, made, FACTS).files if file.path == "STEPS.md")
    assert "- rollout: ok; nothing serves while it runs: llm" in page
    assert "- n1 lost: llm 0 of 1, 1 waits" in page
    stuck = {**simulation(made)["rollouts"][0], "done": False, "deadlock": "no card is free", "remedy": "Recreate"}
    changed = replace(made, simulation={**simulation(made), "rollouts": [stuck]})
    page = next(file.text for file in render(wanted, changed, FACTS).files if file.path == "STEPS.md")
    assert "- rollout of llm STANDS STILL: no card is free; set Recreate" in page
