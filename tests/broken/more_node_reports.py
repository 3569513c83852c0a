"""More small reports about nodes, drivers, runtimes and kubelets, after public ones (the source of each is in its docstring)."""

from __future__ import annotations

from broken import Wanted, defect
from broken.cluster import Cluster, Raw
from broken.more_node_devices import creating, runtime_class
from broken.more_node_driver import VALIDATOR, init_fails
from broken.small import GPU, PLUGIN, WHEN, container, crashes, node, pod, refused, runs, stands, waits

PCI = {"feature.node.kubernetes.io/pci-10de.present": "true"}
INSTALLER = {"name": "nvidia-driver-installer", "image": "gke-nvidia-installer:fixed"}


def _engine(image: str = "vllm/vllm-openai:v0.10.1", name: str = "vllm", gpus: int = 1) -> Raw:
    return container(name, image, {GPU: gpus})


def _init_runs(name: str, box: Raw, init: str, on: str, owner: str) -> Raw:
    """A pod of the operator whose init container runs and runs."""
    made = init_fails(name, box, init, on, owner)
    made["status"]["initContainerStatuses"] = [
        {"name": init, "ready": False, "restartCount": 0, "state": {"running": {"startedAt": "2026-11-30T08:00:00Z"}}}
    ]
    made["metadata"]["creationTimestamp"] = "2026-11-30T08:00:00Z"
    return made


def _installer(name: str, on: str) -> Raw:
    made = init_fails(
        name, container("pause", "gke.gcr.io/pause:3.8"), "nvidia-driver-installer", on, "nvidia-driver-installer"
    )
    made["metadata"]["namespace"] = "kube-system"
    made["spec"]["initContainers"] = [dict(INSTALLER)]
    return made


# driver-not-installed


@defect
def the_operator_waits_for_a_driver_that_nobody_installs() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/gpu-operator/issues/280 and 487: no driver pod, no log, only pods that stay in Init."""
    c = Cluster("", node("awz-worker1", {}, PCI | {"nvidia.com/gpu.deploy.operator-validator": "true"}), node("cp-1", {}))
    c.add(
        _init_runs(
            "nvidia-operator-validator-l72z2", VALIDATOR, "driver-validation", "awz-worker1", "nvidia-operator-validator"
        )
    )
    box = container("nvidia-container-toolkit-ctr", "nvcr.io/nvidia/k8s/container-toolkit:1.7.1-ubi8")
    c.add(
        _init_runs(
            "nvidia-container-toolkit-daemonset-4tq5d",
            box,
            "driver-validation",
            "awz-worker1",
            "nvidia-container-toolkit-daemonset",
        )
    )
    c.add(
        _init_runs(
            "nvidia-device-plugin-daemonset-9kz8l",
            PLUGIN,
            "toolkit-validation",
            "awz-worker1",
            "nvidia-device-plugin-daemonset",
        )
    )
    return c, Wanted("driver-not-installed", "Node awz-worker1", None)


@defect
def the_installer_of_gke_fails_on_an_l4() -> tuple[Cluster, Wanted]:
    """https://github.com/GoogleCloudPlatform/container-engine-accelerators/issues/302"""
    c = Cluster(
        "",
        node(
            "gke-g2-1",
            {},
            {"cloud.google.com/gke-accelerator": "nvidia-l4", "node.kubernetes.io/instance-type": "g2-standard-12"},
        ),
    )
    c.add(_installer("nvidia-driver-installer-4x4x4", "gke-g2-1"))
    c.add(pod("llm-0", "rag", _engine(), waits(), "", ("StatefulSet", "llm")))
    return c, Wanted("driver-not-installed", "Node gke-g2-1", ("rag/llm-0",))


@defect
def the_installer_fails_and_the_plugin_loads_no_nvml() -> tuple[Cluster, Wanted]:
    """https://github.com/kubernetes/minikube/issues/6912"""
    c = Cluster("", node("minikube", {}, {"accelerator": "nvidia"}))
    c.add(_installer("nvidia-driver-installer-9p9p9", "minikube"))
    box = container("nvidia-gpu-device-plugin", "nvidia/k8s-device-plugin:1.0.0-beta4")
    c.add(
        pod("nvidia-gpu-device-plugin-57n2l", "kube-system", box, runs(), "minikube", ("DaemonSet", "nvidia-gpu-device-plugin"))
    )
    c.attachments["logs/nvidia-gpu-device-plugin-57n2l.txt"] = (
        "2020/05/26 14:26:03 Loading NVML\n2020/05/26 14:26:03 Failed to initialize NVML: could not load NVML library.\n"
        "2020/05/26 14:26:03 If this is a GPU node, did you set the docker default runtime to `nvidia`?\n"
    )
    return c, Wanted("driver-not-installed", "Node minikube", None, ("device-plugin-nvml-missing",))


@defect
def a_legacy_card_that_the_driver_ignores() -> tuple[Cluster, Wanted]:
    """bottlerocket-os/bottlerocket pull 3873: P2 instances (K80) with a 535 driver."""
    c = Cluster("", node("ip-10-0-9-9", {}, {"node.kubernetes.io/instance-type": "p2.xlarge"}))
    c.attachments["logs/ip-10-0-9-9/kernel.log"] = (
        "[   12.1] NVRM: The NVIDIA Tesla K80 GPU installed in this system is\nNVRM:  supported through the NVIDIA 470.xx Legacy drivers. Please\n"
        "NVRM:  visit http://www.nvidia.com/object/unix.html for more\nNVRM: information.  The 535.161.07 NVIDIA driver will ignore\nNVRM: this GPU.  Continuing probe...\n"
        "[   12.2] NVRM: No NVIDIA GPU found.\n"
    )
    c.add(pod("llm-0", "rag", _engine(), waits(), "", ("StatefulSet", "llm")))
    return c, Wanted("driver-not-installed", "Node ip-10-0-9-9", ("rag/llm-0",))


@defect
def only_the_plugin_s_event_is_there() -> tuple[Cluster, Wanted]:
    """open-edge-platform/geti_v2 issue 1501 and others: neither node nor log."""
    c = Cluster("")
    p = c.add(
        pod(
            "nvidia-device-plugin-daemonset-gf4qg",
            "kube-system",
            PLUGIN,
            stands("RunContainerError"),
            "hinton",
            ("DaemonSet", "nvidia-device-plugin-daemonset"),
            runtimeClassName="nvidia",
        )
    )
    c.event(
        p,
        "Failed",
        "Error: failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: error running hook #0: error running hook: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: initialization error: nvml error: driver not loaded: unknown",
        "kubelet",
    )
    return c, Wanted("driver-not-installed", "Pod kube-system/nvidia-device-plugin-daemonset-gf4qg", None)


# runtime-handler-not-configured


@defect
def the_toolkit_cannot_reach_the_socket_of_rke2() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/gpu-operator/issues/522"""
    c = Cluster("", node("rke2-gpu", {}, PCI))
    box = container("nvidia-container-toolkit-ctr", "nvcr.io/nvidia/k8s/container-toolkit:v1.13.0-ubuntu20.04")
    c.add(
        pod(
            "nvidia-container-toolkit-daemonset-7h7h7",
            "gpu-operator",
            box,
            crashes(),
            "rke2-gpu",
            ("DaemonSet", "nvidia-container-toolkit-daemonset"),
        )
    )
    c.add(
        _init_runs(
            "nvidia-device-plugin-daemonset-8j8j8", PLUGIN, "toolkit-validation", "rke2-gpu", "nvidia-device-plugin-daemonset"
        )
    )
    c.attachments["logs/nvidia-container-toolkit-ctr.log"] = (
        'time="2023-05-04T04:43:08Z" level=warning msg="Error signaling containerd, attempt 5/6: unable to dial: dial unix /runtime/sock-dir/containerd.sock: connect: no such file or directory"\n'
        'time="2023-05-04T04:43:13Z" level=fatal msg="Error: unable to restart containerd: unable to signal containerd: unable to dial: dial unix /runtime/sock-dir/containerd.sock: connect: no such file or directory"\n'
        'time="2023-05-04T04:43:13Z" level=error msg="error running nvidia-toolkit: unable to setup runtime: error running containerd command: exit status 1"\n'
    )
    return c, Wanted("runtime-handler-not-configured", "Node rke2-gpu", None)


@defect
def kind_without_node_and_class_in_the_data() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/k8s-device-plugin/issues/479"""
    c = Cluster("")
    p = c.add(creating("gpu-feature-discovery-6tk4h", "kind-worker", "gpu-feature-discovery"))
    c.event(
        p,
        "FailedCreatePodSandBox",
        'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "nvidia" is configured',
        "kubelet",
    )
    return c, Wanted("runtime-handler-not-configured", "Pod gpu-operator/gpu-feature-discovery-6tk4h", None)


@defect
def the_socket_was_away_and_then_the_handler() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/gpu-operator/issues/549"""
    c = Cluster("", node("ip-172-20-45-35", {}, PCI), node("ip-172-20-45-36", {}), runtime_class())
    p = c.add(
        creating(
            "nvidia-dcgm-exporter-bpvks",
            "ip-172-20-45-35",
            "nvidia-dcgm-exporter",
            container("nvidia-dcgm-exporter", "x/dcgm-exporter:3"),
        )
    )
    c.event(
        p,
        "FailedCreatePodSandBox",
        'Failed to create pod sandbox: rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing dial unix /run/containerd/containerd.sock: connect: connection refused"',
        "kubelet",
    )
    c.event(
        p,
        "FailedCreatePodSandBox",
        'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "nvidia" is configured',
        "kubelet",
    )
    return c, Wanted("runtime-handler-not-configured", "Node ip-172-20-45-35", ("gpu-operator/nvidia-dcgm-exporter-bpvks",))


# driver-cuda-mismatch, driver-library-mismatch


@defect
def triton_kernels_newer_than_the_driver() -> tuple[Cluster, Wanted]:
    """https://github.com/predibase/lorax/issues/237 and vLLM reports: Triton's words."""
    c = Cluster("", node("n1", {GPU: 4}))
    c.add(
        pod(
            "lorax-0",
            "rag",
            container("lorax", "ghcr.io/predibase/lorax:0.9", {GPU: 1}),
            crashes(),
            "n1",
            ("StatefulSet", "lorax"),
        )
    )
    c.attachments["logs/lorax-0.log"] = (
        '  File "triton/compiler/compiler.py", line 615, in _init_handles\nRuntimeError: Triton Error [CUDA]: PTX was compiled with an unsupported toolchain\n'
    )
    return c, Wanted("driver-cuda-mismatch", "StatefulSet rag/lorax", ("rag/lorax-0",))


@defect
def a_nim_is_refused_among_pods_that_run() -> tuple[Cluster, Wanted]:
    """https://github.com/vllm-project/vllm/issues/5635, the same refusal in a cluster with two nodes."""
    c = Cluster(
        "",
        node("a1", {GPU: 2}, {"nvidia.com/cuda.driver-version.full": "530.30.02"}),
        node("a2", {GPU: 2}, {"nvidia.com/cuda.driver-version.full": "570.124.06"}),
    )
    text = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: error running hook #0: error running hook: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4, please update your driver to a newer version, or use an earlier cuda container: unknown"
    c.add(
        pod(
            "llm-6d-aaaaa",
            "rag",
            _engine("vllm/vllm-openai:v0.5.0"),
            crashes(text, code=128, reason="StartError"),
            "a1",
            ("ReplicaSet", "llm-6d"),
        )
    )
    c.add(pod("llm-6d-bbbbb", "rag", _engine("vllm/vllm-openai:v0.5.0"), runs(), "a2", ("ReplicaSet", "llm-6d")))
    return c, Wanted("driver-cuda-mismatch", "ReplicaSet rag/llm-6d", ("rag/llm-6d-aaaaa",), mentions=("530.30.02", "12.4"))


@defect
def tensorflow_compares_the_versions() -> tuple[Cluster, Wanted]:
    """TensorFlow, cuda_diagnostics: public reports on GKE and Kubeflow."""
    c = Cluster("", node("n2", {GPU: 1}))
    c.add(
        pod(
            "train-x1x1x",
            "ml",
            container("tf", "tensorflow/tensorflow:2.15.0-gpu", {GPU: 1}),
            crashes(),
            "n2",
            ("Job", "train"),
        )
    )
    c.attachments["logs/train-x1x1x.log"] = (
        "E tensorflow/compiler/xla/stream_executor/cuda/cuda_diagnostics.cc:312] kernel version 450.51.6 does not match DSO version 460.32.3 -- cannot find working devices in this configuration\n"
    )
    return c, Wanted("driver-library-mismatch", "Node n2", ("ml/train-x1x1x",))


# gpu-arch-unsupported


@defect
def compressed_tensors_on_volta() -> tuple[Cluster, Wanted]:
    """https://github.com/1CatAI/1Cat-vLLM/issues/13"""
    c = Cluster("", node("volta-1", {GPU: 2}, {"nvidia.com/gpu.product": "Tesla-V100-PCIE-32GB"}))
    c.add(pod("qwen-0", "rag", _engine(gpus=2), crashes(), "volta-1", ("StatefulSet", "qwen")))
    c.attachments["logs/qwen-0.log"] = (
        "RuntimeError: ('Quantization scheme is not supported for ', 'the current GPU. Min capability: 75. ', 'Current capability: 70.')\n"
    )
    return c, Wanted("gpu-arch-unsupported", "StatefulSet rag/qwen", ("rag/qwen-0",))


@defect
def no_attention_for_this_card() -> tuple[Cluster, Wanted]:
    """https://github.com/vllm-project/vllm/issues/43172"""
    c = Cluster("", node("l40-1", {GPU: 8}))
    c.add(pod("glm-0", "rag", _engine(gpus=8), crashes(), "l40-1", ("StatefulSet", "glm")))
    c.attachments["logs/glm-0.log"] = (
        "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=576). Reasons: {FLASH_ATTN_MLA: [compute capability not supported], FLASHMLA: [compute capability not supported, vllm._flashmla_C is not available]}.\n"
    )
    return c, Wanted("gpu-arch-unsupported", "StatefulSet rag/glm", ("rag/glm-0",))


@defect
def xformers_wants_ampere() -> tuple[Cluster, Wanted]:
    """https://github.com/vllm-project/vllm/issues/10662"""
    c = Cluster("", node("volta-2", {GPU: 2}))
    c.add(pod("llm-0", "rag", _engine(), crashes(), "volta-2", ("StatefulSet", "llm")))
    c.attachments["logs/llm-0.log"] = (
        "NotImplementedError: No operator found for `memory_efficient_attention_forward` with inputs:\n     query       : shape=(1, 2, 32, 128) (torch.float16)\n"
        "`fa2F@v2.5.7-pt` is not supported because:\n    requires device with capability > (8, 0) but your GPU has capability (7, 0) (too old)\n"
    )
    return c, Wanted("gpu-arch-unsupported", "StatefulSet rag/llm", ("rag/llm-0",))


@defect
def scaled_mm_wants_ada() -> tuple[Cluster, Wanted]:
    """PyTorch torch._scaled_mm on an A100: fp8 weights."""
    c = Cluster("", node("a100", {GPU: 2}))
    c.add(
        pod("sgl-0", "rag", container("sglang", "lmsysorg/sglang:v0.4.0", {GPU: 1}), crashes(), "a100", ("StatefulSet", "sgl"))
    )
    c.attachments["logs/sgl-0.log"] = (
        "RuntimeError: torch._scaled_mm is only supported on CUDA devices with compute capability >= 9.0 or 8.9, or ROCm MI300+\n"
    )
    return c, Wanted("gpu-arch-unsupported", "StatefulSet rag/sgl", ("rag/sgl-0",))


@defect
def cudnn_names_the_architecture() -> tuple[Cluster, Wanted]:
    """cuDNN and cuBLAS status names."""
    c = Cluster("", node("k80", {GPU: 2}))
    c.add(
        pod("ocr-0", "rag", container("ocr", "registry.example/paddle:2.6", {GPU: 1}), crashes(), "k80", ("StatefulSet", "ocr"))
    )
    c.attachments["logs/ocr-0.log"] = (
        "ExternalError: CUDNN error(8), CUDNN_STATUS_ARCH_MISMATCH. (at /paddle/paddle/phi/backends/gpu/gpu_resources.cc:281)\n"
    )
    return c, Wanted("gpu-arch-unsupported", "StatefulSet rag/ocr", ("rag/ocr-0",))


# gpu-unhealthy


@defect
def a_fault_followed_by_its_clean_up() -> tuple[Cluster, Wanted]:
    """https://github.com/akash-network/support/issues/244: Xids of applications stand after that of the card."""
    c = Cluster("", node("node4", {GPU: 8}, PCI))
    c.add(pod("llm-0", "rag", _engine(), crashes(), "node4", ("StatefulSet", "llm")))
    c.attachments["logs/node4-dmesg.txt"] = (
        "[Wed Jul 31 23:14:18 2024] NVRM: Xid (PCI:0000:00:05): 43, pid=1045242, name=pt_main_thread, Ch 00000008\n"
        "[Fri Aug  9 13:32:56 2024] NVRM: Xid (PCI:0000:00:08): 95, pid='<unknown>', name=<unknown>, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No\n"
        "[Fri Aug  9 13:32:57 2024] NVRM: Xid (PCI:0000:00:08): 45, pid=2512125, name=python3.10, Ch 00000008\n"
        "[Fri Aug  9 13:32:57 2024] NVRM: Xid (PCI:0000:00:08): 45, pid=2512125, name=python3.10, Ch 00000009\n"
    )
    return c, Wanted("gpu-unhealthy", "Node node4", None)


@defect
def a_switch_reports_a_fatal_error() -> tuple[Cluster, Wanted]:
    """NVSwitch SXid in the kernel log; NVIDIA Fabric Manager user guide, appendix on SXids."""
    c = Cluster("", node("hgx-5", {GPU: 8}, PCI))
    c.add(pod("train-0", "ml", _engine(gpus=8), crashes(), "hgx-5", ("StatefulSet", "train")))
    c.attachments["logs/hgx-5/messages.txt"] = (
        "Jun 10 10:00:00 hgx-5 kernel: nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n"
    )
    return c, Wanted("gpu-unhealthy", "Node hgx-5", None)


@defect
def an_adapter_does_not_initialise() -> tuple[Cluster, Wanted]:
    """https://github.com/microsoft/pai/issues/4344"""
    c = Cluster("", node("pai-w3", {GPU: 3}, PCI | {"nvidia.com/gpu.count": "3"}), node("pai-w4", {GPU: 4}, PCI))
    c.attachments["logs/pai-w3-nvidia-bug-report.txt"] = (
        "[   38.773115] NVRM: RmInitAdapter failed! (0x26:0xffff:1127)\n[   38.773764] NVRM: rm_init_adapter failed for device bearing minor number 0\n"
    )
    return c, Wanted("gpu-unhealthy", "Node pai-w3", None)


# kubelet-device-state-stale


@defect
def the_kubelet_counts_pods_that_are_gone() -> tuple[Cluster, Wanted]:
    """kubernetes issue 106884: OutOf… for devices that no pod of the node holds."""
    c = Cluster("", node("g20", {GPU: 8}))
    c.add(pod("keep-0", "ml", _engine(gpus=2), runs(), "g20", ("StatefulSet", "keep")))
    text = "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 2, used: 8, capacity: 8"
    c.add(pod("run-7-aaaaa", "ml", _engine(gpus=2), refused("OutOfnvidia.com/gpu", text), "g20", ("Job", "run-7")))
    return c, Wanted("kubelet-device-state-stale", "Node g20", None)


@defect
def a_finished_pod_is_admitted_again() -> tuple[Cluster, Wanted]:
    """https://github.com/kubernetes/kubernetes/issues/117955: after a restart of the kubelet, while others hold all devices."""
    c = Cluster("", node("g21", {GPU: 1}))
    c.add(pod("deploy-6d-aaaaa", "ml", _engine(), runs(), "g21", ("ReplicaSet", "deploy-6d")))
    status = refused(
        "UnexpectedAdmissionError",
        "Pod Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected",
    )
    status["containerStatuses"] = [
        {"ready": False, "restartCount": 0, "state": {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": WHEN}}}
    ]
    c.add(pod("job-9s7jw", "ml", _engine(), status, "g21", ("Job", "job")))
    return c, Wanted("kubelet-device-state-stale", "Node g21", None)


# cgroup-device-lost


@defect
def a_loop_lists_the_card_and_then_does_not() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/nvidia-docker/issues/1730 and akash-network/support issue 266; no node in the data."""
    c = Cluster("")
    c.add(
        pod(
            "cuda-nvidia-smi-loop",
            "default",
            container("cuda", "nvcr.io/nvidia/cuda:12.0.0-base-ubuntu20.04", {GPU: 1}),
            runs(),
            "n3",
        )
    )
    line = "GPU 0: NVIDIA A100-PCIE-40GB (UUID: GPU-00000000-0000-0000-0000-000000000001)\n"
    c.attachments["logs/cuda-nvidia-smi-loop.log"] = (
        line + line + "Failed to initialize NVML: Unknown Error\nFailed to initialize NVML: Unknown Error\n"
    )
    return c, Wanted("cgroup-device-lost", "Pod default/cuda-nvidia-smi-loop", ("default/cuda-nvidia-smi-loop",))


@defect
def strace_shows_that_the_device_is_forbidden() -> tuple[Cluster, Wanted]:
    """mattshma/bigdata issue 150, kubernetes issue 77073: the static CPU manager updates the container's cgroup."""
    c = Cluster("", node("n4", {GPU: 1}))
    c.add(pod("gputest", "default", container("app", "nvidia/cuda:10.0-runtime", {GPU: 1, "cpu": "1"}), runs(), "n4"))
    c.attachments["logs/gputest-strace.txt"] = (
        'open("/dev/nvidiactl", O_RDWR)          = -1 EPERM (Operation not permitted)\nopen("/dev/nvidiactl", O_RDONLY)        = -1 EPERM (Operation not permitted)\n'
    )
    return c, Wanted("cgroup-device-lost", "Pod default/gputest", ("default/gputest",))


@defect
def the_list_of_devices_has_lost_its_rights() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/nvidia-docker/issues/1618, nvidia-container-toolkit issue 251"""
    c = Cluster("", node("n5", {GPU: 4}))
    c.add(pod("nb-0", "lab", container("nb", "registry.example/nb:1", {GPU: 1}), runs(), "n5", ("StatefulSet", "nb")))
    c.attachments["logs/nb-0.txt"] = "$ cat /sys/fs/cgroup/devices/devices.list\nc 1:3 rwm\nc 136:* rwm\nc 195:* m\nc 507:* m\n"
    return c, Wanted("cgroup-device-lost", "StatefulSet lab/nb", ("lab/nb-0",))


# fabric-manager-down


@defect
def the_service_does_not_start() -> tuple[Cluster, Wanted]:
    """NVIDIA/gpu-operator issue 1043, akash provider FAQ: versions that do not fit."""
    c = Cluster("", node("hgx-6", {GPU: 8}, PCI))
    c.add(pod("llm-0", "rag", _engine(gpus=8), crashes(), "hgx-6", ("StatefulSet", "llm")))
    c.attachments["logs/hgx-6-syslog.txt"] = (
        "Nov 05 13:55:26 hgx-6 systemd[1]: Starting NVIDIA fabric manager service...\n"
        "Nov 05 13:55:26 hgx-6 nv-fabricmanager[104230]: fabric manager NVIDIA GPU driver interface version 550.127.05 doesn't match with driver version 550.120. Please update with the matching NVIDIA driver package.\n"
        "Nov 05 13:55:26 hgx-6 systemd[1]: Failed to start NVIDIA fabric manager service.\n"
    )
    return c, Wanted("fabric-manager-down", "Node hgx-6", None)


@defect
def systemd_alone_says_that_it_failed() -> tuple[Cluster, Wanted]:
    """The same with systemd's line alone."""
    c = Cluster("", node("hgx-7", {GPU: 8}, PCI))
    c.attachments["logs/hgx-7-syslog.txt"] = (
        "Nov 05 13:55:26 hgx-7 systemd[1]: Failed to start NVIDIA fabric manager service.\n"
    )
    return c, Wanted("fabric-manager-down", "Node hgx-7", None)


# gpu-isolation-bypassed


@defect
def all_device_nodes_are_in_the_container() -> tuple[Cluster, Wanted]:
    """ROCm/k8s-device-plugin issue 137 tells it of /dev/dri; NVIDIA/k8s-device-plugin issue 336 of a privileged pod."""
    c = Cluster("", node("n6", {GPU: 4}))
    box = container("main", "ubuntu:22.04", {GPU: 1}, securityContext={"privileged": True})
    c.add(pod("mini-pod", "default", box, runs(), "n6"))
    c.attachments["logs/mini-pod.txt"] = "$ ls /dev | grep nvidia\nnvidia-uvm\nnvidia0\nnvidia1\nnvidia2\nnvidia3\nnvidiactl\n"
    return c, Wanted("gpu-isolation-bypassed", "Pod default/mini-pod", None)
