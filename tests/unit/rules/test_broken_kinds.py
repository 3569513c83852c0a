"""Recorded clusters with one defect each: its cause comes first, its object is named, the pods that it holds are listed, and
nothing else is found beside it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from makers import thing
from ragstow.cli.diagnosis import make_context
from ragstow.rules.run import diagnose
from rules_support import FACTS
from variants import GPU, LATER, SHARED, Variant, crashing, limit

Raw = dict[str, Any]
CHART = "nvdp-nvidia-device-plugin"
A100 = "NVIDIA-A100-SXM4-40GB"


@dataclass(frozen=True)
class Defect:
    """A broken cluster: what must be found in it; `held` are the pods that wait or fail for it."""

    variant: Variant
    cause: str
    objects: tuple[str, ...]
    held: tuple[str, ...] | None = ()
    also: tuple[str, ...] = ()


DEFECTS: dict[str, Callable[[], Defect]] = {}


def defect(make: Callable[[], Defect]) -> Callable[[], Defect]:
    DEFECTS[make.__name__.replace("_", "-")] = make
    return make


def keys(pods: Iterable[Raw]) -> tuple[str, ...]:
    return tuple(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods)


def require(spec: Raw, key: str, *values: str) -> None:
    """Replaces the required node affinity."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


# Placement.


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

    pods = made.copy_workload("llm", "judge", [None], wrong)
    return Defect(made, "node-selector-mismatch", ("Deployment rag/judge",), keys(pods))


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


# Requests.


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
        'Allocate failed due to rpc error: code = Unknown desc = invalid allocation request for "nvidia.com/gpu.shared": invalid '
        "request: maximum request size for shared resources is 1; found 2, which is unexpected"
    )
    for pod in pods:
        pod["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": f"Pod was rejected: {message}"}
        made.event(pod, "UnexpectedAdmissionError", message)
    return Defect(made, "sharing-request-gt-one", ("Deployment rag/code",), keys(pods))


# Device plugin, sharing, MIG, DRA.


@defect
def a_new_node_without_the_gate_labels() -> Defect:
    made = Variant("01")
    found = made.copy_node("t4-2", "t4-3")
    found["metadata"]["labels"] = {
        k: v for k, v in found["metadata"]["labels"].items() if "nvidia" not in k and "feature.node" not in k
    }
    found["metadata"]["labels"]["feature.node.kubernetes.io/pci-0302_10de.present"] = "true"
    made.offer("t4-3", {GPU: None})
    pods = made.copy_workload("reranker", "code", [None, None, None])
    for pod, node in zip(pods[:1], ["t4-2"], strict=True):
        pod["spec"]["nodeName"] = node
        pod["status"] = copy.deepcopy(made.pods_of("reranker")[0]["status"])
    return Defect(made, "device-plugin-not-scheduled", ("Node t4-3",), None, also=("gpu-exhausted",))


@defect
def the_plugin_is_gone_from_its_only_node() -> Defect:
    made = Variant("06")
    made.relabel("ragbox", {"nvidia.com/gpu.present": None})
    made.drop("Pod", lambda item: item["metadata"]["name"].startswith("nvdp"))
    made.get("DaemonSet", CHART)["status"].update(
        desiredNumberScheduled=0, currentNumberScheduled=0, numberReady=0, numberAvailable=0
    )
    made.offer("ragbox", {GPU: 0})
    pods = [*made.pods_of("llm"), *made.pods_of("embedder")]
    gpu = [pod for pod in pods if any(GPU in c["resources"].get("limits", {}) for c in pod["spec"]["containers"])]
    made.evict(gpu)
    return Defect(made, "device-plugin-not-scheduled", (f"DaemonSet nvidia-device-plugin/{CHART}", "Node ragbox"), keys(gpu))


@defect
def a_label_names_no_configuration() -> Defect:
    made = Variant("04")
    made.relabel("l4-3", {"nvidia.com/device-plugin.config": "shared-8"})
    pods = made.copy_workload("embedder", "code", [None] * 6)
    return Defect(made, "sharing-config-unknown", ("Node l4-3",), keys(pods), also=("gpu-exhausted",))


@defect
def the_default_names_no_configuration() -> Defect:
    made = Variant("04")
    for spec in made.pod_specs(CHART):
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            for variable in container.get("env", ()):
                if variable["name"] == "DEFAULT_CONFIG":
                    variable["value"] = "exclusiv"
    made.offer("l4-3", {GPU: 0})
    pods = made.pods_of("llm")
    made.evict(pods)
    plugin = next(pod for pod in made.pods_of(CHART) if pod["spec"]["nodeName"] == "l4-3")
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}
    plugin["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "Initialized", "status": "False", "lastTransitionTime": LATER}],
        "initContainerStatuses": [{"name": "nvidia-device-plugin-init", "ready": False, "restartCount": 7, "state": waiting}],
    }
    return Defect(made, "sharing-config-unknown", ("Node l4-3",), keys(pods), also=("wrong-resource-name",))


@defect
def misplaced_rename() -> Defect:
    made = Variant("04")
    data = made.get("ConfigMap", f"{CHART}-configs")["data"]
    data["shared-4"] = (
        "version: v1\nflags:\n  migStrategy: none\n  renameByDefault: true\n"
        "sharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n"
    )
    for name in ("l4-1", "l4-2"):
        made.offer(name, {GPU: 8, SHARED: 0})
        made.relabel(name, {"nvidia.com/gpu.product": "NVIDIA-L4-SHARED"})
    pods = made.copy_workload("embedder", "code", [None, None])
    return Defect(made, "sharing-config-invalid", (f"ConfigMap nvidia-device-plugin/{CHART}-configs",), keys(pods))


@defect
def one_replica_is_no_sharing() -> Defect:
    made = Variant("04")
    data = made.get("ConfigMap", f"{CHART}-configs")["data"]
    data["shared-4"] = data["shared-4"].replace("replicas: 4", "replicas: 1")
    held = []
    for name in ("l4-1", "l4-2"):
        made.offer(name, {SHARED: 0})
        plugin = next(pod for pod in made.pods_of(CHART) if pod["spec"]["nodeName"] == name)
        crashing(plugin)
    for workload in ("classifier", "embedder", "reranker", "rewriter"):
        held += made.pods_of(workload)
    made.evict(held)
    return Defect(made, "sharing-config-invalid", (f"ConfigMap nvidia-device-plugin/{CHART}-configs",), keys(held))


@defect
def the_operator_is_not_told_which_key() -> Defect:
    made = Variant("02")
    made.get("ClusterPolicy", "cluster-policy")["spec"]["devicePlugin"]["config"] = {"name": "shares", "default": ""}
    sharing = {"timeSlicing": {"renameByDefault": True, "resources": [{"name": GPU, "replicas": 4}]}}
    text = json.dumps({"version": "v1", "sharing": sharing})
    made.add(thing("ConfigMap", "shares", namespace="gpu-operator", data={"any": text}))
    plugin = "nvidia-device-plugin-daemonset"
    environment = {
        "NODE_LABEL": "nvidia.com/device-plugin.config",
        "CONFIG_FILE_SRCDIR": "/available-configs",
        "CONFIG_FILE_DST": "/config/config.yaml",
        "DEFAULT_CONFIG": "",
        "FALLBACK_STRATEGIES": "empty",
    }
    for spec in made.pod_specs(plugin):
        spec.setdefault("volumes", []).append({"name": "available-configs", "configMap": {"name": "shares"}})
        env = [{"name": key, "value": value} for key, value in environment.items()]
        mount = {"name": "available-configs", "mountPath": "/available-configs"}
        spec["containers"].append({"name": "config-manager", "image": "k8s-device-plugin", "env": env, "volumeMounts": [mount]})
        for container in spec["containers"]:
            container.setdefault("env", []).append({"name": "CONFIG_FILE", "value": "/config/config.yaml"})
    pods = made.copy_workload(
        "embedder", "code", [None, None], lambda spec: limit(spec, {"nvidia.com/mig-1g.10gb": None, SHARED: 1})
    )
    return Defect(
        made, "sharing-config-not-applied", ("ConfigMap gpu-operator/shares",), keys(pods), also=("wrong-resource-name",)
    )


@defect
def mps_without_feature_discovery() -> Defect:
    made = Variant("04")
    data = made.get("ConfigMap", f"{CHART}-configs")["data"]
    data["shared-4"] = data["shared-4"].replace("timeSlicing", "mps")
    made.drop(
        "DaemonSet", lambda item: "feature-discovery" in item["metadata"]["name"] and "node-" not in item["metadata"]["name"]
    )
    made.drop("Pod", lambda item: "gpu-feature-discovery" in item["metadata"]["name"])
    held = []
    for name in ("l4-1", "l4-2"):
        made.relabel(name, {"nvidia.com/mps.capable": None, "nvidia.com/gpu.sharing-strategy": None})
        made.offer(name, {SHARED: 0})
    for workload in ("classifier", "embedder", "reranker", "rewriter"):
        held += made.pods_of(workload)
    made.evict(held)
    return Defect(made, "mps-not-ready", ("Node l4-1", "Node l4-2"), keys(held), also=("wrong-resource-name",))


@defect
def a_strategy_that_does_not_fit_the_cut() -> Defect:
    made = Variant("02")
    made.get("ClusterPolicy", "cluster-policy")["spec"]["mig"]["strategy"] = "single"
    for spec in made.pod_specs("nvidia-device-plugin-daemonset"):
        for container in spec["containers"]:
            for variable in container.get("env", ()):
                if variable["name"] == "MIG_STRATEGY":
                    variable["value"] = "single"
    made.relabel("h100-1", {"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-INVALID"})
    made.offer("h100-1", {GPU: 0, "nvidia.com/mig-1g.10gb": 0, "nvidia.com/mig-2g.20gb": 0, "nvidia.com/mig-3g.40gb": 0})
    crashing(made.pods_of("nvidia-device-plugin-daemonset")[0])
    pods = made.pods_of("judge")
    made.evict(pods)
    return Defect(
        made, "mig-strategy-mismatch", ("Node h100-1",), keys(pods), also=("wrong-resource-name", "node-selector-mismatch")
    )


@defect
def a_change_of_the_cut_that_is_stuck() -> Defect:
    made = Variant("02")
    paused = ("device-plugin", "gpu-feature-discovery", "dcgm", "dcgm-exporter")
    made.relabel(
        "h100-1",
        {
            "nvidia.com/mig.config": "all-1g.10gb",
            "nvidia.com/mig.config.state": "pending",
            **{f"nvidia.com/gpu.deploy.{name}": "paused-for-mig-change" for name in paused},
        },
    )
    made.offer("h100-1", {GPU: 0, "nvidia.com/mig-1g.10gb": 0, "nvidia.com/mig-2g.20gb": 0, "nvidia.com/mig-3g.40gb": 0})
    for name in ("nvidia-device-plugin-daemonset", "gpu-feature-discovery", "nvidia-dcgm-exporter"):
        for pod in made.pods_of(name):
            made.objects.remove(pod)
        made.get("DaemonSet", name)["status"].update(
            desiredNumberScheduled=0, currentNumberScheduled=0, numberReady=0, numberAvailable=0
        )
    pods = made.pods_of("rewriter")
    made.evict(pods)
    return Defect(made, "mig-reconfig-stuck", ("Node h100-1",), keys(pods))


@defect
def a_layout_with_a_profile_of_another_card() -> Defect:
    made = Variant("02")
    data = made.get("ConfigMap", "rag-mig-config")["data"]
    key = next(iter(data))
    layout = [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 7}}]
    data[key] = json.dumps({"version": "v1", "mig-configs": {"small": layout}})
    made.relabel("h100-1", {"nvidia.com/mig.config": "small", "nvidia.com/mig.config.state": "failed"})
    pods = made.copy_workload(
        "embedder", "code", [None], lambda spec: limit(spec, {"nvidia.com/mig-1g.10gb": None, "nvidia.com/mig-1g.5gb": 1})
    )
    return Defect(made, "mig-config-invalid", ("Node h100-1",), keys(pods))


@defect
def the_dra_driver_does_not_tolerate_a_new_taint() -> Defect:
    made = Variant("10")
    driver = "dra-driver-nvidia-gpu-kubelet-plugin"
    made.drop("ResourceSlice")
    for pod in made.pods_of(driver):
        made.objects.remove(pod)
    made.get("DaemonSet", driver)["status"].update(
        desiredNumberScheduled=0, currentNumberScheduled=0, numberReady=0, numberAvailable=0
    )
    made.get("DaemonSet", driver)["spec"]["template"]["spec"]["nodeSelector"] = {"gpu": "yes"}
    pods = made.copy_workload("vision", "ocr", [None])
    return Defect(made, "dra-driver-not-ready", (f"DaemonSet dra-driver-nvidia-gpu/{driver}",), keys(pods))


@defect
def a_claim_for_a_card_that_is_not_there() -> Defect:
    made = Variant("10")
    template = copy.deepcopy(made.all("ResourceClaimTemplate")[0])
    namespace = template["metadata"]["namespace"]
    template["metadata"].update(name="one-h100", uid="one-h100")
    request = template["spec"]["spec"]["devices"]["requests"][0]
    request["exactly"] = {
        "deviceClassName": "gpu.nvidia.com",
        "selectors": [{"cel": {"expression": "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100 80GB HBM3'"}}],
    }
    made.add(template)
    pods = made.copy_workload(
        "rewriter",
        "judge-2",
        [None],
        lambda spec: spec.update(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-h100"}]),
    )
    for spec in made.pod_specs("judge-2"):
        spec["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    for pod in pods:
        name = f"{pod['metadata']['name']}-gpu-x"
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod["metadata"]["name"],
            "uid": pod["metadata"]["uid"],
            "controller": True,
        }
        claim = thing(
            "ResourceClaim",
            name,
            api="resource.k8s.io/v1",
            namespace=namespace,
            owners=[owner],
            spec=template["spec"]["spec"],
            status={},
        )
        made.add(claim)
        pod["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": name}]
    return Defect(made, "dra-selector-mismatch", ("Deployment rag/judge-2",), keys(pods))


@defect
def plugin_and_dra_driver_on_one_node() -> Defect:
    made = Variant("10")
    other = Variant("01")
    made.add(*(item for item in other.all("DaemonSet") if item["metadata"]["name"] == CHART))
    made.add(*other.all("RuntimeClass"))
    made.get("DaemonSet", CHART)["status"] = {}
    for name in ("dra-1", "dra-2", "dra-3"):
        made.serve(CHART, name)
        made.offer(name, {GPU: 4})
    return Defect(made, "device-plugin-dra-conflict", (f"DaemonSet nvidia-device-plugin/{CHART}",))


@defect
def two_plugins_on_one_node() -> Defect:
    made = Variant("01")
    second = copy.deepcopy(made.get("DaemonSet", CHART))
    second["metadata"].update(name="nvidia-device-plugin-daemonset", namespace="kube-system", uid="second")
    labels = {"name": "nvidia-device-plugin-ds"}
    second["spec"]["selector"] = {"matchLabels": labels}
    second["spec"]["template"]["metadata"]["labels"] = labels
    second["status"] = {}
    made.add(second)
    for name in ("a100-1", "a100-2", "t4-1", "t4-2"):
        made.serve("nvidia-device-plugin-daemonset", name)
    return Defect(made, "device-plugin-duplicate", ("DaemonSet kube-system/nvidia-device-plugin-daemonset",))


@defect
def the_operators_driver_does_not_come_up() -> Defect:
    made = Variant("02")
    crashing(made.pods_of("nvidia-driver-daemonset")[0])
    for name in (
        "nvidia-container-toolkit-daemonset",
        "nvidia-device-plugin-daemonset",
        "gpu-feature-discovery",
        "nvidia-dcgm-exporter",
    ):
        pod = made.pods_of(name)[0]
        waiting = [{"name": "init", "ready": False, "restartCount": 0, "state": {"running": {"startedAt": LATER}}}]
        ready = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-12-01T01:00:00Z"}
        pod["status"] = {"phase": "Pending", "conditions": [ready], "initContainerStatuses": waiting}
    made.offer("h100-1", {GPU: 0, "nvidia.com/mig-1g.10gb": 0, "nvidia.com/mig-2g.20gb": 0, "nvidia.com/mig-3g.40gb": 0})
    pods = [*made.pods_of("judge"), *made.pods_of("llm")]
    made.evict(pods)
    return Defect(made, "driver-not-installed", ("Node h100-1",), keys(pods), also=("gpu-unhealthy",))


# Nodes.


@defect
def a_card_that_failed() -> Defect:
    made = Variant("01")
    made.offer("a100-1", {}, allocatable={GPU: 3})
    return Defect(made, "gpu-unhealthy", ("Node a100-1",))


@defect
def a_runtime_without_the_handler() -> Defect:
    made = Variant("06")
    pods = made.pods_of("llm")
    message = 'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "nvidia" is configured'
    for pod in pods:
        pod["status"] = {
            "phase": "Pending",
            "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": LATER}],
            "containerStatuses": [
                {
                    "name": pod["spec"]["containers"][0]["name"],
                    "ready": False,
                    "restartCount": 0,
                    "state": {"waiting": {"reason": "ContainerCreating"}},
                }
            ],
        }
        made.event(pod, "FailedCreatePodSandBox", message)
    return Defect(made, "runtime-handler-not-configured", ("Node ragbox",), keys(pods))


@defect
def admitted_before_the_plugin_was_there() -> Defect:
    made = Variant("01")
    pod = made.copy_workload("embedder", "code", ["t4-2"])[0]
    message = "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected"
    pod["status"] = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": f"Pod was rejected: {message}",
        "startTime": LATER,
    }
    made.event(pod, "UnexpectedAdmissionError", message)
    return Defect(made, "device-plugin-start-race", (f"Pod {keys([pod])[0]}",), None)


@defect
def devices_that_the_kubelet_holds_for_nobody() -> Defect:
    made = Variant("01")
    pod = made.copy_workload("embedder", "code", ["t4-2"])[0]
    message = "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected"
    pod["status"] = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": f"Pod was rejected: {message}",
        "startTime": LATER,
    }
    made.event(pod, "UnexpectedAdmissionError", message)
    return Defect(made, "kubelet-device-state-stale", ("Node t4-2",), None)


# Containers, with what they say.


@defect
def a_probe_that_is_too_short() -> Defect:
    made = Variant("14")
    pod = made.pods_of("vllm-qwen-14b-deployment-vllm")[0]
    crashing(pod, code=143)
    made.event(pod, "Killing", "Container vllm failed startup probe, will be restarted", type_="Normal")
    made.event(pod, "Unhealthy", 'Startup probe failed: Get "http://10.0.0.1:8000/health": connect: connection refused')
    return Defect(made, "startup-probe-too-short", ("Deployment serving/vllm-qwen-14b-deployment-vllm",), keys([pod]))


@defect
def an_image_for_a_newer_driver() -> Defect:
    made = Variant("01")
    pod = made.pods_of("reranker")[0]
    message = (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: nvidia-container-cli: requirement "
        "error: unsatisfied condition: cuda>=13.4, please update your driver to a newer version"
    )
    crashing(pod, code=128, message=message)
    return Defect(made, "driver-cuda-mismatch", ("Deployment rag/reranker",), keys([pod]))


@defect
def shares_that_claim_too_much() -> Defect:
    made = Variant("04")
    pod = made.pods_of("rewriter")[0]
    crashing(pod)
    made.attachments[f"logs/{pod['metadata']['name']}.log"] = (
        "INFO starting\nValueError: Free memory on device (3.1/22.03 GiB) on startup is less than desired GPU memory utilization "
        "(0.9, 19.83 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
    )
    return Defect(made, "gpu-memory-oversubscribed", ("Deployment rag/rewriter",), keys([pod]))


@defect
def a_model_that_does_not_fit() -> Defect:
    made = Variant("14")
    pod = made.pods_of("vllm-qwen-7b-deployment-vllm")[0]
    crashing(pod)
    made.attachments["logs/vllm.txt"] = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB. GPU 0 has a total capacity of 22.03 GiB of which 512.0 MiB "
        "is free.\n"
    )
    return Defect(made, "gpu-memory-insufficient", ("Deployment serving/vllm-qwen-7b-deployment-vllm",), keys([pod]))


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_defect(name: str) -> None:
    made = DEFECTS[name]()
    report = diagnose(make_context(made.variant.snapshot(), FACTS), strict=True)
    assert [finding.cause for finding in report.findings[:1]] == [made.cause], [
        (finding.cause, finding.headline) for finding in report.findings
    ]
    first = report.findings[0]
    assert made.objects[0] in [str(ref) for ref in first.objects]
    if made.held is not None:
        assert sorted(first.held) == sorted(made.held)
    assert {finding.cause for finding in report.findings} <= {made.cause, *made.also}
