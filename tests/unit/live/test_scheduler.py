"""Random sets of pods, decided by a real kube-scheduler and by the simulation: same choice up to ties, same event texts."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from controlplane_support import control_plane, need_controlplane
from ragstow import facts
from ragstow.cluster.build import build
from ragstow.cluster.release import Release
from ragstow.live.client import ApiClient
from ragstow.live.failures import Right
from ragstow.live.kubeconfig import Choice, access
from ragstow.live.transport import Transport
from ragstow.simulate.run import Request, simulate

SETS = 200
CHUNKS = 8
PODS = 5
FACTS = facts.load()
RIGHT = Right("create", "pods")
APPS = ("llm", "embedder", "reranker")
PRODUCTS = ("A", "B")
Json = dict[str, Any]


@pytest.fixture(scope="module")
def client() -> Iterator[ApiClient]:
    need_controlplane(own=True)
    with control_plane(scheduler=True) as plane:
        made = ApiClient(Transport(access(Choice(kubeconfig=str(plane.kubeconfig)), {})))
        yield made
        made.close()


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_simulation_decides_as_the_scheduler(chunk: int, client: ApiClient) -> None:
    release = Release(client.version().removeprefix("v"), "the API server")
    placed = refused = 0
    for number in range(chunk * SETS // CHUNKS, (chunk + 1) * SETS // CHUNKS):
        chance = random.Random(number)
        nodes = [random_node(chance, number, index) for index in range(chance.randint(2, 5))]
        for node in nodes:
            client.transport.json("POST", "/api/v1/nodes", RIGHT, body=node)
        # Informers of nodes and pods are not in step with each other: let the nodes arrive first.
        time.sleep(0.15)
        try:
            for index in range(PODS):
                pod = random_pod(chance, number, index)
                before = [*listed(client, "nodes"), *(item for item in listed(client, "pods") if item["spec"].get("nodeName"))]
                client.transport.json("POST", "/api/v1/namespaces/default/pods", RIGHT, body=pod)
                node_name, message = outcome(client, pod["metadata"]["name"])
                answer = simulate(build(before), build([pod]).pods, Request(release), FACTS)
                (entry,) = (item for item in answer.pods if item.name == pod["metadata"]["name"])
                where = f"set {number} pod {index}: {pod}"
                if node_name:
                    placed += 1
                    assert node_name in entry.ties, where
                else:
                    refused += 1
                    assert (entry.node, entry.message) == (None, message), where
        finally:
            empty(client)
    assert placed > 0
    assert refused > 0


@pytest.mark.parametrize("claim", ["unbound", "absent"])
def test_a_pod_that_a_volume_keeps_from_every_node(claim: str, client: ApiClient) -> None:
    """Its cycle ends before most plugins were asked, which the event's text shows."""
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "nobody", "resources": {"requests": {"storage": "1Gi"}}}
    unbound: Json = {"metadata": {"name": "unbound"}, "spec": spec}
    chance = random.Random(1)
    client.transport.json("POST", "/api/v1/nodes", RIGHT, body=random_node(chance, 0, 0))
    if claim == "unbound":
        client.transport.json("POST", "/api/v1/namespaces/default/persistentvolumeclaims", RIGHT, body=unbound)
    time.sleep(0.3)
    before = [*listed(client, "nodes"), *listed(client, "persistentvolumeclaims")]
    pod = random_pod(chance, 0, 0)
    pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    try:
        client.transport.json("POST", "/api/v1/namespaces/default/pods", RIGHT, body=pod)
        found = outcome(client, pod["metadata"]["name"])
    finally:
        empty(client)
        client.transport.send("DELETE", "/api/v1/namespaces/default/persistentvolumeclaims", RIGHT)
    (entry,) = simulate(build(before), build([pod]).pods, Request(Release("1.37.2", "asked")), FACTS).pods
    assert (entry.node or "", entry.message) == found


def listed(client: ApiClient, plural: str) -> list[Json]:
    resource = client.resources().plural("", plural)
    assert resource is not None
    return list(client.list(resource))


def outcome(client: ApiClient, name: str) -> tuple[str, str]:
    """Node, or the text of the refusal."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        pod = client.transport.json("GET", f"/api/v1/namespaces/default/pods/{name}", RIGHT)
        if pod["spec"].get("nodeName"):
            return str(pod["spec"]["nodeName"]), ""
        for condition in (pod.get("status") or {}).get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return "", str(condition["message"])
        time.sleep(0.01)
    raise AssertionError(f"{name} was not decided")


def empty(client: ApiClient) -> None:
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
    client.transport.send("DELETE", "/api/v1/namespaces/default/pods", RIGHT, body=options)
    client.transport.send("DELETE", "/api/v1/nodes", RIGHT, body=options)


def random_node(chance: random.Random, number: int, index: int) -> Json:
    name = f"set{number}-node{index}"
    amounts = {
        "cpu": str(chance.choice([4, 8, 16])),
        "memory": f"{chance.choice([16, 32, 64])}Gi",
        "pods": str(chance.choice([2, 10])),
        "ephemeral-storage": "100Gi",
    }
    gpus = chance.choice([0, 1, 2, 4])
    if gpus:
        amounts["nvidia.com/gpu"] = str(gpus)
    if chance.random() < 0.3:
        amounts["nvidia.com/mig-1g.10gb"] = str(chance.randint(1, 3))
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": chance.choice("ab")}
    if gpus:
        labels["nvidia.com/gpu.product"] = chance.choice(PRODUCTS)
    spec: Json = {}
    if chance.random() < 0.3:
        effect = chance.choice(["NoSchedule", "PreferNoSchedule", "NoExecute"])
        spec["taints"] = [{"key": "nvidia.com/gpu", "value": chance.choice(["present", "true"]), "effect": effect}]
    if chance.random() < 0.1:
        spec["unschedulable"] = True
        # Whatever cordons a node adds the taint too; no controller does it here.
        spec.setdefault("taints", []).append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def random_pod(chance: random.Random, number: int, index: int) -> Json:
    app = chance.choice(APPS)
    asked = {"cpu": chance.choice(["100m", "1", "3"]), "memory": chance.choice(["128Mi", "4Gi", "20Gi"])}
    limits: dict[str, str] = {}
    if chance.random() < 0.7:
        limits["nvidia.com/gpu"] = str(chance.choice([1, 1, 2, 4]))
    elif chance.random() < 0.4:
        limits["nvidia.com/mig-1g.10gb"] = "1"
    container: Json = {"name": "c", "image": "i", "resources": {"requests": asked, "limits": limits}}
    if chance.random() < 0.1:
        container["ports"] = [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}]
    spec: Json = {"containers": [container], "serviceAccountName": "default"}
    if chance.random() < 0.3:
        spec["nodeSelector"] = {"nvidia.com/gpu.product": chance.choice(PRODUCTS)}
    if chance.random() < 0.5:
        spec["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    affinity = random_affinity(chance, app)
    if affinity:
        spec["affinity"] = affinity
    if chance.random() < 0.25:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": chance.choice(["topology.kubernetes.io/zone", "kubernetes.io/hostname"]),
                "whenUnsatisfiable": chance.choice(["DoNotSchedule", "ScheduleAnyway"]),
                "labelSelector": {"matchLabels": {"app": app}},
            }
        ]
    meta = {"name": f"set{number}-pod{index}", "namespace": "default", "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def random_affinity(chance: random.Random, app: str) -> Mapping[str, Any]:
    made: Json = {}
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
    if chance.random() < 0.2:
        made["nodeAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "preference": {"matchExpressions": [zone]}}]
        }
    elif chance.random() < 0.1:
        terms = {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}
        made["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    if chance.random() < 0.15:
        made["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    elif chance.random() < 0.15:
        other = {**term, "topologyKey": "topology.kubernetes.io/zone"}
        made["podAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": other}]}
    elif chance.random() < 0.1:
        made["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return made
