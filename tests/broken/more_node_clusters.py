"""Recorded clusters with one defect of a node: GPU nodes that offer no GPU although all that should serve them runs."""

from __future__ import annotations

import copy

from broken import Wanted, defect
from broken.cluster import Cluster, Raw, keys
from broken.edits import GPU, ask, both, select


def bare_node(c: Cluster, like: str, name: str, *dropped: str, **labels: str) -> Raw:
    """One more node like another, without GPUs and without the labels that GPU feature discovery writes (and others that
    begin with one of `dropped`); the DaemonSets' pods run there."""
    made = c.like_node(like, name)
    begin = ("nvidia.com/cuda", "nvidia.com/gfd", "nvidia.com/gpu.", "nvidia.com/mig", "nvidia.com/mps", *dropped)
    kept = {
        k: v for k, v in made["metadata"]["labels"].items() if not k.startswith(begin) or k.startswith("nvidia.com/gpu.deploy")
    }
    made["metadata"]["labels"] = kept | labels
    c.offer(name, {})
    for pod in [p for p in c.all("Pod") if p["spec"].get("nodeName") == like and p["metadata"]["namespace"] != "rag"]:
        if pod["metadata"].get("ownerReferences", [{}])[0].get("kind") == "DaemonSet":
            twin = copy.deepcopy(pod)
            twin["metadata"] |= {"name": f"{pod['metadata']['name'].rpartition('-')[0]}-{name[-3:]}zz"}
            twin["metadata"].pop("uid", None)
            twin["spec"]["nodeName"] = name
            c.add(twin)
    return made


@defect
def gke_node_whose_driver_never_came() -> tuple[Cluster, Wanted]:
    """No label asks for a driver: before GKE 1.30 nobody installs one by itself."""
    c = Cluster("08")
    bare_node(
        c, "gke-rag-l4-pool-7c1f2d3e-5xkt", "gke-rag-l4-new-7c1f2d3e-9ab", "cloud.google.com/gke-gpu-driver-version", pool="new"
    )
    pods = c.deploy("judge", "judge-b", select(pool="new"))
    return c, Wanted("driver-not-installed", "Node gke-rag-l4-new-7c1f2d3e-9ab", tuple(keys(pods)))


@defect
def gke_node_with_the_installer_off_and_a_plugin_that_runs() -> tuple[Cluster, Wanted]:
    c = Cluster("08")
    off = {"cloud.google.com/gke-gpu-driver-version": "disabled", "pool": "new"}
    bare_node(c, "gke-rag-l4-pool-7c1f2d3e-5xkt", "gke-rag-l4-new-7c1f2d3e-9ab", **off)
    pods = c.deploy("judge", "judge-b", select(pool="new"))
    return c, Wanted("driver-not-installed", "Node gke-rag-l4-new-7c1f2d3e-9ab", tuple(keys(pods)))


@defect
def a_new_machine_without_driver() -> tuple[Cluster, Wanted]:
    """The plugin runs there and waits; discovery has nothing to write but the PCI device."""
    c = Cluster("14")
    bare_node(c, "l4-1", "l4-9", pool="new")
    pods = c.deploy("vllm-bge-m3-deployment-vllm", "bge-b", both(select(pool="new"), ask(GPU, 1)))
    return c, Wanted("driver-not-installed", "Node l4-9", tuple(keys(pods)))


@defect
def the_only_box_lost_its_driver() -> tuple[Cluster, Wanted]:
    """k3s, the plugin under the NVIDIA runtime as before; the kernel was replaced."""
    c = Cluster("06")
    c.offer("ragbox", {GPU: 0})
    pods = c.evict("llm-", "embedder-")
    return c, Wanted("driver-not-installed", "Node ragbox", tuple(keys(pods)))


@defect
def the_plugin_runs_outside_the_runtime_and_waits() -> tuple[Cluster, Wanted]:
    """k3s: runtimeClassName was dropped from the plugin, which waits for ever (failOnInitError=false)."""
    c = Cluster("06")
    for spec in c.specs("nvdp-nvidia-device-plugin"):
        spec.pop("runtimeClassName", None)
    c.offer("ragbox", {GPU: 0})
    pods = c.evict("llm-", "embedder-")
    return c, Wanted("device-plugin-nvml-missing", "Node ragbox", tuple(keys(pods)))


@defect
def the_operator_s_pods_wait_for_a_driver_of_the_host() -> tuple[Cluster, Wanted]:
    """A node whose driver the operator believes to be pre-installed: the init container of every operand looks for it."""
    c = Cluster("02")
    made = bare_node(c, "h100-1", "h100-9", pool="new")
    made["metadata"]["labels"]["nvidia.com/gpu.deploy.driver"] = "pre-installed"
    c.remove(*[p for p in c.pods("nvidia-driver-daemonset-") if p["spec"]["nodeName"] == "h100-9"])
    c.remove(*[p for p in c.pods("nvidia-cuda-validator") if p["spec"]["nodeName"] == "h100-9"])
    for pod in [p for p in c.all("Pod") if p["spec"].get("nodeName") == "h100-9" and p["spec"].get("initContainers")]:
        pod["status"]["phase"] = "Pending"
        pod["status"].pop("initContainerStatuses", None)
        for status in pod["status"]["containerStatuses"]:
            status |= {"ready": False, "started": False, "state": {"waiting": {"reason": "PodInitializing"}}}
        for condition in pod["status"]["conditions"]:
            if condition["type"] in ("Ready", "ContainersReady", "Initialized"):
                condition["status"] = "False"
    c.deploy("llm", "llm-b", both(select(pool="new"), ask(GPU, 1)))
    return c, Wanted("driver-not-installed", "Node h100-9", None)


# whole clusters in which one program says what is wrong


@defect
def every_server_of_a_node_meets_error_802() -> tuple[Cluster, Wanted]:
    c = Cluster("02")
    node = next(p["spec"]["nodeName"] for p in c.pods("llm-") if p["metadata"]["namespace"] == "rag")
    broken = [
        p for p in c.all("Pod") if p["metadata"]["namespace"] == "rag" and p["spec"].get("nodeName") == node and uses_gpu(p)
    ]
    for pod in broken:
        c.crash(pod, message="RuntimeError: CUDA error: system not yet initialized")
    return c, Wanted("fabric-manager-down", f"Node {node}", tuple(keys(broken)))


@defect
def a_detector_condemns_a_card_and_a_server_crashes() -> tuple[Cluster, Wanted]:
    c = Cluster("14")
    pod = next(p for p in c.all("Pod") if uses_gpu(p) and p["spec"].get("nodeName"))
    name = pod["spec"]["nodeName"]
    c.crash(pod, message="torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered")
    c.get("Node", name)["status"]["conditions"].append(
        {
            "type": "GpuMemWatch",
            "status": "True",
            "reason": "GpuMemWatchIsNotHealthy",
            "message": "ErrorCode:DCGM_FR_VOLATILE_DBE_DETECTED GPU:1 Detected 1 volatile double-bit ECC error(s)",
        }
    )
    return c, Wanted("gpu-unhealthy", f"Node {name}", tuple(keys([pod])))


@defect
def the_embedder_s_image_is_for_another_generation() -> tuple[Cluster, Wanted]:
    c = Cluster("01")
    pod = next(p for p in c.all("Pod") if uses_gpu(p) and p["spec"].get("nodeName", "").startswith("t4"))
    c.crash(
        pod,
        message="Error: Could not create backend\n\nCaused by:\n    Could not start backend: Runtime compute cap 75 is not compatible with compile time compute cap 80",
    )
    owner = pod["metadata"]["ownerReferences"][0]["name"].rpartition("-")[0]
    return c, Wanted("gpu-arch-unsupported", f"Deployment {pod['metadata']['namespace']}/{owner}", tuple(keys([pod])))


@defect
def pods_stand_where_the_kubelet_lists_no_such_handler() -> tuple[Cluster, Wanted]:
    c = Cluster("14")
    c.get("Node", "l4-2")["status"]["runtimeHandlers"] = [{"name": ""}, {"name": "runc"}]
    (pod,) = c.deploy("vllm-bge-m3-deployment-vllm", "bge-b")
    pod["spec"]["runtimeClassName"] = "nvidia"
    c.bind(pod, "l4-2")
    return c, Wanted("runtime-handler-not-configured", "Node l4-2", tuple(keys([pod])))


@defect
def the_liveness_probe_finds_no_card_any_more() -> tuple[Cluster, Wanted]:
    c = Cluster("14")
    pod = next(p for p in c.all("Pod") if uses_gpu(p) and p["spec"].get("nodeName"))
    for condition in pod["status"]["conditions"]:
        if condition["type"] in ("Ready", "ContainersReady"):
            condition |= {"status": "False", "reason": "ContainersNotReady"}
    for status in pod["status"]["containerStatuses"]:
        status["ready"] = False
    c.event(
        pod,
        "Unhealthy",
        'Readiness probe failed: command "nvidia-smi" failed: Failed to initialize NVML: Unknown Error',
        "kubelet",
    )
    owner = pod["metadata"]["ownerReferences"][0]["name"].rpartition("-")[0]
    return c, Wanted("cgroup-device-lost", f"Deployment {pod['metadata']['namespace']}/{owner}", tuple(keys([pod])))


@defect
def two_servers_are_refused_where_cards_are_free() -> tuple[Cluster, Wanted]:
    c = Cluster("14")
    pods = c.deploy("vllm-bge-m3-deployment-vllm", "bge-b", replicas=2)
    for pod in pods:
        text = "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected"
        c.reject(pod, "l4-2", "UnexpectedAdmissionError", text)
    return c, Wanted("kubelet-device-state-stale", "Node l4-2", tuple(keys(pods)))


def uses_gpu(pod: Raw) -> bool:
    """Whether a pod of a service asks for GPUs."""
    return pod["metadata"]["namespace"] != "gpu-operator" and "nvidia.com/" in str(
        [x.get("resources") for x in pod["spec"]["containers"]]
    )


@defect
def the_dra_driver_taints_a_card() -> tuple[Cluster, Wanted]:
    """kubernetes-sigs/dra-driver-nvidia-gpu pull 983: health checks taint the device in its slice."""
    c = Cluster("10")
    item = next(x for x in c.all("ResourceSlice") if x["spec"].get("driver") == "gpu.nvidia.com" and x["spec"].get("devices"))
    item["spec"]["devices"][0]["taints"] = [{"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}]
    return c, Wanted("gpu-unhealthy", f"Node {item['spec']['nodeName']}", None, mentions=("Xid 79",))
