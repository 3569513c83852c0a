"""Small reports about runtimes, broken cards, kubelets, cgroups, fabrics and isolation, after public ones (the source of each is in
its docstring)."""

from __future__ import annotations

from broken import Wanted, defect
from broken.cluster import Cluster, Raw
from broken.small import GPU, PLUGIN, WHEN, container, crashes, node, pod, refused, runs, stands
from makers import thing

PCI = {"feature.node.kubernetes.io/pci-10de.present": "true"}
EXPORTER = container("nvidia-dcgm-exporter", "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.0-4.1.0-ubuntu22.04")


def _engine(image: str = "vllm/vllm-openai:v0.10.1", name: str = "vllm", gpus: int = 1) -> Raw:
    return container(name, image, {GPU: gpus})


def runtime_class(name: str = "nvidia") -> Raw:
    return thing("RuntimeClass", name, api="node.k8s.io/v1", handler=name)


def _condition(raw: Raw, kind: str, status: str, reason: str, message: str) -> Raw:
    raw["status"]["conditions"].append(
        {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": WHEN}
    )
    return raw


def creating(name: str, on: str, owner: str, box: Raw = PLUGIN) -> Raw:
    status = stands("ContainerCreating")
    return pod(name, "gpu-operator", box, status, on, ("DaemonSet", owner), runtimeClassName="nvidia")


# runtime-handler-not-configured


@defect
def the_journal_of_containerd_escapes_the_quotes() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/gpu-operator/issues/432: no events, only the journal."""
    c = Cluster("", node("beck", {}, PCI), runtime_class())
    c.add(creating("gpu-feature-discovery-qfjgk", "beck", "gpu-feature-discovery"))
    c.attachments["logs/beck-containerd.log"] = (
        'nov 02 18:00:58 beck containerd[10237]: time="2022-11-02T18:00:58.738797825+02:00" level=error msg="RunPodSandbox for &PodSandboxMetadata{Name:gpu-feature-discovery-qfjgk,'
        'Namespace:gpu-operator,Attempt:2,} failed, error" error="failed to get sandbox runtime: no runtime for \\"nvidia\\" is configured"\n'
    )
    return c, Wanted("runtime-handler-not-configured", "Node beck", None)


@defect
def containerd_2_has_no_sandbox_runtime() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/gpu-operator/pull/2168, events of a must-gather."""
    c = Cluster("", node("c2-1", {}, PCI), runtime_class())
    boxes = {
        "nvidia-operator-validator-l4754": container("nvidia-operator-validator", "x/gpu-operator-validator:v25.3.0"),
        "nvidia-dcgm-exporter-qd6vj": EXPORTER,
    }
    for name in boxes:
        p = c.add(creating(name, "c2-1", name.rpartition("-")[0], boxes[name]))
        c.event(
            p,
            "FailedCreatePodSandBox",
            'Failed to create pod sandbox: rpc error: code = Unknown desc = unable to get OCI runtime for sandbox "18073b779521b77e": no runtime for "nvidia" is configured',
            "kubelet",
        )
    return c, Wanted(
        "runtime-handler-not-configured",
        "Node c2-1",
        ("gpu-operator/nvidia-dcgm-exporter-qd6vj", "gpu-operator/nvidia-operator-validator-l4754"),
    )


@defect
def rke2_with_crio() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/gpu-operator/issues/2236"""
    c = Cluster("", node("k8s-worker-gpu-01", {}, PCI), node("k8s-worker-02", {}), runtime_class())
    p = c.add(creating("nvidia-device-plugin-daemonset-0x0x0", "k8s-worker-gpu-01", "nvidia-device-plugin-daemonset"))
    c.event(
        p,
        "FailedCreatePodSandBox",
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to find runtime handler nvidia from runtime list map[crun:0xc000305680 runc:0xc000305980]",
        "kubelet",
    )
    return c, Wanted(
        "runtime-handler-not-configured", "Node k8s-worker-gpu-01", ("gpu-operator/nvidia-device-plugin-daemonset-0x0x0",)
    )


@defect
def docker_knows_no_such_runtime() -> tuple[Cluster, Wanted]:
    """docker behind cri-dockerd; the daemon's word as in NVIDIA-NeMo/labs-molt issue 88."""
    c = Cluster("", node("dock-1", {}, PCI), runtime_class())
    p = c.add(
        pod("llm-0", "rag", _engine(), stands("ContainerCreating"), "dock-1", ("StatefulSet", "llm"), runtimeClassName="nvidia")
    )
    c.event(
        p,
        "FailedCreatePodSandBox",
        'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to create a sandbox for pod "llm-0": Error response from daemon: unknown or invalid runtime name: nvidia',
        "kubelet",
    )
    return c, Wanted("runtime-handler-not-configured", "Node dock-1", ("rag/llm-0",))


@defect
def the_old_words_of_docker() -> tuple[Cluster, Wanted]:
    """docker before 23, and k3s with --docker."""
    c = Cluster("", node("dock-2", {}, PCI), runtime_class())
    p = c.add(
        pod(
            "tool-0",
            "rag",
            container("tool", "nvidia/cuda:12.2.0-base-ubuntu22.04", {}),
            stands("ContainerCreating"),
            "dock-2",
            runtimeClassName="nvidia",
        )
    )
    c.event(
        p,
        "FailedCreatePodSandBox",
        'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to create a sandbox for pod "tool-0": Error response from daemon: Unknown runtime specified nvidia',
        "kubelet",
    )
    return c, Wanted("runtime-handler-not-configured", "Node dock-2", ("rag/tool-0",))


@defect
def the_runtime_s_binary_is_gone() -> tuple[Cluster, Wanted]:
    """Configuration left by an uninstalled toolkit: NVIDIA/gpu-operator issue 188 and others."""
    c = Cluster("", node("mk-1", {}, PCI), runtime_class())
    p = c.add(creating("nvidia-device-plugin-daemonset-1x1x1", "mk-1", "nvidia-device-plugin-daemonset"))
    c.event(
        p,
        "FailedCreatePodSandBox",
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to create containerd task: failed to create shim task: OCI runtime create failed: unable to retrieve OCI runtime error (open /run/containerd/io.containerd.runtime.v2.task/k8s.io/2b/log.json: no such file or directory): fork/exec /usr/local/nvidia/toolkit/nvidia-container-runtime: no such file or directory: unknown",
        "kubelet",
    )
    return c, Wanted("runtime-handler-not-configured", "Node mk-1", ("gpu-operator/nvidia-device-plugin-daemonset-1x1x1",))


@defect
def the_runtime_is_not_in_the_path() -> tuple[Cluster, Wanted]:
    """k3s and k0s: the binary's name is configured and not found."""
    c = Cluster("", node("k0-1", {}, PCI), runtime_class())
    p = c.add(creating("nvdp-2x2x2", "k0-1", "nvdp"))
    c.event(
        p,
        "FailedCreatePodSandBox",
        'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox "3c": failed to create containerd task: failed to create shim task: OCI runtime create failed: unable to retrieve OCI runtime error (open log.json: no such file or directory): exec: "nvidia-container-runtime": executable file not found in $PATH: unknown',
        "kubelet",
    )
    return c, Wanted("runtime-handler-not-configured", "Node k0-1", ("gpu-operator/nvdp-2x2x2",))


@defect
def the_node_lists_its_handlers() -> tuple[Cluster, Wanted]:
    """NVIDIA/gpu-operator issue 759 without its events: node.status.runtimeHandlers says it."""
    c = Cluster("", node("eks-1", {}, PCI, handlers=["", "runc"]), runtime_class())
    c.add(creating("nvidia-device-plugin-daemonset-3x3x3", "eks-1", "nvidia-device-plugin-daemonset"))
    return c, Wanted("runtime-handler-not-configured", "Node eks-1", ("gpu-operator/nvidia-device-plugin-daemonset-3x3x3",))


# gpu-unhealthy


@defect
def the_kernel_breaks_its_sentence() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/NVSentinel/issues/155"""
    c = Cluster("", node("l40s-3", {GPU: 7}, PCI | {"nvidia.com/gpu.count": "7"}))
    c.attachments["logs/l40s-3-dmesg.txt"] = (
        "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0\n               NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
        "               NVRM: fallen off the bus and is not responding to commands.\n[ 1843.439662] NVRM: The NVIDIA probe routine failed for 1 device(s).\n"
    )
    return c, Wanted("gpu-unhealthy", "Node l40s-3", None)


@defect
def every_container_meets_a_card_that_does_not_answer() -> tuple[Cluster, Wanted]:
    """https://github.com/Project-HAMi/volcano-vgpu-device-plugin/issues/123"""
    c = Cluster("", node("master-02", {GPU: 8}, PCI))
    p = c.add(pod("llm-0", "rag", _engine(), stands("RunContainerError"), "master-02", ("StatefulSet", "llm")))
    c.event(
        p,
        "Failed",
        "Error: failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: error running hook #0: error running hook: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: detection error: nvml error: unknown error: unknown",
        "kubelet",
    )
    return c, Wanted("gpu-unhealthy", "Node master-02", None)


@defect
def one_lost_card_blocks_allocation() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/k8s-device-plugin/issues/2038 (and 231)"""
    c = Cluster("", node("dgx-4", {GPU: 8}, PCI))
    text = "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = error getting list of preferred allocation devices: unable to get device link information: error getting device handle: GPU is lost, which is unexpected"
    c.add(pod("train-1-aaaaa", "ml", _engine(gpus=2), refused("UnexpectedAdmissionError", text), "dgx-4", ("Job", "train-1")))
    return c, Wanted("gpu-unhealthy", "Node dgx-4", None)


@defect
def gke_sets_a_condition() -> tuple[Cluster, Wanted]:
    """https://github.com/GoogleCloudPlatform/container-engine-accelerators/pull/497"""
    raw = node("gke-a3-1", {GPU: 8}, {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"})
    c = Cluster("", _condition(raw, "XidCriticalError", "True", '{"79":true}', "6e43a052-e544-467b-a972-63d7cd2ce80a"))
    c.add(pod("llm-0", "rag", _engine(), crashes(), "gke-a3-1", ("StatefulSet", "llm")))
    return c, Wanted("gpu-unhealthy", "Node gke-a3-1", None)


@defect
def the_eks_agent_sets_a_condition() -> tuple[Cluster, Wanted]:
    """https://github.com/aws/eks-node-monitoring-agent/issues/272 and pull 94"""
    raw = node("ip-10-1-2-3", {GPU: 8}, {"node.kubernetes.io/instance-type": "p5.48xlarge"})
    c = Cluster("", _condition(raw, "AcceleratedHardwareReady", "False", "NvidiaXID79Error", "GPU has fallen off the bus"))
    return c, Wanted("gpu-unhealthy", "Node ip-10-1-2-3", None)


@defect
def nvsentinel_sets_a_condition() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/NVSentinel/pull/973"""
    raw = node("oke-1", {GPU: 8}, PCI, unschedulable=True)
    c = Cluster(
        "",
        _condition(
            raw,
            "GpuAllWatch",
            "True",
            "GpuAllWatchIsNotHealthy",
            "ErrorCode:DCGM_FR_UNCONTAINED_ERROR GPU:0 PCI:0000:16:00.0 GPU_UUID:GPU-00000000-0000-0000-0000-000000000001 GPU had an uncontained error (XID 95) Drain the GPU and reset it or reboot the node. Recommended Action=RESTART_VM;",
        ),
    )
    return c, Wanted("gpu-unhealthy", "Node oke-1", None)


@defect
def aks_counts_fewer_cards() -> tuple[Cluster, Wanted]:
    """AKS, node problem detector: GPU health monitoring."""
    raw = node(
        "aks-gpu-vmss000001",
        {GPU: 7},
        {"kubernetes.azure.com/accelerator": "nvidia", "node.kubernetes.io/instance-type": "Standard_ND96isr_H100_v5"},
    )
    c = Cluster(
        "",
        _condition(
            raw, "GPUMissing", "True", "GPUMissing", "Observed GPU count does not match expected GPU count: expected 8, found 7"
        ),
    )
    return c, Wanted("gpu-unhealthy", "Node aks-gpu-vmss000001", None)


@defect
def ack_reports_an_event_on_the_node() -> tuple[Cluster, Wanted]:
    """Alibaba Cloud node-problem-detector: NodeHasNvidiaXidError."""
    raw = node("cn-hangzhou.10.0.0.9", {GPU: 8}, {"aliyun.accelerator/nvidia_name": "NVIDIA-A100-SXM4-80GB"})
    c = Cluster("", raw)
    c.event(
        raw,
        "NodeHasNvidiaXidError",
        "NVRM: Xid (PCI:0000:8e:00): 48, pid=12345, DBE (double bit error) ECC Error",
        "node-problem-detector",
    )
    return c, Wanted("gpu-unhealthy", "Node cn-hangzhou.10.0.0.9", None)


@defect
def a_reset_is_required() -> tuple[Cluster, Wanted]:
    """https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/982"""
    c = Cluster("", node("gb200-3", {GPU: 4}, PCI))
    c.add(pod("train-0", "ml", _engine(), crashes(), "gb200-3", ("StatefulSet", "train")))
    c.attachments["logs/train-0.log"] = (
        "torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable\nSearch for `cudaErrorDevicesUnavailable' in https://docs.nvidia.com/cuda/\n"
    )
    c.attachments["logs/gb200-3-dmesg.txt"] = (
        "[373871.354096] NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned from status @ kernel_channel.c:2827\n"
    )
    return c, Wanted("gpu-unhealthy", "Node gb200-3", None, ("mps-not-ready",))


@defect
def an_exporter_counts_the_xid() -> tuple[Cluster, Wanted]:
    """dcgm-exporter's metrics: the value is the last Xid."""
    c = Cluster("", node("h100-5", {GPU: 8}, PCI))
    c.add(pod("nvidia-dcgm-exporter-aaaaa", "gpu-operator", EXPORTER, runs(), "h100-5", ("DaemonSet", "nvidia-dcgm-exporter")))
    c.add(pod("llm-0", "rag", _engine(), crashes(), "h100-5", ("StatefulSet", "llm")))
    c.attachments["logs/nvidia-dcgm-exporter-aaaaa-metrics.txt"] = (
        'DCGM_FI_DEV_XID_ERRORS{gpu="4",UUID="GPU-00000000-0000-0000-0000-000000000004",device="nvidia4",Hostname="h100-5",DCGM_FI_DRIVER_VERSION="550.90.07"} 0\n'
        'DCGM_FI_DEV_XID_ERRORS{gpu="5",UUID="GPU-00000000-0000-0000-0000-000000000005",device="nvidia5",Hostname="h100-5",DCGM_FI_DRIVER_VERSION="550.90.07"} 79\n'
    )
    return c, Wanted("gpu-unhealthy", "Node h100-5", None)


@defect
def nvidia_smi_cannot_open_one_card() -> tuple[Cluster, Wanted]:
    """https://github.com/akash-network/support/issues/209"""
    c = Cluster("", node("node1", {GPU: 8}, PCI, allocatable={GPU: 0}))
    c.attachments["logs/node1-host.txt"] = (
        "$ nvidia-smi\nUnable to determine the device handle for GPU0000:A1:00.0: Unknown Error\n$ dmesg -T | grep NVRM\n"
        "[Thu Apr  4 18:03:56 2024] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.161.07\n"
        "[Fri Apr  5 21:29:39 2024] NVRM: Xid (PCI:0000:a1:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    )
    return c, Wanted("gpu-unhealthy", "Node node1", None)


@defect
def the_plugin_gives_up_all_devices() -> tuple[Cluster, Wanted]:
    """NVIDIA device plugin, internal/rm/health.go: the event wait itself fails."""
    c = Cluster("", node("a30-2", {GPU: 4}, PCI, allocatable={GPU: 0}))
    c.add(pod("nvdp-e5e5e", "kube-system", PLUGIN, runs(), "a30-2", ("DaemonSet", "nvdp")))
    c.attachments["logs/nvdp-e5e5e.log"] = (
        "I0601 10:00:00.0 1 health.go:159] Error waiting for event: Unknown Error; Marking all devices as unhealthy\n"
    )
    return c, Wanted("gpu-unhealthy", "Node a30-2", None)


@defect
def nvlink_broke_under_a_server() -> tuple[Cluster, Wanted]:
    """cudaErrorNvlinkUncorrectable, CUDA runtime API; NCCL's line beside it."""
    c = Cluster("", node("b200-1", {GPU: 8}, PCI))
    c.add(pod("llm-0", "rag", _engine(gpus=8), crashes(), "b200-1", ("StatefulSet", "llm")))
    c.attachments["logs/llm-0.log"] = (
        "(Worker_TP3 pid=99) torch.AcceleratorError: CUDA error: uncorrectable NVLink error detected during the execution\n"
    )
    return c, Wanted("gpu-unhealthy", "Node b200-1", None)


@defect
def nvidia_smi_shows_err() -> tuple[Cluster, Wanted]:
    """nvidia-smi's table with ERR!: many reports of a card that hangs."""
    c = Cluster("", node("rig-9", {GPU: 2}, PCI))
    c.add(pod("llm-0", "rag", _engine(), crashes(), "rig-9", ("StatefulSet", "llm")))
    c.attachments["logs/rig-9-nvidia-smi.txt"] = (
        "|   0  NVIDIA RTX A6000               On  | 00000000:01:00.0 Off |                  Off |\n| 30%   40C    P8              21W / 300W |      1MiB / 49140MiB |      0%      Default |\n"
        "|   1  NVIDIA RTX A6000               On  | 00000000:02:00.0 Off |                  Off |\n|ERR!  ERR! ERR!             ERR! / ERR!  |  10120MiB / 49140MiB |   ERR!      Default |\n"
    )
    return c, Wanted("gpu-unhealthy", "Node rig-9", None)


# kubelet-device-state-stale


@defect
def only_the_rejected_pods_are_there() -> tuple[Cluster, Wanted]:
    """https://github.com/kubernetes/kubernetes/issues/130145: no nodes in the data."""
    c = Cluster("")
    text = "Pod Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected"
    for tail in ("a1", "b2", "c3"):
        c.add(pod(f"job-{tail}", "ml", _engine(), refused("UnexpectedAdmissionError", text), "gpu-12", ("Job", "job")))
    return c, Wanted("kubelet-device-state-stale", "Pod ml/job-a1", None)


@defect
def the_older_sentence_of_the_kubelet() -> tuple[Cluster, Wanted]:
    """kubernetes 1.10 - 1.21: "Update plugin resources failed"."""
    c = Cluster("", node("old-1", {GPU: 4}), node("old-2", {GPU: 4}))
    p = c.add(
        pod(
            "nb-0",
            "lab",
            _engine(),
            refused(
                "UnexpectedAdmissionError",
                "Pod Update plugin resources failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected.",
            ),
            "old-1",
            ("StatefulSet", "nb"),
        )
    )
    c.event(
        p,
        "UnexpectedAdmissionError",
        "Update plugin resources failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected.",
        "kubelet",
    )
    return c, Wanted("kubelet-device-state-stale", "Node old-1", None)


@defect
def the_checkpoint_is_damaged() -> tuple[Cluster, Wanted]:
    """kubernetes pkg/kubelet/cm/devicemanager: the kubelet's own words after a crash."""
    c = Cluster("", node("g7", {GPU: 2}))
    text = "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 2, Available: 1, which is unexpected"
    c.add(pod("llm-9-aaaaa", "rag", _engine(gpus=2), refused("UnexpectedAdmissionError", text), "g7", ("ReplicaSet", "llm-9")))
    c.attachments["logs/g7-kubelet.log"] = (
        'I0610 10:00:00.0 811 manager.go:402] "Continue after failing to read checkpoint file. Device allocation info may NOT be up-to-date" err="checkpoint is corrupted"\n'
    )
    return c, Wanted("kubelet-device-state-stale", "Node g7", None)


@defect
def the_kubelet_log_alone_says_it() -> tuple[Cluster, Wanted]:
    """kubernetes issue 109595: the journal of the node; the pods are gone."""
    c = Cluster("", node("g8", {GPU: 2}))
    c.attachments["logs/g8/kubelet.log"] = (
        'E0610 10:00:00.0 811 kubelet.go:2431] "Failed to admit pod" err="Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected" pod="rag/llm-0"\n'
    )
    return c, Wanted("kubelet-device-state-stale", "Node g8", None)


@defect
def mig_slices_are_stale_too() -> tuple[Cluster, Wanted]:
    """The same for a MIG resource; a bystander runs on another slice."""
    res = "nvidia.com/mig-1g.10gb"
    c = Cluster("", node("m1", {res: 7}, PCI))
    c.add(pod("ok-0", "rag", container("tei", "x/tei:1", {res: 1}), runs(), "m1", ("StatefulSet", "ok")))
    c.add(
        pod(
            "emb-5-aaaaa",
            "rag",
            container("tei", "x/tei:1", {res: 1}),
            refused(
                "UnexpectedAdmissionError",
                f"Pod was rejected: Allocate failed due to requested number of devices unavailable for {res}. Requested: 1, Available: 0, which is unexpected",
            ),
            "m1",
            ("ReplicaSet", "emb-5"),
        )
    )
    return c, Wanted("kubelet-device-state-stale", "Node m1", None)


# cgroup-device-lost


@defect
def torch_says_unknown_error_and_the_host_is_well() -> tuple[Cluster, Wanted]:
    """NVIDIA/nvidia-docker issue 1671 and others: the process starts again in the same container."""
    c = Cluster("", node("g9", {GPU: 2}))
    c.add(pod("llm-0", "rag", _engine(), crashes(), "g9", ("StatefulSet", "llm")))
    c.attachments["logs/llm-0.log"] = (
        "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero.\n"
    )
    c.attachments["logs/g9-host.txt"] = (
        "$ nvidia-smi -L\nGPU 0: NVIDIA A10 (UUID: GPU-00000000-0000-0000-0000-000000000001)\nGPU 1: NVIDIA A10 (UUID: GPU-00000000-0000-0000-0000-000000000002)\n"
    )
    return c, Wanted("cgroup-device-lost", "StatefulSet rag/llm", ("rag/llm-0",))


@defect
def pynvml_says_unknown() -> tuple[Cluster, Wanted]:
    """vLLM, gpustat and exporters through pynvml; ray-project and kubeflow reports."""
    c = Cluster("", node("g9", {GPU: 2}))
    c.add(pod("llm-0", "rag", _engine(), runs(ready=False), "g9", ("StatefulSet", "llm")))
    c.attachments["logs/llm-0.log"] = (
        '  File "/usr/local/lib/python3.12/site-packages/pynvml.py", line 979, in _nvmlCheckReturn\n    raise NVMLError(ret)\npynvml.NVMLError_Unknown: Unknown Error\n'
    )
    return c, Wanted("cgroup-device-lost", "StatefulSet rag/llm", ("rag/llm-0",))


@defect
def the_plugin_pod_on_aks_lost_it_too() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/k8s-device-plugin/issues/906 and Azure/AKS issue 3680"""
    c = Cluster("", node("aks-nc6-0", {GPU: 1}, {"kubernetes.azure.com/accelerator": "nvidia"}))
    c.add(
        pod(
            "nvidia-device-plugin-daemonset-f6f6f",
            "gpu-resources",
            PLUGIN,
            runs(),
            "aks-nc6-0",
            ("DaemonSet", "nvidia-device-plugin-daemonset"),
        )
    )
    c.add(
        pod(
            "samples-x",
            "default",
            container("samples", "mcr.microsoft.com/azuredocs/samples-tf-mnist-demo:gpu", {GPU: 1}),
            runs(),
            "aks-nc6-0",
        )
    )
    c.attachments["logs/probe-samples-x.txt"] = (
        "$ kubectl exec -it samples-x -- nvidia-smi\nFailed to initialize NVML: Unknown Error\ncommand terminated with exit code 255\n"
    )
    return c, Wanted("cgroup-device-lost", "Pod default/samples-x", ("default/samples-x",))


@defect
def the_name_of_999_from_go() -> tuple[Cluster, Wanted]:
    """go-nvml in a running plugin or exporter: ERROR_UNKNOWN; akash and HAMi logs."""
    c = Cluster("", node("g10", {GPU: 2}))
    c.add(
        pod(
            "mon-0",
            "mon",
            container("gpu-exporter", "registry.example/nvidia_gpu_exporter:1.2", {GPU: 1}),
            crashes(),
            "g10",
            ("StatefulSet", "mon"),
        )
    )
    c.attachments["logs/mon-0.log"] = 'level=fatal msg="failed to initialize NVML: ERROR_UNKNOWN"\n'
    return c, Wanted("cgroup-device-lost", "StatefulSet mon/mon", ("mon/mon-0",))


@defect
def ollama_turns_to_the_cpu_after_days() -> tuple[Cluster, Wanted]:
    """ollama docs/troubleshooting: the driver library answers 999 in a container that had its GPU."""
    c = Cluster("", node("g11", {GPU: 1}))
    c.add(
        pod("ollama-0", "chat", container("ollama", "ollama/ollama:0.6.2", {GPU: 1}), runs(), "g11", ("StatefulSet", "ollama"))
    )
    c.attachments["logs/ollama-0.log"] = (
        'time=2025-04-02T07:00:00Z level=WARN source=gpu.go:601 msg="unknown error initializing cuda driver library /usr/lib/x86_64-linux-gnu/libcuda.so.550.120: cuda driver library init failure: 999. see https://github.com/ollama/ollama/blob/main/docs/troubleshooting.md for more information"\n'
    )
    c.attachments["logs/g11-host.txt"] = "$ nvidia-smi -L\nGPU 0: NVIDIA L4 (UUID: GPU-00000000-0000-0000-0000-000000000001)\n"
    return c, Wanted("cgroup-device-lost", "StatefulSet chat/ollama", ("chat/ollama-0",))


# fabric-manager-down


@defect
def the_fabric_stays_in_progress() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/gpu-operator/issues/2781 and 2511: nvidia-smi -q of the driver pod."""
    c = Cluster("", node("p6-1", {GPU: 8}, {"node.kubernetes.io/instance-type": "p6-b200.48xlarge"}))
    c.add(pod("llm-0", "rag", _engine(gpus=8), crashes(), "p6-1", ("StatefulSet", "llm")))
    c.attachments["logs/p6-1-nvidia-smi-q.txt"] = (
        "    Fabric\n        State                                          : In Progress\n        Status                                         : N/A\n        CliqueId                                       : N/A\n"
    )
    return c, Wanted("fabric-manager-down", "Node p6-1", None)


@defect
def the_fabric_manager_cannot_configure_the_switches() -> tuple[Cluster, Wanted]:
    """https://github.com/pytorch/ci-infra/pull/552"""
    c = Cluster("", node("p5-2", {GPU: 8}, {"node.kubernetes.io/instance-type": "p5.48xlarge"}))
    c.attachments["logs/p5-2-fabricmanager.log"] = (
        "[May 12 2026 10:00:00] [ERROR] [tid 4000] not all local fabric manager instances finished their configuration\n"
        "[May 12 2026 10:00:00] [ERROR] [tid 4000] fabric manager error handler is called for unhandled config error type 8\n"
        "[May 12 2026 10:00:00] [ERROR] [tid 4000] failed to configure all the available GPUs or NVSwitches\n"
    )
    return c, Wanted("fabric-manager-down", "Node p5-2", None)


@defect
def there_is_no_such_unit() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/gpu-operator/issues/286"""
    c = Cluster("", node("hgx1", {GPU: 8}, PCI), node("v100-1", {GPU: 2}, PCI))
    c.add(
        pod(
            "nvidia-cuda-validator-vkfv6",
            "gpu-operator-resources",
            container("nvidia-cuda-validator", "nvcr.io/nvidia/cloud-native/gpu-operator-validator:v1.9.0"),
            crashes(),
            "hgx1",
            ("DaemonSet", "nvidia-operator-validator"),
        )
    )
    c.attachments["logs/hgx1-host.txt"] = (
        "$ systemctl status nvidia-fabricmanager\nUnit nvidia-fabricmanager.service could not be found.\n"
    )
    c.attachments["logs/nvidia-cuda-validator-vkfv6.log"] = (
        "Failed to allocate device vector A (error code system not yet initialized)!\n"
    )
    return c, Wanted("fabric-manager-down", "Node hgx1", None)


@defect
def vllm_on_h200_with_error_802() -> tuple[Cluster, Wanted]:
    """https://github.com/huggingface/huggingface_hub/issues/4134, MiniMax-M2.5 issue 9; no nodes in the data."""
    c = Cluster("")
    c.add(pod("m2-0", "rag", _engine(gpus=4), crashes(), "h200-1", ("StatefulSet", "m2")))
    c.attachments["logs/vllm.log"] = (
        "ERROR 03-02 19:49:00 [multiproc_executor.py:783] RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized\n"
    )
    return c, Wanted("fabric-manager-down", "Pod rag/m2-0", ("rag/m2-0",))


@defect
def the_name_of_802_alone() -> tuple[Cluster, Wanted]:
    """cudarc and Go bindings print the CUDA name."""
    c = Cluster("", node("hgx2", {GPU: 8}, PCI))
    c.add(
        pod(
            "tei-0",
            "rag",
            container("tei", "ghcr.io/huggingface/text-embeddings-inference:hopper-1.8", {GPU: 1}),
            crashes(),
            "hgx2",
            ("StatefulSet", "tei"),
        )
    )
    c.attachments["logs/tei-0.log"] = (
        "thread 'main' panicked: called `Result::unwrap()` on an `Err` value: DriverError(CUDA_ERROR_SYSTEM_NOT_READY)\n"
    )
    return c, Wanted("fabric-manager-down", "Node hgx2", ("rag/tei-0",))


@defect
def the_driver_container_starts_it_with_a_wrong_option() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/gpu-operator/issues/1595: the driver pod is ready, the servers are not."""
    c = Cluster("", node("b200-7", {GPU: 8}, PCI))
    box = container("nvidia-driver-ctr", "nvcr.io/nvidia/driver:570.148.08-ubuntu22.04")
    c.add(
        pod(
            "nvidia-driver-daemonset-dcl4t",
            "nvidia-gpu-operator",
            box,
            runs(),
            "b200-7",
            ("DaemonSet", "nvidia-driver-daemonset"),
        )
    )
    c.add(pod("llm-0", "rag", _engine(gpus=8), crashes(), "b200-7", ("StatefulSet", "llm")))
    c.attachments["logs/nvidia-driver-daemonset-dcl4t.log"] = (
        "Starting NVIDIA fabric manager daemon for NVLink5+...\nUnknown option: /usr/share/nvidia/nvswitch/fabricmanager.cfg\nNVIDIA Fabric Manager Start Script\n"
        "Usage: /usr/bin/nvidia-fabricmanager-start.sh [script options] --args [arguments to run fabric manager]\nMounting NVIDIA driver rootfs...\nDone, now waiting for signal\n"
    )
    return c, Wanted("fabric-manager-down", "Node b200-7", None)


# gpu-isolation-bypassed


@defect
def a_privileged_pod_sees_every_card() -> tuple[Cluster, Wanted]:
    """https://github.com/kubernetes/kubernetes/issues/81256, k8s-device-plugin issue 336"""
    c = Cluster("", node("vcs-1", {GPU: 2}))
    box = container("main", "registry.example/algo:1", {GPU: 1}, securityContext={"privileged": True})
    c.add(pod("algo-0", "ml", box, runs(), "vcs-1", ("StatefulSet", "algo")))
    c.attachments["logs/probe-pod.txt"] = (
        "$ nvidia-smi -L\nGPU 0: Tesla V100-PCIE-16GB (UUID: GPU-00000000-0000-0000-0000-000000000001)\nGPU 1: Tesla V100-PCIE-16GB (UUID: GPU-00000000-0000-0000-0000-000000000002)\n"
    )
    return c, Wanted("gpu-isolation-bypassed", "StatefulSet ml/algo", None)


@defect
def a_variable_by_index_gives_two_cards() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/k8s-device-plugin/issues/1294"""
    c = Cluster("", node("l40-2", {GPU: 2}))
    box = container("vllm", "vllm/vllm-openai:v0.9.1", {GPU: 1}, env={"NVIDIA_VISIBLE_DEVICES": "1"})
    c.add(pod("granite-5fb-46sld", "ns", box, runs(), "l40-2", ("ReplicaSet", "granite-5fb")))
    c.attachments["logs/granite-5fb-46sld-nvidia-smi.txt"] = (
        "|   0  NVIDIA L40S                    On  |   00000000:4A:00.0 Off |                    0 |\n| N/A   27C    P8             33W /  350W |       4MiB /  46068MiB |      0%      Default |\n"
        "|   1  NVIDIA L40S                    On  |   00000000:61:00.0 Off |                    0 |\n| N/A   27C    P8             33W /  350W |       4MiB /  46068MiB |      0%      Default |\n"
    )
    return c, Wanted("gpu-isolation-bypassed", "ReplicaSet ns/granite-5fb", None)


@defect
def hami_caps_nothing_without_its_library() -> tuple[Cluster, Wanted]:
    """https://github.com/Project-HAMi/HAMi/issues/777"""
    c = Cluster("", node("p4-1", {GPU: 10}, annotations_gpu()))
    box = container("main", "ubuntu:22.04", {GPU: 1, "nvidia.com/gpumem": 300})
    c.add(pod("gpu-pod1", "default", box, runs(), "p4-1", schedulerName="hami-scheduler"))
    c.attachments["logs/gpu-pod1.txt"] = (
        "$ nvidia-smi\nERROR: ld.so: object '/usr/local/vgpu/libvgpu.so' from /etc/ld.so.preload cannot be preloaded (cannot read file data): ignored.\n"
        "|   0  Tesla P4                       On  | 00000000:0B:00.0 Off |                    0 |\n| N/A   34C    P8               6W /  75W |      0MiB /  7680MiB |      0%      Default |\n"
    )
    return c, Wanted("gpu-isolation-bypassed", "Pod default/gpu-pod1", None)


@defect
def volcano_caps_nothing() -> tuple[Cluster, Wanted]:
    """https://github.com/volcano-sh/volcano/issues/3384"""
    c = Cluster("", node("v100-9", {"volcano.sh/vgpu-number": 10, "volcano.sh/vgpu-memory": 32768}))
    box = container("ubuntu-container", "ubuntu:18.04", {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3000})
    c.add(pod("gpu-pod12", "default", box, runs(), "v100-9", schedulerName="volcano"))
    c.attachments["logs/gpu-pod12-nvidia-smi.txt"] = (
        "|   0  Tesla V100-SXM2-32GB           On  | 00000000:00:07.0 Off |                    0 |\n| N/A   33C    P0              25W / 300W |      0MiB / 32768MiB |      0%      Default |\n"
    )
    return c, Wanted("gpu-isolation-bypassed", "Pod default/gpu-pod12", None)


@defect
def one_slice_was_given_and_seven_are_seen() -> tuple[Cluster, Wanted]:
    """MIG with the card's index in the variable: NVIDIA/gpu-operator issue 1502 and others."""
    res = "nvidia.com/mig-1g.10gb"
    c = Cluster("", node("m2", {res: 7}, PCI))
    box = container("main", "nvidia/cuda:12.2.0-base-ubuntu22.04", {res: 1}, env={"NVIDIA_VISIBLE_DEVICES": "0"})
    c.add(pod("bench-0", "ml", box, runs(), "m2"))
    lines = "".join(f"  MIG 1g.10gb     Device  {i}: (UUID: MIG-00000000-0000-0000-0000-00000000000{i})\n" for i in range(7))
    c.attachments["logs/bench-0.txt"] = (
        "$ nvidia-smi -L\nGPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000001)\n" + lines
    )
    return c, Wanted("gpu-isolation-bypassed", "Pod ml/bench-0", None)


@defect
def a_pod_without_gpu_sees_the_card_in_the_table() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/k8s-device-plugin/issues/87"""
    c = Cluster("", node("dk-1", {GPU: 4}))
    c.add(pod("cuda-test", "default", container("cuda", "nvidia/cuda:9.0-base"), runs(), "dk-1"))
    c.add(pod("llm-0", "rag", _engine(), runs(), "dk-1", ("StatefulSet", "llm")))
    c.attachments["logs/cuda-test.log"] = (
        "| NVIDIA-SMI 410.79       Driver Version: 410.79       CUDA Version: 10.0     |\n"
        "|   0  Tesla P100-PCIE...  Off  | 00000000:04:00.0 Off |                    0 |\n| N/A   31C    P0    26W / 250W |      0MiB / 16280MiB |      0%      Default |\n"
        "|   1  Tesla P100-PCIE...  Off  | 00000000:06:00.0 Off |                    0 |\n| N/A   31C    P0    26W / 250W |      0MiB / 16280MiB |      0%      Default |\n"
    )
    return c, Wanted("gpu-isolation-bypassed", "Pod default/cuda-test", None)


def annotations_gpu() -> dict[str, str]:
    """Labels of a node of HAMi."""
    return {"gpu": "on"}
