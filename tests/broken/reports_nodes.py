"""Small reports about nodes, drivers, runtimes and kubelets."""

from __future__ import annotations

from broken import Wanted, defect
from broken.cluster import Cluster
from broken.small import GPU, PLUGIN, container, crashes, daemons, node, pod, refused, runs, stands, waits
from makers import thing

PCI = {"feature.node.kubernetes.io/pci-10de.present": "true"}
ENGINE = container("vllm", "vllm/vllm-openai:v0.11.0", {GPU: 1})


# driver-library-mismatch


@defect
def a_probe_on_the_host_after_an_upgrade() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("worker-3", {GPU: 0}, PCI))
    c.add(pod("nvdp-aaaaa", "gpu", PLUGIN, crashes(), "worker-3", ("DaemonSet", "nvdp")))
    c.attachments["logs/worker-3-nvidia-smi.txt"] = (
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95\n"
    )
    return c, Wanted("driver-library-mismatch", "Node worker-3", None)


@defect
def the_kernel_says_api_mismatch() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("worker-4", {GPU: 4}, PCI))
    c.attachments["logs/worker-4/dmesg.txt"] = (
        "[88123.1] NVRM: API mismatch: the client has the version 580.95.05, but\n[88123.1] NVRM: this kernel module has the version 570.172.08.\n"
    )
    c.add(pod("llm-0", "rag", ENGINE, crashes(), "worker-4", ("StatefulSet", "llm")))
    return c, Wanted("driver-library-mismatch", "Node worker-4", None)


@defect
def cuda_803_in_a_container() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("w5", {GPU: 1}))
    c.add(
        pod(
            "ollama-0",
            "chat",
            container("ollama", "ollama/ollama:0.12.3", {GPU: 1}),
            crashes(),
            "w5",
            ("StatefulSet", "ollama"),
        )
    )
    c.attachments["logs/ollama-0.log"] = (
        "ggml_cuda_init: failed to initialize CUDA: system has unsupported display driver / cuda driver combination\n"
    )
    return c, Wanted("driver-library-mismatch", "Node w5", ("chat/ollama-0",))


# driver-not-installed


@defect
def the_driver_pod_cannot_resolve_the_kernel() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("u24", {}, PCI | {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.driver": "true"}))
    box = container("nvidia-driver-ctr", "nvcr.io/nvidia/driver:580.95.05-ubuntu24.04")
    c.add(daemons("nvidia-driver-daemonset", "gpu-operator", box, 1))
    c.add(pod("nvidia-driver-daemonset-k5mh2", "gpu-operator", box, crashes(), "u24", ("DaemonSet", "nvidia-driver-daemonset")))
    c.attachments["logs/nvidia-driver-ctr.log"] = (
        "Resolving Linux kernel version...\nCould not resolve Linux kernel version\nStopping NVIDIA persistence daemon...\n"
    )
    c.add(pod("llm-0", "rag", ENGINE, waits(), "", ("StatefulSet", "llm")))
    return c, Wanted("driver-not-installed", "Node u24", None)


@defect
def nvidia_smi_reaches_no_driver() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("gke-a", {}, {"cloud.google.com/gke-accelerator": "nvidia-l4"}))
    c.attachments["logs/gke-a-nvidia-smi.txt"] = (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n"
    )
    c.add(pod("llm-0", "rag", ENGINE, waits(), "", ("StatefulSet", "llm")))
    return c, Wanted("driver-not-installed", "Node gke-a", ("rag/llm-0",))


# runtime-handler-not-configured


@defect
def crio_has_no_such_handler() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("ocp", {GPU: 1}))
    c.add(thing("RuntimeClass", "nvidia", api="node.k8s.io/v1", handler="nvidia"))
    p = c.add(
        pod("llm-0", "rag", ENGINE, stands("ContainerCreating"), "ocp", ("StatefulSet", "llm"), runtimeClassName="nvidia")
    )
    c.event(
        p,
        "FailedCreatePodSandBox",
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to find runtime handler nvidia from runtime list map[crun:0x1 runc:0x2]",
        "kubelet",
    )
    return c, Wanted("runtime-handler-not-configured", "Node ocp", ("rag/llm-0",))


@defect
def docker_has_no_such_handler() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("old", {}))
    c.add(thing("RuntimeClass", "nvidia", api="node.k8s.io/v1", handler="nvidia"))
    p = c.add(
        pod(
            "nvidia-device-plugin-daemonset-6s6td",
            "gpu-operator",
            PLUGIN,
            stands("PodInitializing"),
            "old",
            ("DaemonSet", "nvidia-device-plugin-daemonset"),
            runtimeClassName="nvidia",
        )
    )
    c.event(
        p,
        "FailedCreatePodSandBox",
        'Failed create pod sandbox: rpc error: code = Unknown desc = RuntimeHandler "nvidia" not supported',
        "kubelet",
    )
    return c, Wanted("runtime-handler-not-configured", "Node old", ("gpu-operator/nvidia-device-plugin-daemonset-6s6td",))


# gpu-unhealthy


@defect
def a_card_fell_off_the_bus() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("h100-9", {GPU: 8}, PCI, allocatable={GPU: 7}))
    c.attachments["logs/h100-9/dmesg.log"] = (
        "[1.0] NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    )
    return c, Wanted("gpu-unhealthy", "Node h100-9", None)


@defect
def allocation_says_no_longer_healthy() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("a100-4", {GPU: 4}, PCI, allocatable={GPU: 3}))
    text = "Pod was rejected: Allocate failed due to previously allocated devices are no longer healthy; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected"
    c.add(pod("llm-0", "rag", ENGINE, refused("UnexpectedAdmissionError", text), "a100-4", ("StatefulSet", "llm")))
    return c, Wanted("gpu-unhealthy", "Node a100-4", None)


@defect
def a_container_meets_an_ecc_error() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("a100-5", {GPU: 4}, PCI))
    c.add(pod("llm-0", "rag", ENGINE, crashes(), "a100-5", ("StatefulSet", "llm")))
    c.attachments["logs/llm-0.log"] = "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered\n"
    return c, Wanted("gpu-unhealthy", "Node a100-5", None)


# kubelet-device-state-stale


@defect
def the_checkpoint_holds_what_nobody_has() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g2", {GPU: 2}))
    text = "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected"
    for tail in ("aaaaa", "bbbbb"):
        c.add(pod(f"llm-3-{tail}", "rag", ENGINE, refused("UnexpectedAdmissionError", text), "g2", ("ReplicaSet", "llm-3")))
    return c, Wanted("kubelet-device-state-stale", "Node g2", None)


# cgroup-device-lost


@defect
def unknown_error_in_a_running_pod() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g3", {GPU: 2}))
    c.add(pod("llm-3-ccccc", "rag", ENGINE, runs(), "g3", ("ReplicaSet", "llm-3")))
    c.attachments["logs/llm-3-ccccc-nvidia-smi.txt"] = "Failed to initialize NVML: Unknown Error\n"
    return c, Wanted("cgroup-device-lost", "Pod rag/llm-3-ccccc", ("rag/llm-3-ccccc",))


@defect
def the_health_check_fails_with_unknown_error() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g3", {GPU: 2}))
    p = c.add(pod("tei-0", "rag", container("tei", "x/tei:1", {GPU: 1}), runs(ready=False), "g3", ("StatefulSet", "tei")))
    c.event(p, "Unhealthy", "Liveness probe failed: Failed to initialize NVML: Unknown Error", "kubelet")
    return c, Wanted("cgroup-device-lost", "StatefulSet rag/tei", ("rag/tei-0",))


@defect
def a_bare_pod_lost_its_device() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g3", {"nvidia.com/gpu.shared": 8}))
    c.add(pod("notebook-x", "lab", container("nb", "jupyter/x:1", {"nvidia.com/gpu.shared": 1}), runs(), "g3"))
    c.attachments["logs/notebook-x.txt"] = "$ nvidia-smi\nFailed to initialize NVML: Unknown Error\n"
    return c, Wanted("cgroup-device-lost", "Pod lab/notebook-x", ("lab/notebook-x",))


# fabric-manager-down


@defect
def cuda_802_in_every_pod() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("hgx-1", {GPU: 8}))
    for name in ("a", "b"):
        c.add(pod(f"llm-{name}", "rag", ENGINE, crashes("RuntimeError: CUDA error: system not yet initialized"), "hgx-1"))
    return c, Wanted("fabric-manager-down", "Node hgx-1", ("rag/llm-a", "rag/llm-b"))


@defect
def the_validator_cannot_run_cuda() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("hgx-2", {GPU: 8}))
    box = container("cuda-validation", "nvcr.io/nvidia/cloud-native/gpu-operator-validator:v25.3.0")
    c.add(
        pod("nvidia-cuda-validator-qqqqq", "gpu-operator", box, crashes(), "hgx-2", ("DaemonSet", "nvidia-operator-validator"))
    )
    c.attachments["logs/nvidia-cuda-validator-qqqqq.log"] = (
        "Failed to allocate device vector A (error code system not yet initialized)!\n[Vector addition of 50000 elements]\n"
    )
    return c, Wanted("fabric-manager-down", "Node hgx-2", ("gpu-operator/nvidia-cuda-validator-qqqqq",))


@defect
def the_unit_failed() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("hgx-3", {GPU: 8}))
    c.attachments["logs/hgx-3-journal.txt"] = (
        "Nov 30 20:00:00 hgx-3 nv-fabricmanager[2211]: fabric manager NVIDIA GPU driver interface version 580.95.05 don't match with driver version 580.82.07\n"
        "Nov 30 20:00:00 hgx-3 systemd[1]: nvidia-fabricmanager.service: Failed with result 'exit-code'.\n"
    )
    c.add(pod("llm-0", "rag", ENGINE, crashes(), "hgx-3", ("StatefulSet", "llm")))
    return c, Wanted("fabric-manager-down", "Node hgx-3", None)


# topology-alignment-failed


@defect
def two_cards_on_two_sockets() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("numa", {GPU: 8}))
    box = container("vllm", "vllm/vllm-openai:v0.11.0", {GPU: 4, "cpu": "32"}, ["-tp", "4"])
    for tail in ("x1", "x2", "x3"):
        p = c.add(
            pod(
                f"big-7-{tail}",
                "rag",
                box,
                refused("TopologyAffinityError", "Pod was rejected: Resources cannot be allocated with Topology locality"),
                "numa",
                ("ReplicaSet", "big-7"),
            )
        )
        c.event(p, "TopologyAffinityError", "Resources cannot be allocated with Topology locality", "kubelet")
    return c, Wanted("topology-alignment-failed", "Pod rag/big-7-x1", None)
