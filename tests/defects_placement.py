"""Defects of placement and of requests."""

from __future__ import annotations

import copy

from defects import Defect, Raw, defect, keys, require
from makers import thing
from variants import GPU, LATER, SHARED, Variant, limit


@defect
def no_toleration_on_an_operator_cluster() -> Defect:
    made = Variant("14")
    pods = made.copy_workload("vllm-qwen-7b-deployment-vllm", "chat", [None, None], lambda spec: spec.update(tolerations=[]))
    return Defect(made, "missing-toleration", ("Deployment serving/chat",), keys(pods))


@defect
def toleration_of_another_value() -> Defect:
    made = Variant("01")
    wrong = [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}]
    pods = made.copy_workload("embedder", "code", [None], lambda spec: spec.update(tolerations=wrong))
    return Defect(made, "missing-toleration", ("Deployment rag/code",), keys(pods))


@defect
def product_with_the_suffix_of_shares() -> Defect:
    made = Variant("04")
    pods = made.copy_workload(
        "embedder", "code", [None, None], lambda spec: spec.update(nodeSelector={"nvidia.com/gpu.product": "NVIDIA-L4-SHARED"})
    )
    return Defect(made, "node-selector-mismatch", ("Deployment rag/code",), keys(pods))


@defect
def product_by_its_name_instead_of_its_label() -> Defect:
    made = Variant("01")
    pods = made.copy_workload("llm-small", "judge", [None], lambda spec: require(spec, "nvidia.com/gpu.product", "A100"))
    return Defect(made, "node-selector-mismatch", ("Deployment rag/judge",), keys(pods))


@defect
def accelerator_label_of_the_cloud() -> Defect:
    made = Variant("08")

    def wrong(spec: Raw) -> None:
        spec["affinity"] = {}
        spec["nodeSelector"] = {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}

    pods = made.copy_workload("llm", "judge-2", [None], wrong)
    return Defect(made, "node-selector-mismatch", ("Deployment rag/judge-2",), keys(pods))


@defect
def a_label_that_nobody_sets() -> Defect:
    made = Variant("06")

    def wanted(spec: Raw) -> None:
        limit(spec, {GPU: 1})
        spec["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-3090"}

    # The card is free, so that the label alone is in the way.
    for pod in made.pods_of("embedder"):
        made.objects.remove(pod)
    made.get("Deployment", "embedder")["spec"]["replicas"] = 0
    pods = made.copy_workload("llm", "chat", [None], wanted)
    return Defect(made, "gpu-label-missing", ("Node ragbox",), keys(pods))


@defect
def more_cards_than_a_node_has() -> Defect:
    made = Variant("01")
    pods = made.copy_workload("llm", "big", [None], lambda spec: limit(spec, {GPU: 8}))
    return Defect(made, "gpu-count-exceeds-node", ("Deployment rag/big",), keys(pods))


@defect
def all_cards_taken() -> Defect:
    made = Variant("06")
    pods = made.copy_workload("llm", "chat", [None, None])
    return Defect(made, "gpu-exhausted", ("Deployment rag/chat",), keys(pods))


@defect
def all_slices_taken() -> Defect:
    made = Variant("02")
    pods = made.copy_workload("rewriter", "filter", [None, None, None])
    for pod, node in zip(pods[:1], ["h100-1"], strict=True):
        pod["spec"]["nodeName"] = node
        pod["status"] = copy.deepcopy(made.pods_of("rewriter")[0]["status"])
    return Defect(made, "gpu-exhausted", ("Deployment rag/filter",), keys(pods[1:]))


@defect
def a_rollout_that_waits_for_itself() -> Defect:
    made = Variant("14")
    name = "vllm-qwen-14b-deployment-vllm"
    made.get("Deployment", name)["spec"]["strategy"] = {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0},
    }
    old = made.pods_of(name)[0]
    new = copy.deepcopy(old)
    new["metadata"].update(name=f"{name}-66d5c-abcde", uid="new", creationTimestamp=LATER)
    new["metadata"]["ownerReferences"][0].update(name=f"{name}-66d5c", uid="rs-new")
    new["metadata"]["labels"]["pod-template-hash"] = "66d5c"
    replica_set = copy.deepcopy(made.get("ReplicaSet", old["metadata"]["ownerReferences"][0]["name"]))
    replica_set["metadata"].update(name=f"{name}-66d5c", uid="rs-new", creationTimestamp=LATER)
    made.add(new, replica_set)
    made.evict([new])
    # The third and fourth card of that node, and the other node's, are in use as well.
    made.copy_workload("vllm-bge-m3-deployment-vllm", "more", ["l4-1", "l4-2", "l4-2"])
    return Defect(made, "rolling-update-gpu-deadlock", (f"Deployment serving/{name}",), keys([new]))


@defect
def a_volume_in_another_zone() -> Defect:
    made = Variant("08")
    pods = made.copy_workload("embedder", "code", [None])
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}, "volumeName": "pv-code"}
    made.add(
        thing(
            "PersistentVolumeClaim", "code", namespace="rag", spec={**claim, "storageClassName": ""}, status={"phase": "Bound"}
        ),
        thing(
            "PersistentVolume",
            "pv-code",
            spec={
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce"],
                "claimRef": {
                    "kind": "PersistentVolumeClaim",
                    "namespace": "rag",
                    "name": "code",
                    "uid": "PersistentVolumeClaim-rag-code",
                },
                "csi": {"driver": "pd.csi.storage.gke.io", "volumeHandle": "x"},
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-central1-f"]}
                                ]
                            }
                        ]
                    }
                },
            },
            status={"phase": "Bound"},
        ),
    )
    made.get("PersistentVolumeClaim", "code")["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    for spec in made.pod_specs("code"):
        spec.setdefault("volumes", []).append({"name": "cache", "persistentVolumeClaim": {"claimName": "code"}})
    return Defect(made, "volume-topology-conflict", ("Deployment rag/code",), keys(pods))


@defect
def near_a_pod_on_a_node_without_gpu() -> Defect:
    made = Variant("01")

    def near(spec: Raw) -> None:
        term = {
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "vectors"}},
            "topologyKey": "kubernetes.io/hostname",
        }
        spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    pods = made.copy_workload("embedder", "code", [None], near)
    return Defect(made, "pod-affinity-conflict", ("Deployment rag/code",), keys(pods))


@defect
def a_quota_on_gpus() -> Defect:
    made = Variant("14")
    message = (
        'pods "chat-7d9c8b6f5-x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, '
        "used: requests.nvidia.com/gpu=5, limited: requests.nvidia.com/gpu=5"
    )
    made.copy_workload("vllm-qwen-7b-deployment-vllm", "chat", [])
    status = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
    for kind, name in (("Deployment", "chat"), ("ReplicaSet", "chat-7d9c8b6f5")):
        found = made.get(kind, name)
        found["spec"]["replicas"] = 1
        found["status"] = {"replicas": 0, "unavailableReplicas": 1, "conditions": [status]}
    made.event(made.get("ReplicaSet", "chat-7d9c8b6f5"), "FailedCreate", f"Error creating: {message}")
    amount = {"requests.nvidia.com/gpu": "5"}
    made.add(
        thing("ResourceQuota", "gpus", namespace="serving", spec={"hard": amount}, status={"hard": amount, "used": amount})
    )
    return Defect(made, "quota-blocked", ("Deployment serving/chat", "ResourceQuota serving/gpus"))


@defect
def a_pod_that_cannot_be_aligned() -> Defect:
    made = Variant("01")
    pod = made.copy_workload("llm", "aligned", ["a100-1"])[0]
    message = "Pod was rejected: Resources cannot be allocated with Topology locality"
    pod["status"] = {"phase": "Failed", "reason": "TopologyAffinityError", "message": message, "startTime": LATER}
    return Defect(made, "topology-alignment-failed", (f"Pod {keys([pod])[0]}",), None)


@defect
def plain_cards_asked_for_shares() -> Defect:
    made = Variant("01")
    pods = made.copy_workload("embedder", "code", [None, None], lambda spec: limit(spec, {GPU: None, SHARED: 1}))
    return Defect(made, "wrong-resource-name", ("Deployment rag/code",), keys(pods))


@defect
def a_profile_that_no_card_is_cut_into() -> Defect:
    made = Variant("02")
    pods = made.copy_workload(
        "embedder", "code", [None], lambda spec: limit(spec, {"nvidia.com/mig-1g.10gb": None, "nvidia.com/mig-1g.5gb": 1})
    )
    return Defect(made, "wrong-resource-name", ("Deployment rag/code",), keys(pods))


@defect
def a_typing_error_in_the_resource() -> Defect:
    made = Variant("14")
    pods = made.copy_workload(
        "vllm-qwen-7b-deployment-vllm", "chat", [None], lambda spec: limit(spec, {GPU: None, "nvidia.com/gpus": 1})
    )
    return Defect(made, "wrong-resource-name", ("Deployment serving/chat",), keys(pods))


@defect
def two_shares_for_one_pod() -> Defect:
    made = Variant("04")
    pods = made.copy_workload("embedder", "code", ["l4-1"], lambda spec: limit(spec, {SHARED: 2}))
    message = (
        'Allocate failed due to rpc error: code = Unknown desc = invalid allocation request for "nvidia.com/gpu.shared": '
        "invalid request: maximum request size for shared resources is 1; found 2, which is unexpected"
    )
    for pod in pods:
        pod["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": f"Pod was rejected: {message}"}
        made.event(pod, "UnexpectedAdmissionError", message)
    return Defect(made, "sharing-request-gt-one", ("Deployment rag/code",), keys(pods))
