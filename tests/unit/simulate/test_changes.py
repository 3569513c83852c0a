"""Near misses of every kind: the words, and changes that were carried out and hold."""

from __future__ import annotations

from typing import Any

from changes import near
from ragstow.scheduling.dra.cluster import DraCluster
from ragstow.scheduling.dra.model import DeviceId
from ragstow.scheduling.release import Release
from ragstow.simulate.engine import Engine, Options
from ragstow.simulate.trial import without
from simulations import GPU, Json, cluster, node, running, workload

DRIVER = "gpu.example.com"
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def required(*expressions: Json) -> Json:
    terms = [{"matchExpressions": list(expressions)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def podwise(side: str, app: str, key: str = HOST, **more: Any) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}
    return {side: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


# --- devices of claims ---


def devices(at: str, count: int, **more: Any) -> Json:
    pool = {"name": at, "generation": 1, "resourceSliceCount": 1}
    listed = [{"name": f"gpu-{number}", **more} for number in range(count)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{at}-slice"},
        "spec": {"driver": DRIVER, "nodeName": at, "pool": pool, "devices": listed},
    }


def device_class(**spec: Any) -> Json:
    selectors = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
    meta = {"name": "gpu"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": meta,
        "spec": {"selectors": selectors, **spec},
    }


def claim(name: str, count: int = 1, *, at: str = "", devices: tuple[int, ...] = (), users: tuple[str, ...] = ()) -> Json:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    made: Json = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "rag", "uid": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
    if users:
        results = [{"request": "gpu", "driver": DRIVER, "pool": at, "device": f"gpu-{number}"} for number in devices]
        made["status"] = {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": user, "uid": user} for user in users],
        }
    return made


def asking(name: str) -> list[Json]:
    return [{"name": "gpu", "resourceClaimName": name}]


def test_devices_that_claims_hold_are_named_and_how_many_lack() -> None:
    live = [
        *(node("n0"), node("n1"), devices("n1", 2), device_class(), claim("wanted")),
        *(running("a", "n1", resourceClaims=asking("a")), claim("a", at="n1", devices=(0,), users=("a",))),
        *(running("b", "n1", resourceClaims=asking("b")), claim("b", at="n1", devices=(1,), users=("b",))),
    ]
    found = near(workload("Deployment", "llm", 1, resourceClaims=asking("wanted")), *live)
    assert found.node == "n1"  # n0 has no device at all
    assert found.text == (
        "n1 lacks 1 device (2 fit, 0 free): request gpu of claim rag/wanted asks for 1 of class gpu; "
        "held: gpu-0 by claim rag/a (rag/a), gpu-1 by claim rag/b (rag/b)"
    )
    assert found.holders == ("rag/a", "rag/b")
    assert [(change.kind, change.disturbs) for change in found.changes] == [("free", ("rag/a",))]


def test_a_shared_claim_is_free_when_all_its_users_are_gone() -> None:
    live = [
        *(node("n1"), devices("n1", 2), device_class(), claim("wanted", 2)),
        *(running(name, "n1", resourceClaims=asking("a")) for name in ("a", "b")),
        claim("a", at="n1", devices=(0,), users=("a", "b")),
    ]
    found = near(workload("Deployment", "llm", 1, resourceClaims=asking("wanted")), *live)
    assert "n1 lacks 1 device (2 fit, 1 free)" in found.text
    assert [(change.kind, change.disturbs) for change in found.changes] == [("free", ("rag/a", "rag/b"))]


def test_more_devices_than_a_node_has() -> None:
    found = near(
        workload("Deployment", "llm", 1, resourceClaims=asking("wanted")),
        *(node("n1"), node("n2"), devices("n1", 1), devices("n2", 2), device_class(), claim("wanted", 3)),
    )
    assert found.text.startswith("n2 lacks 1 device (2 fit, 2 free): request gpu of claim rag/wanted asks for 3")
    assert found.changes == ()


def test_tainted_devices_are_counted() -> None:
    taints = [{"key": "dra.example.com/unhealthy", "value": "true", "effect": "NoSchedule"}]
    found = near(
        workload("Deployment", "llm", 1, resourceClaims=asking("wanted")),
        *(node("n1"), devices("n1", 1, taints=taints), device_class(), claim("wanted")),
    )
    assert "n1 lacks 1 device (1 fit, 0 free, 1 tainted)" in found.text


def test_shared_counters_that_are_used_up_name_who_draws_on_them() -> None:
    counters = [{"name": "card", "counters": {"slices": {"value": "7"}}}]
    whole = {"name": "whole", "consumesCounters": [{"counterSet": "card", "counters": {"slices": {"value": "7"}}}]}
    part = {"name": "gpu-0", "consumesCounters": [{"counterSet": "card", "counters": {"slices": {"value": "1"}}}]}
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
    base = {"driver": DRIVER, "nodeName": "n1", "pool": pool}
    slices = [
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": {**base, **spec}}
        for name, spec in (("counters", {"sharedCounters": counters}), ("devices", {"devices": [whole, part]}))
    ]
    wanted = claim("wanted")
    wanted["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": "device.driver == ''"}}]
    wanted = claim("wanted", 2)
    live = [node("n1"), *slices, device_class(), wanted, running("a", "n1", resourceClaims=asking("a"))]
    found = near(
        workload("Deployment", "llm", 1, resourceClaims=asking("wanted")),
        *live,
        claim("a", at="n1", devices=(0,), users=("a",)),
    )
    assert "1 without shared counters left" in found.text
    assert "gpu-0 by claim rag/a (rag/a)" in found.text


def test_an_extended_resource_that_a_class_backs() -> None:
    live = [node("n1"), devices("n1", 1), device_class(extendedResourceName=GPU)]
    first = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    results = [{"request": "container-0-request-0", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}]
    held = {
        **first,
        "metadata": {
            "name": "a-extended",
            "namespace": "rag",
            "uid": "a-extended",
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "a", "controller": True}],
        },
        "spec": {},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": "a", "uid": "a"}],
        },
    }
    holder = running("a", "n1", 1)
    holder["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "a-extended", "requestMappings": []}
    found = near(workload("Deployment", "llm", 1, 1), *live, holder, held)
    assert "n1 lacks 1 device (1 fit, 0 free)" in found.text
    assert found.holders == ("rag/a",)


# --- two obstacles ---


def test_two_obstacles_on_one_node_are_both_named_and_both_removed() -> None:
    taint = {"key": GPU, "value": "present", "effect": "NoSchedule"}
    given = workload("Deployment", "llm", 1, 1, nodeSelector={"gpu": "a100"})
    found = near(given, node("n1", 1, labels={"gpu": "l4"}, taints=[taint]))
    assert "n1 has gpu=l4" in found.text
    assert GPU in found.text
    (change,) = found.changes
    assert change.kind == "several"
    assert change.text == f"tolerate {GPU}:NoSchedule and take gpu=a100 out of nodeSelector, then n1 takes it"
    assert change.patch is not None
    assert change.patch["spec"]["nodeSelector"] == {"gpu": None}


def test_a_taint_and_cards_that_others_hold() -> None:
    taint = {"key": GPU, "value": "present", "effect": "NoSchedule"}
    found = near(workload("Deployment", "llm", 1, 1), node("n1", 1, taints=[taint]), running("x", "n1", 1))
    assert [(change.kind, change.disturbs) for change in found.changes] == [("several", ("rag/x",))]


def test_a_cordoned_node_carries_its_taint() -> None:
    cordoned = node("n1", 1, taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}])
    cordoned["spec"]["unschedulable"] = True
    found = near(workload("Deployment", "llm", 1, 1), cordoned)
    assert [(change.kind, change.uncordon) for change in found.changes] == [("uncordon", True)]


def test_a_broken_node_is_not_to_be_tolerated() -> None:
    broken = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    found = near(workload("Deployment", "llm", 1, 1), node("n1", 1, taints=broken), node("n2", 1), running("x", "n2", 1))
    assert found.node == "n2"
    assert [change.kind for change in found.changes] == ["free"]


def test_the_node_that_is_named_is_the_one_of_the_first_change() -> None:
    taint = {"key": "team", "value": "b", "effect": "NoSchedule"}
    live = [node("n1", 4), running("x", "n1", 4), node("n2", 1, taints=[taint], labels={"gpu": "l4"})]
    found = near(workload("Deployment", "llm", 1, 1, nodeSelector={"gpu": "l4"}), *live)
    assert found.node == found.changes[0].node == "n2"
    assert found.text.startswith("n2 ")


# --- nodes ---


def test_required_node_affinity_in_all_its_operators() -> None:
    for expression, text in (
        ({"key": "gpu", "operator": "In", "values": ["a100"]}, "also allow gpu=l4"),
        ({"key": "gpu", "operator": "NotIn", "values": ["l4", "t4"]}, "allow gpu=l4"),
        ({"key": "gpu", "operator": "NotIn", "values": ["l4"]}, "take out gpu NotIn l4"),
        ({"key": "rack", "operator": "Exists"}, "take out rack Exists"),
        ({"key": "memory", "operator": "Gt", "values": ["80"]}, "take out memory Gt 80"),
    ):
        given = workload("Deployment", "llm", 1, 1, affinity=required(expression))
        found = near(given, node("n1", 1, labels={"gpu": "l4", "memory": "24"}))
        (change,) = found.changes
        assert change.kind == "affinity"
        assert change.text == f"in the required node affinity {text}, then n1 takes it"


def test_the_closest_of_several_terms_is_widened() -> None:
    affinity = required({"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"})
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    terms.append({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z2"]}]})
    found = near(workload("Deployment", "llm", 1, 1, affinity=affinity), node("n1", 1, labels={"zone": "z1"}))
    assert found.changes[0].text == "in the required node affinity also allow zone=z1, then n1 takes it"


def test_more_than_any_node_has() -> None:
    found = near(workload("Deployment", "llm", 1, 16), node("n1", 4), node("n2", 8))
    assert found.text.startswith("no node is that large: rag/llm-0 asks for 16 nvidia.com/gpu, the largest, n2, has 8 in all")
    assert found.node == "n2"
    found = near(workload("Deployment", "llm", 1, cpu="500"), node("n1", cpu="32"), node("n2", cpu="64"))
    assert found.text == "no node is that large: rag/llm-0 asks for 500 cores of cpu, the largest, n2, has 64 cores in all"
    assert found.changes == ()


# --- other pods ---


def test_affinity_to_pods_that_do_not_exist_names_the_term_and_what_is_there() -> None:
    given = workload("Deployment", "llm", 1, affinity=podwise("podAffinity", "cahce", ZONE))
    found = near(given, node("n1", labels={ZONE: "a"}), running("x", "n1", app="cache"), running("y", "n1", app="cache"))
    assert found.text == (f"podAffinity by {ZONE}: no pod has app=cahce in namespace rag; there: app=cache")
    assert [change.kind for change in found.changes] == ["near"]


def test_affinity_to_pods_of_another_namespace() -> None:
    other = running("x", "n1", app="cache")
    other["metadata"]["namespace"] = "other"
    found = near(workload("Deployment", "llm", 1, affinity=podwise("podAffinity", "cache")), node("n1"), other)
    assert found.text.endswith("such pods run in namespace other (1)")


def test_anti_affinity_names_the_pod_in_the_way() -> None:
    given = workload("Deployment", "llm", 1, affinity=podwise("podAntiAffinity", "x", ZONE))
    found = near(given, node("n1", labels={ZONE: "a"}), node("n2", labels={ZONE: "a"}), running("x", "n2"))
    assert "rag/x runs in" in found.text
    assert [(change.kind, change.disturbs) for change in found.changes] == [("apart", ()), ("free", ("rag/x",))]


def test_anti_affinity_of_a_pod_that_runs() -> None:
    found = near(workload("Deployment", "llm", 1), node("n1"), running("x", "n1", affinity=podwise("podAntiAffinity", "llm")))
    assert [(change.kind, change.disturbs) for change in found.changes] == [("free", ("rag/x",))]


def test_host_ports() -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}]
    given, holder = workload("Deployment", "llm", 1), running("x", "n1")
    given["spec"]["template"]["spec"]["containers"][0]["ports"] = ports
    holder["spec"]["containers"][0]["ports"] = ports[:1]
    found = near(given, node("n1"), holder)
    assert found.text == "n1: host port 0.0.0.0:8080/TCP is held by rag/x"
    assert [(change.kind, change.disturbs) for change in found.changes] == [("unport", ()), ("free", ("rag/x",))]


def test_spread_that_cannot_be_kept() -> None:
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": HOST,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "llm"}},
        }
    ]
    live = [node("n1", 4), node("n2", 1), running("x", "n2", 1), running("llm-a", "n1", 1, app="llm")]
    found = near(workload("Deployment", "llm", 1, 1, topologySpreadConstraints=spread), *live)
    assert [change.kind for change in found.changes] == ["spread", "free"]


# --- volumes ---


def volume(name: str, zone: str) -> list[Json]:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "ssd"}
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    ref = {"namespace": "rag", "name": name, "uid": name}
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"pv-{name}"},
            "spec": {
                **spec,
                "claimRef": ref,
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
                "csi": {"driver": "csi.example.com", "volumeHandle": name},
            },
            "status": {"phase": "Bound"},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "rag", "uid": name, "annotations": bound},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "ssd",
                "volumeName": f"pv-{name}",
                "resources": {"requests": {"storage": "1Gi"}},
            },
            "status": {"phase": "Bound"},
        },
    ]


def mounting(name: str) -> list[Json]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


def test_a_volume_in_a_zone_whose_nodes_are_full() -> None:
    live = [node("n1", 1, labels={ZONE: "a"}), node("n2", 1, labels={ZONE: "b"}), running("x", "n2", 1), *volume("data", "b")]
    found = near(workload("Deployment", "llm", 1, 1, volumes=mounting("data")), *live)
    assert found.node == "n2"
    assert [(change.kind, change.disturbs) for change in found.changes] == [("free", ("rag/x",))]


def test_a_volume_in_a_zone_without_nodes() -> None:
    found = near(
        workload("Deployment", "llm", 1, 1, volumes=mounting("data")),
        *(node("n1", 1, labels={ZONE: "a"}), *volume("data", "b")),
    )
    assert "pv-data" in found.text
    assert [change.text for change in found.changes] == ["add a node like n1 in zone b"]


def test_too_many_volumes_on_a_node() -> None:
    csi = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "n1"},
        "spec": {"drivers": [{"name": "csi.example.com", "nodeID": "n1", "allocatable": {"count": 1}}]},
    }
    live = [node("n1", 1, labels={ZONE: "a"}), csi, running("x", "n1", volumes=mounting("held"))]
    found = near(
        workload("Deployment", "llm", 1, 1, volumes=mounting("data")), *live, *volume("data", "a"), *volume("held", "a")
    )
    assert "csi.example.com can attach 1 volumes, 1 are attached" in found.text
    assert ("free", ("rag/x",)) in [(change.kind, change.disturbs) for change in found.changes]


def test_a_claim_that_one_pod_alone_may_use() -> None:
    objects = volume("data", "a")
    objects[1]["spec"]["accessModes"] = ["ReadWriteOncePod"]
    live = [node("n1", 1, labels={ZONE: "a"}), running("x", "n1", volumes=mounting("data")), *objects]
    found = near(workload("Deployment", "llm", 1, 1, volumes=mounting("data")), *live)
    assert [(change.kind, change.disturbs) for change in found.changes] == [("free", ("rag/x",))]


def test_a_claim_that_is_not_there() -> None:
    found = near(workload("Deployment", "llm", 1, 1, volumes=mounting("dta")), node("n1", 1), *volume("data", "a"))
    assert found.text == ('no node is looked at: persistentvolumeclaim "dta" not found; claims in namespace rag: data')
    assert found.node is None


def test_trying_leaves_the_world_as_it_was() -> None:
    live = [
        *(node("n1", 1), devices("n1", 2), device_class(), claim("wanted", 2)),
        *(running("a", "n1", 1, resourceClaims=asking("a")), claim("a", at="n1", devices=(0,), users=("a",))),
    ]
    snapshot = cluster(*live)
    framework = Engine(snapshot, (), Options(Release.parse("1.37.2"))).frameworks["default-scheduler"]
    world = framework.world
    claims = world.view(DraCluster)

    def looks() -> Any:
        (info,) = world.nodes
        taken = [claims.allocated.whole(DeviceId(DRIVER, "n1", f"gpu-{number}")) for number in (0, 1)]
        return [pod.key for pod in info.pods], dict(info.requested), taken, claims.claims()

    before = looks()
    (held,) = world.nodes[0].pods
    with without(framework, (held,)):
        assert looks()[0] == []
        assert looks()[2] == [False, False]
    assert looks() == before
