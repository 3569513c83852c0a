"""Pods that cannot be placed: taints, names, counts, labels, affinity, rollouts, volumes, quotas, autoscalers."""

from __future__ import annotations

from broken import Wanted, defect
from broken.cluster import Cluster, Raw, keys
from broken.edits import GPU, anywhere, ask, both, select, tolerate


@defect
def statefulset_without_toleration() -> tuple[Cluster, Wanted]:
    c = Cluster("01")
    pods = c.deploy("embedder", "embedder-de", tolerate(), kind="StatefulSet")
    return c, Wanted("missing-toleration", "StatefulSet rag/embedder-de", tuple(keys(pods)), mentions=(GPU,))


@defect
def job_tolerates_another_value() -> tuple[Cluster, Wanted]:
    c = Cluster("01")
    pods = c.deploy(
        "embedder", "reindex", tolerate({"key": GPU, "operator": "Equal", "value": "true", "effect": "NoSchedule"}), kind="Job"
    )
    return c, Wanted("missing-toleration", "Job rag/reindex", tuple(keys(pods)))


@defect
def bare_pod_tolerates_another_effect() -> tuple[Cluster, Wanted]:
    c = Cluster("14")
    pods = c.deploy(
        "vllm-bge-m3-deployment-vllm",
        "try-out",
        both(anywhere, tolerate({"key": GPU, "operator": "Exists", "effect": "NoExecute"})),
        kind="Pod",
    )
    return c, Wanted("missing-toleration", "Pod serving/try-out", tuple(keys(pods)))


@defect
def claim_pod_without_toleration() -> tuple[Cluster, Wanted]:
    c = Cluster("10")
    pods = c.deploy("rewriter", "rewriter-b", tolerate())
    return c, Wanted("missing-toleration", "Deployment rag/rewriter-b", tuple(keys(pods)))


@defect
def new_taint_on_all_nodes_of_a_product() -> tuple[Cluster, Wanted]:
    c = Cluster("04")
    for name in ("l4-1", "l4-2"):
        c.get("Node", name)["spec"]["taints"].append({"key": "team", "value": "search", "effect": "NoSchedule"})
    pods = c.deploy("classifier", "classifier-b", replicas=2)
    return c, Wanted("missing-toleration", "Deployment rag/classifier-b", tuple(keys(pods)), mentions=("team=search",))


@defect
def shared_name_where_cards_are_whole() -> tuple[Cluster, Wanted]:
    c = Cluster("01")
    pods = c.deploy("embedder", "embedder-b", ask("nvidia.com/gpu.shared"))
    return c, Wanted(
        "wrong-resource-name", "Deployment rag/embedder-b", tuple(keys(pods)), mentions=("nvidia.com/gpu.shared", GPU)
    )


@defect
def plural_name() -> tuple[Cluster, Wanted]:
    c = Cluster("14")
    pods = c.deploy("vllm-bge-m3-deployment-vllm", "small", both(anywhere, ask("nvidia.com/gpus")), kind="StatefulSet")
    return c, Wanted("wrong-resource-name", "StatefulSet serving/small", tuple(keys(pods)), mentions=("nvidia.com/gpus",))


@defect
def another_vendors_name() -> tuple[Cluster, Wanted]:
    c = Cluster("14")
    pods = c.deploy("vllm-bge-m3-deployment-vllm", "small", both(anywhere, ask("nvidia.com/gpu-memory", 4)))
    return c, Wanted("wrong-resource-name", "Deployment serving/small", tuple(keys(pods)))


@defect
def slice_that_no_node_is_cut_into() -> tuple[Cluster, Wanted]:
    c = Cluster("02")
    pods = c.deploy("reranker", "reranker-b", ask("nvidia.com/mig-1g.20gb"), replicas=2)
    return c, Wanted(
        "wrong-resource-name", "Deployment rag/reranker-b", tuple(keys(pods)), mentions=("nvidia.com/mig-1g.20gb",)
    )


@defect
def card_where_all_are_shares() -> tuple[Cluster, Wanted]:
    c = Cluster("04")
    pods = c.deploy("classifier", "classifier-b", both(select(**{"nvidia.com/gpu.sharing-strategy": "time-slicing"}), ask(GPU)))
    return c, Wanted(
        "wrong-resource-name", "Deployment rag/classifier-b", tuple(keys(pods)), mentions=("nvidia.com/gpu.shared",)
    )


@defect
def more_cards_than_a_node_has() -> tuple[Cluster, Wanted]:
    c = Cluster("01")
    pods = c.deploy("llm", "llm-70b", ask(GPU, 8))
    return c, Wanted("gpu-count-exceeds-node", "Deployment rag/llm-70b", tuple(keys(pods)), mentions=("8", "4"))


@defect
def more_slices_than_a_node_has() -> tuple[Cluster, Wanted]:
    c = Cluster("02")
    pods = c.deploy("rewriter", "rewriter-b", ask("nvidia.com/mig-2g.20gb", 3))
    return c, Wanted("gpu-count-exceeds-node", "Deployment rag/rewriter-b", tuple(keys(pods)))


@defect
def more_cards_than_a_node_has_gke() -> tuple[Cluster, Wanted]:
    c = Cluster("08")
    pods = c.deploy("llm", "llm-70b", ask(GPU, 4))
    return c, Wanted("gpu-count-exceeds-node", "Deployment rag/llm-70b", tuple(keys(pods)))


@defect
def all_cards_taken() -> tuple[Cluster, Wanted]:
    c = Cluster("01")
    pods = c.deploy("embedder", "embedder-b", replicas=3)
    c.run(pods[0], "t4-2")
    return c, Wanted("gpu-exhausted", "Deployment rag/embedder-b", tuple(keys(pods[1:])), mentions=(GPU,))


@defect
def all_shares_taken() -> tuple[Cluster, Wanted]:
    c = Cluster("04")
    pods = c.deploy("classifier", "crowd", replicas=9)
    for pod, node in zip(pods, ["l4-1"] * 3 + ["l4-2"] * 4, strict=False):
        c.run(pod, node)
    return c, Wanted("gpu-exhausted", "Deployment rag/crowd", tuple(keys(pods[7:])))


@defect
def all_slices_of_a_profile_taken() -> tuple[Cluster, Wanted]:
    c = Cluster("02")
    pods = c.deploy("rewriter", "rewriter-b", replicas=2)
    c.run(pods[0], "h100-1")
    return c, Wanted("gpu-exhausted", "Deployment rag/rewriter-b", tuple(keys(pods[1:])))


@defect
def the_free_cards_are_cordoned() -> tuple[Cluster, Wanted]:
    c = Cluster("01")
    node = c.get("Node", "a100-2")
    node["spec"]["unschedulable"] = True
    node["spec"]["taints"].append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    pods = c.deploy("llm", "llm-b", ask(GPU, 2))
    return c, Wanted("gpu-exhausted", "Deployment rag/llm-b", tuple(keys(pods)), mentions=("a100-2 (free 2)",))


@defect
def the_only_nodes_of_a_model_are_cordoned() -> tuple[Cluster, Wanted]:
    c = Cluster("01")
    for name in ("t4-1", "t4-2"):
        node = c.get("Node", name)
        node["spec"]["unschedulable"] = True
        node["spec"].setdefault("taints", []).append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    pods = c.deploy("embedder", "embedder-b")
    return c, Wanted("node-out-of-service", "Node t4-2", tuple(keys(pods)), mentions=("t4-2 (cordoned)",))


@defect
def all_devices_claimed() -> tuple[Cluster, Wanted]:
    c = Cluster("10")
    busy = c.deploy("llm", "llm-de")
    c.allocate(busy[0], "dra-1")
    pods = c.deploy("llm", "llm-b", replicas=2)
    return c, Wanted("gpu-exhausted", "Deployment rag/llm-b", tuple(keys(pods)))


@defect
def old_product_label() -> tuple[Cluster, Wanted]:
    c = Cluster("01")
    pods = c.deploy("llm", "llm-b", both(select(**{"nvidia.com/gpu.product": "A100-SXM4-40GB"}), ask(GPU)))
    return c, Wanted("node-selector-mismatch", "Deployment rag/llm-b", tuple(keys(pods)), mentions=("NVIDIA-A100-SXM4-40GB",))


@defect
def product_label_of_shared_cards() -> tuple[Cluster, Wanted]:
    c = Cluster("04")
    pods = c.deploy("classifier", "classifier-b", select(**{"nvidia.com/gpu.product": "NVIDIA-L4-SHARED"}), kind="StatefulSet")
    return c, Wanted(
        "node-selector-mismatch", "StatefulSet rag/classifier-b", tuple(keys(pods)), mentions=("NVIDIA-L4-SHARED",)
    )


@defect
def accelerator_label_misspelt() -> tuple[Cluster, Wanted]:
    c = Cluster("08")
    pods = c.deploy("judge", "judge-b", select(**{"cloud.google.com/gke-accelerator": "nvidia-tesla-l4"}))
    return c, Wanted("node-selector-mismatch", "Deployment rag/judge-b", tuple(keys(pods)), mentions=("nvidia-l4",))


@defect
def affinity_with_two_terms_that_match_nothing() -> tuple[Cluster, Wanted]:
    c = Cluster("14")

    def change(spec: Raw) -> None:
        terms = [
            {"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": [value]}]}
            for value in ("NVIDIA-L40S", "NVIDIA-H100-80GB-HBM3")
        ]
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}

    pods = c.deploy("vllm-bge-m3-deployment-vllm", "bigger", change)
    return c, Wanted("node-selector-mismatch", "Deployment serving/bigger", tuple(keys(pods)), mentions=("NVIDIA-L40S",))


@defect
def memory_wanted_by_label_above_all() -> tuple[Cluster, Wanted]:
    c = Cluster("14")

    def change(spec: Raw) -> None:
        terms = [{"matchExpressions": [{"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["40000"]}]}]
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}

    pods = c.deploy("vllm-bge-m3-deployment-vllm", "bigger", change)
    return c, Wanted(
        "node-selector-mismatch", "Deployment serving/bigger", tuple(keys(pods)), mentions=("nvidia.com/gpu.memory",)
    )


@defect
def anti_affinity_leaves_no_gpu_node() -> tuple[Cluster, Wanted]:
    c = Cluster("14")

    def apart(spec: Raw) -> None:
        term = {"labelSelector": {"matchLabels": {"app.kubernetes.io/name": "apart"}}, "topologyKey": "kubernetes.io/hostname"}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    pods = c.deploy("vllm-bge-m3-deployment-vllm", "apart", apart, replicas=3)
    c.run(pods[0], "l4-1")
    c.run(pods[1], "l4-2")
    return c, Wanted("pod-affinity-conflict", "Deployment serving/apart", tuple(keys(pods[2:])))


@defect
def rollout_of_two_replicas_with_all_cards_held() -> tuple[Cluster, Wanted]:
    c = Cluster("01")
    c.remove(*c.pods("reranker-"))
    owner = c.get("Deployment", "llm")
    owner["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    extra = c.deploy("llm-small", "filler", replicas=3)
    for pod, node in zip(extra, ("a100-1", "a100-2", "a100-2"), strict=True):
        c.run(pod, node)
    pods = c.roll_out("llm", lambda spec: spec["containers"][0].update(image="vllm/vllm-openai:v0.30.0"))
    return c, Wanted("rolling-update-gpu-deadlock", "Deployment rag/llm", tuple(keys(pods)))


@defect
def rollout_with_surge_of_all() -> tuple[Cluster, Wanted]:
    c = Cluster("14")
    filler = c.deploy("vllm-bge-m3-deployment-vllm", "filler", anywhere, replicas=3)
    for pod, node in zip(filler, ("l4-1", "l4-2", "l4-2"), strict=True):
        c.run(pod, node)
    c.get("Deployment", "vllm-qwen-7b-deployment-vllm")["spec"]["strategy"] = {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0},
    }
    pods = c.roll_out(
        "vllm-qwen-7b-deployment-vllm", lambda spec: spec["containers"][0].update(image="vllm/vllm-openai:v0.30.0"), pods=2
    )
    return c, Wanted("rolling-update-gpu-deadlock", "Deployment serving/vllm-qwen-7b-deployment-vllm", tuple(keys(pods)))


@defect
def rollout_of_slices() -> tuple[Cluster, Wanted]:
    c = Cluster("02")
    c.get("Deployment", "rewriter")["spec"]["strategy"] = {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
    }
    (other,) = c.deploy("rewriter", "rewriter-b")
    c.run(other, "h100-1")
    pods = c.roll_out("rewriter", lambda spec: spec["containers"][0].update(args=["--model", "x"]))
    return c, Wanted("rolling-update-gpu-deadlock", "Deployment rag/rewriter", tuple(keys(pods)))


@defect
def volume_in_another_place() -> tuple[Cluster, Wanted]:
    c = Cluster("01")
    held = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["cpu-1"]}
    c.add(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "pv-models"},
            "spec": {
                "capacity": {"storage": "100Gi"},
                "accessModes": ["ReadWriteOnce"],
                "local": {"path": "/mnt/models"},
                "storageClassName": "local",
                "claimRef": {"namespace": "rag", "name": "models"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [held]}]}},
            },
            "status": {"phase": "Bound"},
        }
    )
    c.add(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "models", "namespace": "rag", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "volumeName": "pv-models",
                "storageClassName": "local",
                "resources": {"requests": {"storage": "100Gi"}},
            },
            "status": {"phase": "Bound"},
        }
    )
    pods = c.deploy(
        "llm-small",
        "llm-b",
        lambda spec: spec["volumes"].append({"name": "m", "persistentVolumeClaim": {"claimName": "models"}}),
    )
    return c, Wanted("volume-topology-conflict", "Deployment rag/llm-b", tuple(keys(pods)), mentions=("models",))


@defect
def quota_counts_gpus() -> tuple[Cluster, Wanted]:
    c = Cluster("01")
    c.add(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "gpus", "namespace": "rag"},
            "spec": {"hard": {"requests.nvidia.com/gpu": "8"}},
            "status": {"hard": {"requests.nvidia.com/gpu": "8"}, "used": {"requests.nvidia.com/gpu": "8"}},
        }
    )
    pods = c.deploy("embedder", "embedder-b")
    c.remove(*pods)
    made = c.get("ReplicaSet", "embedder-b-5c9f7d6b8c")
    made["status"] = {"replicas": 0, "observedGeneration": 1}
    message = (
        f'pods "embedder-b-5c9f7d6b8c-{"x7kq2"}" is forbidden: exceeded quota: gpus, requested: '
        f"requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=8, limited: "
        f"requests.nvidia.com/gpu=8"
    )
    made["status"]["conditions"] = [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}]
    c.event(made, "FailedCreate", f"Error creating: {message}", "replicaset-controller")
    return c, Wanted("quota-blocked", "Deployment rag/embedder-b", mentions=("gpus",))


@defect
def admission_knows_no_such_runtime_class() -> tuple[Cluster, Wanted]:
    c = Cluster("14")
    pods = c.deploy(
        "vllm-bge-m3-deployment-vllm", "bge-b", lambda spec: spec.update(runtimeClassName="nvidia-legacy"), kind="StatefulSet"
    )
    c.remove(*pods)
    made = c.get("StatefulSet", "bge-b")
    made["status"] = {"replicas": 0, "observedGeneration": 1}
    c.event(
        made,
        "FailedCreate",
        (
            'create Pod bge-b-0 in StatefulSet bge-b failed error: pods "bge-b-0" is forbidden: pod '
            'rejected: RuntimeClass "nvidia-legacy" not found'
        ),
        "statefulset-controller",
    )
    return c, Wanted("quota-blocked", "StatefulSet serving/bge-b", mentions=("nvidia-legacy",))


@defect
def autoscaler_at_its_maximum() -> tuple[Cluster, Wanted]:
    c = Cluster("08")
    busy = c.deploy("judge", "judge-de", replicas=2)
    c.run(busy[0], "gke-rag-l4-pool-7c1f2d3e-5xkt")
    c.run(busy[1], "gke-rag-l4-pool-7c1f2d3e-lq7h")
    pods = c.deploy("judge", "judge-b", replicas=3)
    for pod in pods:
        c.event(
            pod,
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 3 node(s) didn't match Pod's node affinity/selector, 1 max node group size reached",
            "cluster-autoscaler",
            kind="Normal",
        )
    return c, Wanted("nodepool-limit", "Deployment rag/judge-b", tuple(keys(pods)), also=("gpu-exhausted",))


@defect
def near_a_pod_on_a_node_without_gpu() -> tuple[Cluster, Wanted]:
    c = Cluster("01")

    def near(spec: Raw) -> None:
        term = {
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "vectors"}},
            "topologyKey": "kubernetes.io/hostname",
        }
        spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    pods = c.deploy("embedder", "code", near)
    return c, Wanted("pod-affinity-conflict", "Deployment rag/code", tuple(keys(pods)))


@defect
def a_typing_error_in_the_resource() -> tuple[Cluster, Wanted]:
    c = Cluster("06")
    pods = c.deploy("llm", "chat", ask("nvidia.com/GPU"), kind="Job")
    return c, Wanted("wrong-resource-name", "Job rag/chat", tuple(keys(pods)))
