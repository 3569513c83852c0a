"""Refusals: the exact upstream text, and the same in words with node, label and number."""

from __future__ import annotations

from typing import Any

import pytest

from ragstow.cluster.build import build
from ragstow.scheduling.release import Release
from ragstow.simulate.engine import Attempt, Engine, Options

Raw = dict[str, Any]


def node(name: str = "n1", **parts: Any) -> Raw:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10", **parts.pop("allocatable", {})}
    labels = {"kubernetes.io/hostname": name, **parts.pop("labels", {})}
    status = {"allocatable": amounts, **parts.pop("status", {})}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": parts, "status": status}


def pod(name: str = "p", labels: Raw | None = None, requests: Raw | None = None, ports: Any = (), **spec: Any) -> Raw:
    container = {"name": "c", "image": "i", "resources": {"requests": requests or {}}, "ports": list(ports)}
    meta = {"name": name, "namespace": "rag", "labels": labels or {"app": "a"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}


def attempt(*objects: Raw, release: str = "1.37.2", **how: Any) -> Attempt:
    cluster = build(objects)
    arrivals = [item for item in cluster.pods if item.node is None]
    options = Options(Release.parse(release), order="list", preemption=False, explain=True, detail=True, **how)
    return next(Engine(cluster, arrivals, options).run())


def required(*terms: Raw) -> Raw:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def near(side: str, app: str = "a", key: str = "kubernetes.io/hostname") -> Raw:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {side: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(**parts: Any) -> list[Raw]:
    selector = {"labelSelector": {"matchLabels": {"app": "a"}}}
    return [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **selector, **parts}]


_TAINTED = node(taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}])
_GPUS = node(allocatable={"nvidia.com/gpu": "2"})
_PORT = {"containerPort": 80, "hostPort": 8080}
_FEATURE = "RestartAllContainersOnContainerExits"


@pytest.mark.parametrize(
    ("objects", "text", "code", "words"),
    [
        ([node(unschedulable=True), pod()], "node(s) were unschedulable", "node-cordoned", ["n1 is cordoned"]),
        (
            [_TAINTED, pod()],
            "node(s) had untolerated taint(s)",
            "taint-untolerated",
            ["n1 has taint nvidia.com/gpu=present:NoSchedule", "rag/p does not tolerate"],
        ),
        (
            [node(labels={"disk": "hdd"}), pod(nodeSelector={"disk": "ssd"})],
            "node(s) didn't match Pod's node affinity/selector",
            "node-selector",
            ["n1 has disk=hdd, rag/p asks for disk=ssd"],
        ),
        (
            [node(), pod(affinity=required({"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["l4"]}]}))],
            "node(s) didn't match Pod's node affinity/selector",
            "node-affinity",
            ["gpu is absent, not In l4"],
        ),
        (
            [node(), pod(affinity=required({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}))],
            "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            "outside-names",
            ["n1 is not one of the nodes that rag/p names"],
        ),
        (
            [node(), pod("r", ports=[_PORT], nodeName="n1"), pod(ports=[_PORT])],
            "node(s) didn't have free ports for the requested pod ports",
            "host-port-taken",
            ["host port 0.0.0.0:8080/TCP is held by rag/r"],
        ),
        (
            [_GPUS, pod("r", requests={"nvidia.com/gpu": "1"}, nodeName="n1"), pod(requests={"nvidia.com/gpu": "2"})],
            "Insufficient nvidia.com/gpu",
            "resource-short",
            ["n1 has 1 of 2 nvidia.com/gpu free, rag/p asks for 2"],
        ),
        (
            [_GPUS, pod(requests={"nvidia.com/gpu": "4"})],
            "Insufficient nvidia.com/gpu",
            "resource-too-small",
            ["n1 has 2 of nvidia.com/gpu in all, rag/p asks for 4"],
        ),
        (
            [node(), pod(requests={"nvidia.com/gpu": "1"})],
            "Insufficient nvidia.com/gpu",
            "resource-absent",
            ["n1 has no nvidia.com/gpu"],
        ),
        (
            [node(), pod(requests={"memory": "12Gi"})],
            "Insufficient memory",
            "resource-too-small",
            ["8 GiB", "12 GiB"],
        ),
        (
            [node(allocatable={"pods": "1"}), pod("r", nodeName="n1"), pod()],
            "Too many pods",
            "too-many-pods",
            ["n1 runs 1 pods of 1 allowed"],
        ),
        (
            [node(), pod(topologySpreadConstraints=spread())],
            "node(s) didn't match pod topology spread constraints (missing required label)",
            "spread-label-missing",
            ["n1 has no label zone"],
        ),
        (
            [node(labels={"zone": "z"}), pod("r", nodeName="n1"), pod(topologySpreadConstraints=spread(minDomains=2))],
            "node(s) didn't match pod topology spread constraints",
            "spread-skew",
            ["zone=z would have 2 pods, the least has 0; maxSkew is 1"],
        ),
        (
            [node(), pod(affinity=near("podAffinity", "db"))],
            "node(s) didn't match pod affinity rules",
            "affinity-unmet",
            ["no pod that rag/p wants near runs in kubernetes.io/hostname=n1"],
        ),
        (
            [node(), pod(affinity=near("podAffinity", "db", "rack"))],
            "node(s) didn't match pod affinity rules",
            "affinity-label-missing",
            ["n1 has no label rack"],
        ),
        (
            [node(), pod("r", nodeName="n1"), pod(affinity=near("podAntiAffinity"))],
            "node(s) didn't match pod anti-affinity rules",
            "anti-affinity",
            ["rag/r runs in kubernetes.io/hostname=n1"],
        ),
        (
            [node(), pod("r", nodeName="n1", affinity=near("podAntiAffinity", "b")), pod(labels={"app": "b"})],
            "node(s) didn't satisfy existing pods anti-affinity rules",
            "anti-affinity-existing",
            ["rag/r in kubernetes.io/hostname=n1 does not want rag/p near it"],
        ),
    ],
)
def test_text_and_words(objects: list[Raw], text: str, code: str, words: list[str]) -> None:
    for one_by_one in (False, True):
        made = attempt(*objects, one_by_one=one_by_one)
        assert made.node is None
        assert made.message == f"0/1 nodes are available: 1 {text}."
        (reason,) = made.decision.explained["n1"]
        assert reason.code == code
        for part in words:
            assert part in reason.text


def test_the_taint_is_named_in_the_event_up_to_1_34_1_only() -> None:
    assert "untolerated taint {nvidia.com/gpu: present}" in attempt(_TAINTED, pod(), release="1.34.1").message
    assert "untolerated taint(s)" in attempt(_TAINTED, pod(), release="1.34.2").message


def test_a_feature_that_the_kubelet_does_not_declare() -> None:
    arrival = pod()
    arrival["spec"]["containers"][0]["restartPolicyRules"] = [{"action": "RestartAllContainers"}]
    made = attempt(node(), arrival)
    assert made.message == "0/1 nodes are available: 1 node(s) didn't match Pod's required features."
    assert _FEATURE in made.decision.explained["n1"][0].text
    assert attempt(node(status={"declaredFeatures": [_FEATURE]}), arrival).node == "n1"
    assert attempt(node(), arrival, release="1.35.4").node == "n1"


def test_conflicting_names_end_before_any_node() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("n1", "n2")]
    made = attempt(node(), node("n2"), pod(affinity=required({"matchFields": fields})))
    assert made.message == "0/2 nodes are available: pod affinity terms conflict."
    assert made.decision.pre_filter is not None
    assert made.decision.reasons == {"prefilter: pod affinity terms conflict": 1}


def test_gates_keep_a_pod_out_of_the_queue() -> None:
    made = attempt(node(), pod(schedulingGates=[{"name": "x.example/wait"}, {"name": "y"}]))
    assert made.pre_enqueue is not None
    assert made.pre_enqueue.message == "waiting for scheduling gates: [x.example/wait y]"
    assert (made.node, made.message) == (None, "")


def test_counts_are_sorted_as_texts_and_one_node_may_lack_several_things() -> None:
    nodes = [node(f"a{i}") for i in range(10)] + [node(f"b{i}", unschedulable=True) for i in range(2)]
    made = attempt(*nodes, pod(requests={"cpu": "5", "memory": "9Gi"}))
    assert (
        made.message == "0/12 nodes are available: 10 Insufficient cpu, 10 Insufficient memory, 2 node(s) were unschedulable."
    )


def test_another_scheduler_s_pod_is_left_to_it() -> None:
    made = attempt(node(), pod(schedulerName="kai-scheduler"))
    assert made.node is None
    assert "kai-scheduler" in made.message
