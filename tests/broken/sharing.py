"""Plugin, sharing and MIG: what keeps a node from offering what its pods ask for."""

from __future__ import annotations

from broken import Wanted, defect
from broken.cluster import Cluster, keys
from broken.edits import GPU, ask, select


@defect
def sharing_key_misspelt() -> tuple[Cluster, Wanted]:
    c = Cluster("04")
    data = c.get("ConfigMap", "nvdp-nvidia-device-plugin-configs")["data"]
    data["shared-4"] = data["shared-4"].replace("renameByDefault", "renamebydefault")
    for name in ("l4-1", "l4-2"):
        c.offer(name, {GPU: 8, "nvidia.com/gpu.shared": 0})
        c.labels(name)["nvidia.com/gpu.product"] = "NVIDIA-L4-SHARED"
    pods = c.deploy("classifier", "classifier-b")
    return c, Wanted(
        "sharing-config-invalid",
        "ConfigMap nvidia-device-plugin/nvdp-nvidia-device-plugin-configs",
        tuple(keys(pods)),
        mentions=("renamebydefault",),
    )


@defect
def node_asks_for_a_config_that_is_not_there() -> tuple[Cluster, Wanted]:
    c = Cluster("04")
    c.labels("l4-3")["nvidia.com/device-plugin.config"] = "share-4"
    for pod in c.pods("nvdp-nvidia-device-plugin-"):
        if pod["spec"].get("nodeName") == "l4-3" and any(
            x["name"] == "nvidia-device-plugin-sidecar" for x in pod["spec"]["containers"]
        ):
            c.crash(pod, "nvidia-device-plugin-sidecar")
    pods = c.deploy("classifier", "crowd", replicas=8)
    for pod, node in zip(pods, ["l4-1"] * 3 + ["l4-2"] * 4, strict=False):
        c.run(pod, node)
    return c, Wanted(
        "sharing-config-unknown", "Node l4-3", tuple(keys(pods[7:])), also=("gpu-exhausted",), mentions=("share-4",)
    )


@defect
def default_config_is_no_key() -> tuple[Cluster, Wanted]:
    c = Cluster("04")
    plugin = c.get("DaemonSet", "nvdp-nvidia-device-plugin")
    for container in [*plugin["spec"]["template"]["spec"]["containers"], *plugin["spec"]["template"]["spec"]["initContainers"]]:
        for entry in container["env"]:
            if entry["name"] == "DEFAULT_CONFIG":
                entry["value"] = "default"
    for pod in c.pods("nvdp-nvidia-device-plugin-"):
        if pod["spec"].get("nodeName") == "l4-3" and any(
            x["name"] == "nvidia-device-plugin-init" for x in pod["spec"].get("initContainers", ())
        ):
            if not any(x["name"] == "nvidia-device-plugin-ctr" for x in pod["spec"]["containers"]):
                continue
            for container in [*pod["spec"]["containers"], *pod["spec"]["initContainers"]]:
                for entry in container.get("env", ()):
                    if entry["name"] == "DEFAULT_CONFIG":
                        entry["value"] = "default"
            pod["status"]["phase"] = "Pending"
            c.crash(pod, "nvidia-device-plugin-init")
            pod["status"]["phase"] = "Pending"
            for status in pod["status"]["containerStatuses"]:
                status |= {"ready": False, "started": False, "state": {"waiting": {"reason": "PodInitializing"}}}
    c.offer("l4-3", {GPU: 0})
    c.remove(*c.pods("llm-"))
    pods = c.deploy("llm", "llm-b")
    return c, Wanted(
        "sharing-config-unknown",
        "DaemonSet nvidia-device-plugin/nvdp-nvidia-device-plugin",
        tuple(keys(pods)),
        mentions=("default",),
    )


@defect
def sharing_label_taken_away() -> tuple[Cluster, Wanted]:
    c = Cluster("04")
    for name in ("l4-1", "l4-2"):
        del c.labels(name)["nvidia.com/device-plugin.config"]
        c.labels(name).update({"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.sharing-strategy": "none"})
        c.offer(name, {GPU: 2, "nvidia.com/gpu.shared": 0})
    c.remove(*c.pods("classifier-"), *c.pods("embedder-"), *c.pods("reranker-"), *c.pods("rewriter-"))
    pods = c.deploy("classifier", "classifier-b")
    return c, Wanted(
        "sharing-config-not-applied", "ConfigMap nvidia-device-plugin/nvdp-nvidia-device-plugin-configs", tuple(keys(pods))
    )


@defect
def two_shares_for_one_container() -> tuple[Cluster, Wanted]:
    c = Cluster("04")
    (pod,) = c.deploy("classifier", "classifier-b", ask("nvidia.com/gpu.shared", 2))
    c.reject(
        pod,
        "l4-1",
        "UnexpectedAdmissionError",
        (
            "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = invalid "
            'allocation request for "nvidia.com/gpu.shared": invalid request: maximum request size for '
            "shared resources is 1; found 2, which is unexpected"
        ),
    )
    return c, Wanted("sharing-request-gt-one", "Deployment rag/classifier-b", tuple(keys([pod])))


@defect
def mps_daemon_does_not_run() -> tuple[Cluster, Wanted]:
    c = Cluster("04")
    data = c.get("ConfigMap", "nvdp-nvidia-device-plugin-configs")["data"]
    data["shared-4"] = data["shared-4"].replace("timeSlicing", "mps")
    for name in ("l4-1", "l4-2"):
        c.offer(name, {GPU: 0, "nvidia.com/gpu.shared": 0})
        c.labels(name)["nvidia.com/mps.capable"] = "false"
    c.remove(*c.pods("classifier-"), *c.pods("embedder-"), *c.pods("reranker-"), *c.pods("rewriter-"))
    pods = c.deploy("classifier", "classifier-b")
    return c, Wanted("mps-not-ready", "Node l4-1", tuple(keys(pods)))


@defect
def operator_left_the_node_paused() -> tuple[Cluster, Wanted]:
    c = Cluster("02")
    labels = c.labels("h100-1")
    labels |= {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.config.state": "pending"}
    for name in ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "operator-validator"):
        labels[f"nvidia.com/gpu.deploy.{name}"] = "paused-for-mig-change"
    for name in ("nvidia-device-plugin-daemonset", "gpu-feature-discovery", "nvidia-dcgm-exporter"):
        c.get("DaemonSet", name)["status"] |= {"desiredNumberScheduled": 0, "currentNumberScheduled": 0, "numberReady": 0}
        c.remove(*c.pods(f"{name}-"))
    c.offer("h100-1", dict.fromkeys((GPU, "nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb", "nvidia.com/mig-3g.40gb"), 0))
    pods = c.deploy("reranker", "reranker-b")
    return c, Wanted("mig-reconfig-stuck", "Node h100-1", tuple(keys(pods)))


@defect
def pods_in_the_way_of_a_new_layout() -> tuple[Cluster, Wanted]:
    c = Cluster("02")
    labels = c.labels("h100-1")
    labels |= {"nvidia.com/mig.config": "rag-mixed", "nvidia.com/mig.config.state": "failed"}
    names = [key for key in c.get("ConfigMap", "rag-mig-config")["data"]["config.yaml"].split() if key.endswith(":")]
    layout = next(
        name[:-1] for name in names if name[:-1] not in ("version", "mig-configs", "mig-devices", "devices", "mig-enabled", "-")
    )
    labels["nvidia.com/mig.config"] = layout
    return c, Wanted("mig-reconfig-stuck", "Node h100-1", mentions=(layout,))


@defect
def strategy_single_on_mixed_cards() -> tuple[Cluster, Wanted]:
    c = Cluster("02")
    c.get("ClusterPolicy", "cluster-policy")["spec"]["mig"]["strategy"] = "single"
    labels = c.labels("h100-1")
    for key in [key for key in labels if key.startswith("nvidia.com/mig-")]:
        del labels[key]
    labels |= {
        "nvidia.com/mig.strategy": "single",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-INVALID",
        "nvidia.com/gpu.count": "0",
        "nvidia.com/gpu.replicas": "0",
        "nvidia.com/gpu.memory": "0",
    }
    c.offer("h100-1", dict.fromkeys((GPU, "nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb", "nvidia.com/mig-3g.40gb"), 0))
    for pod in c.pods("nvidia-device-plugin-daemonset-"):
        c.crash(pod, restarts=6)
    pods = c.deploy("reranker", "reranker-b")
    return c, Wanted("mig-strategy-mismatch", "Node h100-1", tuple(keys(pods)))


@defect
def gate_label_gone() -> tuple[Cluster, Wanted]:
    c = Cluster("06")
    del c.labels("ragbox")["nvidia.com/gpu.present"]
    c.get("DaemonSet", "nvdp-nvidia-device-plugin")["status"] |= {
        "desiredNumberScheduled": 0,
        "currentNumberScheduled": 0,
        "numberReady": 0,
    }
    c.remove(*c.pods("nvdp-nvidia-device-plugin-"), *c.pods("llm-"), *c.pods("embedder-"))
    c.offer("ragbox", {GPU: 0})
    pods = c.deploy("llm", "llm-b")
    return c, Wanted(
        "device-plugin-not-scheduled", "DaemonSet nvidia-device-plugin/nvdp-nvidia-device-plugin", tuple(keys(pods))
    )


@defect
def new_node_without_gate_labels() -> tuple[Cluster, Wanted]:
    c = Cluster("14")
    node = c.like_node("l4-1", "l4-3")
    labels = node["metadata"]["labels"]
    for key in [k for k in labels if k.startswith(("nvidia.com/", "feature.node.kubernetes.io/"))]:
        del labels[key]
    labels["node.kubernetes.io/instance-type"] = "g6.12xlarge"
    labels["pool"] = "new"
    c.offer("l4-3", {})
    pods = c.deploy("vllm-bge-m3-deployment-vllm", "bge-b", select(pool="new"))
    return c, Wanted(
        "device-plugin-not-scheduled",
        "DaemonSet nvidia-device-plugin/nvdp-nvidia-device-plugin",
        tuple(keys(pods)),
        mentions=("l4-3",),
    )


@defect
def two_plugins() -> tuple[Cluster, Wanted]:
    c = Cluster("14")
    plugin = c.get("DaemonSet", "nvdp-nvidia-device-plugin")
    second = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "nvidia-device-plugin-daemonset", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"name": "nvidia-device-plugin-ds"}},
            "template": {
                "metadata": {"labels": {"name": "nvidia-device-plugin-ds"}},
                "spec": plugin["spec"]["template"]["spec"],
            },
        },
        "status": dict(plugin["status"]),
    }
    made = c.add(second)
    for node in ("l4-1", "l4-2"):
        pod = c._pod(
            f"nvidia-device-plugin-daemonset-{node}",
            "kube-system",
            {"name": "nvidia-device-plugin-ds"},
            plugin["spec"]["template"]["spec"],
            made,
        )
        c.run(pod, node)
    return c, Wanted("device-plugin-duplicate", "DaemonSet kube-system/nvidia-device-plugin-daemonset", mentions=("l4-1",))


@defect
def plugin_cannot_load_nvml() -> tuple[Cluster, Wanted]:
    c = Cluster("06")
    c.get("DaemonSet", "nvdp-nvidia-device-plugin")["spec"]["template"]["spec"].pop("runtimeClassName", None)
    for pod in c.pods("nvdp-nvidia-device-plugin-"):
        pod["spec"].pop("runtimeClassName", None)
        c.crash(
            pod,
            message=(
                "error starting plugins: error creating plugin manager: unable to create plugin manager: "
                "nvml init failed: ERROR_LIBRARY_NOT_FOUND"
            ),
        )
    c.offer("ragbox", {GPU: 0})
    c.remove(*c.pods("llm-"), *c.pods("embedder-"))
    pods = c.deploy("llm", "llm-b")
    return c, Wanted("device-plugin-nvml-missing", "Node ragbox", tuple(keys(pods)))


@defect
def plugin_crashes_and_says_nothing() -> tuple[Cluster, Wanted]:
    c = Cluster("06")
    c.get("DaemonSet", "nvdp-nvidia-device-plugin")["spec"]["template"]["spec"].pop("runtimeClassName", None)
    for pod in c.pods("nvdp-nvidia-device-plugin-"):
        pod["spec"].pop("runtimeClassName", None)
        c.crash(pod)
    c.offer("ragbox", {GPU: 0})
    c.remove(*c.pods("llm-"), *c.pods("embedder-"))
    pods = c.deploy("llm", "llm-b")
    return c, Wanted(
        "device-plugin-nvml-missing", "DaemonSet nvidia-device-plugin/nvdp-nvidia-device-plugin", tuple(keys(pods))
    )


@defect
def one_replica_is_no_sharing() -> tuple[Cluster, Wanted]:
    c = Cluster("04")
    data = c.get("ConfigMap", "nvdp-nvidia-device-plugin-configs")["data"]
    data["shared-4"] = data["shared-4"].replace("replicas: 4", "replicas: 1")
    for name in ("l4-1", "l4-2"):
        c.offer(name, {"nvidia.com/gpu.shared": 0})
        for pod in c.pods("nvdp-nvidia-device-plugin-"):
            if pod["spec"].get("nodeName") == name and pod["spec"]["containers"][0]["name"] == "nvidia-device-plugin-ctr":
                c.crash(pod)
    held = c.evict("classifier-", "embedder-", "reranker-", "rewriter-")
    return c, Wanted(
        "sharing-config-invalid", "ConfigMap nvidia-device-plugin/nvdp-nvidia-device-plugin-configs", tuple(keys(held))
    )


@defect
def rename_in_the_wrong_place() -> tuple[Cluster, Wanted]:
    c = Cluster("04")
    c.get("ConfigMap", "nvdp-nvidia-device-plugin-configs")["data"]["shared-4"] = (
        "version: v1\nflags:\n  migStrategy: none\n  renameByDefault: true\n"
        "sharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n"
    )
    for name in ("l4-1", "l4-2"):
        c.offer(name, {GPU: 8, "nvidia.com/gpu.shared": 0})
        c.labels(name)["nvidia.com/gpu.product"] = "NVIDIA-L4-SHARED"
    pods = c.deploy("embedder", "code", replicas=2)
    return c, Wanted(
        "sharing-config-invalid",
        "ConfigMap nvidia-device-plugin/nvdp-nvidia-device-plugin-configs",
        tuple(keys(pods)),
        mentions=("renameByDefault",),
    )


@defect
def the_operator_is_not_told_which_key() -> tuple[Cluster, Wanted]:
    c = Cluster("02")
    c.get("ClusterPolicy", "cluster-policy")["spec"]["devicePlugin"]["config"] = {"name": "shares", "default": ""}
    text = "version: v1\nsharing:\n  timeSlicing:\n    renameByDefault: true\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n"
    c.add(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "shares", "namespace": "gpu-operator"},
            "data": {"any": text},
        }
    )
    environment = {
        "NODE_LABEL": "nvidia.com/device-plugin.config",
        "CONFIG_FILE_SRCDIR": "/available-configs",
        "CONFIG_FILE_DST": "/config/config.yaml",
        "DEFAULT_CONFIG": "",
        "FALLBACK_STRATEGIES": "empty",
    }
    for spec in c.specs("nvidia-device-plugin-daemonset"):
        spec.setdefault("volumes", []).append({"name": "available-configs", "configMap": {"name": "shares"}})
        env = [{"name": key, "value": value} for key, value in environment.items()]
        mount = {"name": "available-configs", "mountPath": "/available-configs"}
        spec["containers"].append({"name": "config-manager", "image": "k8s-device-plugin", "env": env, "volumeMounts": [mount]})
        for container in spec["containers"]:
            container.setdefault("env", []).append({"name": "CONFIG_FILE", "value": "/config/config.yaml"})
    pods = c.deploy("embedder", "code", ask("nvidia.com/gpu.shared"), replicas=2)
    return c, Wanted(
        "sharing-config-not-applied", "ConfigMap gpu-operator/shares", tuple(keys(pods)), also=("wrong-resource-name",)
    )


@defect
def mps_without_feature_discovery() -> tuple[Cluster, Wanted]:
    c = Cluster("04")
    data = c.get("ConfigMap", "nvdp-nvidia-device-plugin-configs")["data"]
    data["shared-4"] = data["shared-4"].replace("timeSlicing", "mps")
    c.remove(c.get("DaemonSet", "nvdp-nvidia-device-plugin-gpu-feature-discovery"))
    c.remove(*c.pods("nvdp-nvidia-device-plugin-gpu-feature-discovery-"))
    for name in ("l4-1", "l4-2"):
        for label in ("nvidia.com/mps.capable", "nvidia.com/gpu.sharing-strategy"):
            c.labels(name).pop(label, None)
        c.offer(name, {"nvidia.com/gpu.shared": 0})
    held = c.evict("classifier-", "embedder-", "reranker-", "rewriter-")
    return c, Wanted("mps-not-ready", "Node l4-1", tuple(keys(held)), also=("wrong-resource-name",))


@defect
def a_layout_with_a_profile_of_another_card() -> tuple[Cluster, Wanted]:
    c = Cluster("02")
    data = c.get("ConfigMap", "rag-mig-config")["data"]
    text = "version: v1\nmig-configs:\n  small:\n  - devices: all\n    mig-enabled: true\n    mig-devices: {1g.5gb: 7}\n"
    data[next(iter(data))] = text
    c.labels("h100-1").update({"nvidia.com/mig.config": "small", "nvidia.com/mig.config.state": "failed"})
    pods = c.deploy("embedder", "code", ask("nvidia.com/mig-1g.5gb"))
    return c, Wanted("mig-config-invalid", "Node h100-1", tuple(keys(pods)))
