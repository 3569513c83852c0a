"""Nodes, drivers, runtimes, kubelets, vendor schedulers."""

from __future__ import annotations

from broken import Wanted, defect
from broken.cluster import Cluster, keys
from broken.edits import GPU, anywhere, ask, both, select


@defect
def handler_unknown_to_the_runtime() -> tuple[Cluster, Wanted]:
    c = Cluster("14")
    node = c.get("Node", "l4-2")
    node["status"]["runtimeHandlers"] = [
        item for item in node["status"].get("runtimeHandlers", ()) if item.get("name") != "nvidia"
    ]
    (pod,) = c.deploy("vllm-bge-m3-deployment-vllm", "bge-b")
    c.bind(pod, "l4-2")
    c.event(
        pod,
        "FailedCreatePodSandBox",
        (
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox "
            'runtime: no runtime for "nvidia" is configured'
        ),
        "kubelet",
    )
    return c, Wanted("runtime-handler-not-configured", "Node l4-2", tuple(keys([pod])))


@defect
def card_out_of_service() -> tuple[Cluster, Wanted]:
    c = Cluster("01")
    c.offer("t4-1", {GPU: 2}, {GPU: 1})
    return c, Wanted("gpu-unhealthy", "Node t4-1", also=())


@defect
def card_out_of_service_and_a_pod_waits() -> tuple[Cluster, Wanted]:
    c = Cluster("14")
    c.offer("l4-2", {GPU: 4}, {GPU: 3})
    c.offer("l4-1", {GPU: 4}, {GPU: 3})
    pods = c.deploy("vllm-bge-m3-deployment-vllm", "bge-b", both(anywhere, ask(GPU, 2)))
    return c, Wanted("gpu-unhealthy", "Node l4-2", tuple(keys(pods)), also=("gpu-exhausted",))


@defect
def image_newer_than_the_driver() -> tuple[Cluster, Wanted]:
    c = Cluster("14")
    (pod,) = c.deploy("vllm-bge-m3-deployment-vllm", "bge-b")
    c.bind(pod, "l4-2")
    c.crash(
        pod,
        reason="StartError",
        code=128,
        message=(
            "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
            "runc create failed: unable to start container process: error during container init: error "
            "running hook #0: nvidia-container-cli: requirement error: unsatisfied condition: "
            "cuda>=13.0, please update your driver to a newer version, or use an earlier cuda "
            "container: unknown"
        ),
    )
    return c, Wanted("driver-cuda-mismatch", "Deployment serving/bge-b", tuple(keys([pod])), mentions=("13.0",))


@defect
def driver_replaced_under_the_plugin() -> tuple[Cluster, Wanted]:
    c = Cluster("14")
    for pod in c.pods("nvdp-nvidia-device-plugin-"):
        if pod["spec"].get("nodeName") == "l4-2" and any(
            x["name"] == "nvidia-device-plugin-ctr" for x in pod["spec"]["containers"]
        ):
            c.crash(pod, message="Failed to initialize NVML: Driver/library version mismatch")
            broken = keys([pod])
    c.offer("l4-2", {GPU: 4}, {GPU: 0})
    pods = c.deploy("vllm-bge-m3-deployment-vllm", "bge-b", both(anywhere, ask(GPU, 2)))
    return c, Wanted("driver-library-mismatch", "Node l4-2", (*broken, *keys(pods)))


@defect
def rejected_for_topology() -> tuple[Cluster, Wanted]:
    c = Cluster("01")
    (pod,) = c.deploy("llm", "llm-b", ask(GPU, 2))
    c.reject(pod, "a100-2", "TopologyAffinityError", "Pod was rejected: Resources cannot be allocated with Topology locality")
    return c, Wanted("topology-alignment-failed", "Deployment rag/llm-b", tuple(keys([pod])))


@defect
def kubelet_believes_devices_are_in_use() -> tuple[Cluster, Wanted]:
    c = Cluster("01")
    (pod,) = c.deploy("llm", "llm-b", ask(GPU, 2))
    c.reject(
        pod,
        "a100-2",
        "UnexpectedAdmissionError",
        (
            "Pod was rejected: Allocate failed due to requested number of devices unavailable for "
            "nvidia.com/gpu. Requested: 2, Available: 0, which is unexpected"
        ),
    )
    return c, Wanted("kubelet-device-state-stale", "Node a100-2", tuple(keys([pod])))


@defect
def admitted_before_the_plugin() -> tuple[Cluster, Wanted]:
    c = Cluster("06")
    (pod,) = c.deploy("embedder", "embedder-b")
    c.reject(
        pod,
        "ragbox",
        "UnexpectedAdmissionError",
        (
            "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate "
            "unhealthy devices nvidia.com/gpu, which is unexpected"
        ),
    )
    return c, Wanted("device-plugin-start-race", "Deployment rag/embedder-b", tuple(keys([pod])))


@defect
def killed_while_it_loads() -> tuple[Cluster, Wanted]:
    c = Cluster("14")
    (pod,) = c.deploy(
        "vllm-qwen-14b-deployment-vllm",
        "qwen-b",
        lambda spec: spec["containers"][0].update(
            startupProbe={"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 5, "failureThreshold": 6}
        ),
    )
    c.bind(pod, "l4-2")
    c.crash(pod, code=137, restarts=7)
    c.event(pod, "Killing", "Container vllm failed startup probe, will be restarted", "kubelet", kind="Normal")
    return c, Wanted("startup-probe-too-short", "Deployment serving/qwen-b", tuple(keys([pod])))


@defect
def gke_pool_without_driver() -> tuple[Cluster, Wanted]:
    c = Cluster("08")
    node = c.like_node("gke-rag-l4-pool-7c1f2d3e-5xkt", "gke-rag-l4-new-7c1f2d3e-9abc")
    node["metadata"]["labels"] |= {"cloud.google.com/gke-gpu-driver-version": "disabled", "pool": "new"}
    c.offer("gke-rag-l4-new-7c1f2d3e-9abc", {})
    pods = c.deploy("judge", "judge-b", select(pool="new"))
    return c, Wanted("driver-not-installed", "Node gke-rag-l4-new-7c1f2d3e-9abc", tuple(keys(pods)))


@defect
def operators_driver_fails_to_build() -> tuple[Cluster, Wanted]:
    c = Cluster("02")
    for pod in c.pods("nvidia-driver-daemonset-"):
        c.crash(pod)
    for prefix in (
        "nvidia-device-plugin-daemonset-",
        "gpu-feature-discovery-",
        "nvidia-container-toolkit-daemonset-",
        "nvidia-dcgm-exporter-",
        "nvidia-operator-validator-",
        "nvidia-mig-manager-",
    ):
        for pod in c.pods(prefix):
            pod["status"]["phase"] = "Pending"
            for status in pod["status"]["containerStatuses"]:
                status |= {"ready": False, "started": False, "state": {"waiting": {"reason": "PodInitializing"}}}
            for condition in pod["status"]["conditions"]:
                if condition["type"] in ("Ready", "ContainersReady", "Initialized"):
                    condition["status"] = "False"
    c.offer("h100-1", {})
    c.remove(
        *[
            pod
            for pod in c.all("Pod")
            if pod["metadata"]["namespace"] == "rag" and "nvidia" in str(pod["spec"]["containers"][0].get("resources"))
        ]
    )
    pods = c.deploy("llm", "llm-b")
    return c, Wanted("driver-not-installed", "Node h100-1", tuple(keys(pods)))


@defect
def kai_pod_in_a_queue_that_is_not_there() -> tuple[Cluster, Wanted]:
    c = Cluster("14")
    c.add(
        {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": "rag"},
            "spec": {"resources": {"gpu": {"quota": 4}}},
        }
    )
    (pod,) = c.deploy("vllm-bge-m3-deployment-vllm", "bge-b", lambda spec: spec.update(schedulerName="kai-scheduler"))
    pod["metadata"]["labels"]["kai.scheduler/queue"] = "rags"
    c.event(pod, "Unschedulable", 'Queue "rags" does not exist', "kai-scheduler")
    return c, Wanted("queue-misconfigured", "Deployment serving/bge-b", tuple(keys([pod])), mentions=("rags",))
