"""Small reports about drivers, CUDA and architectures, after public ones (the source of each is in its docstring)."""

from __future__ import annotations

from broken import Wanted, defect
from broken.cluster import Cluster, Raw
from broken.small import GPU, PLUGIN, container, crashes, node, pod, runs, stands, waits

PCI = {"feature.node.kubernetes.io/pci-10de.present": "true"}
T4 = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "Tesla-T4"}
DRIVER = container("nvidia-driver-ctr", "nvcr.io/nvidia/driver:570.148.08-cos121")
VALIDATOR = container("nvidia-operator-validator", "nvcr.io/nvidia/cloud-native/gpu-operator-validator:v24.9.2")


def _engine(image: str = "vllm/vllm-openai:v0.10.1", name: str = "vllm", gpus: int = 1) -> Raw:
    return container(name, image, {GPU: gpus})


def init_fails(name: str, box: Raw, init: str, on: str, owner: str, message: str = "") -> Raw:
    """A pod of the operator whose init container ends again and again."""
    made = pod(name, "gpu-operator", box, stands("PodInitializing"), on, ("DaemonSet", owner))
    made["spec"]["initContainers"] = [{"name": init, "image": "nvcr.io/nvidia/cloud-native/gpu-operator-validator:v24.9.2"}]
    ended = {"exitCode": 1, "reason": "Error"} | ({"message": message} if message else {})
    made["status"]["initContainerStatuses"] = [
        {
            "name": init,
            "ready": False,
            "restartCount": 8,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": ended},
        }
    ]
    return made


# driver-not-installed


@defect
def no_driver_image_for_this_os() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/gpu-operator/issues/1623"""
    labels = PCI | {"cloud.google.com/gke-accelerator": "nvidia-l4", "nvidia.com/gpu.deploy.driver": "true"}
    c = Cluster("", node("gke-l4-1", {}, labels))
    p = c.add(
        pod(
            "nvidia-driver-daemonset-7wx2p",
            "nvidia",
            DRIVER,
            stands("ImagePullBackOff"),
            "gke-l4-1",
            ("DaemonSet", "nvidia-driver-daemonset"),
        )
    )
    c.event(
        p,
        "Failed",
        'Failed to pull image "nvcr.io/nvidia/driver:570.148.08-cos121": rpc error: code = NotFound desc = failed to pull and unpack image '
        '"nvcr.io/nvidia/driver:570.148.08-cos121": failed to resolve reference "nvcr.io/nvidia/driver:570.148.08-cos121": '
        "nvcr.io/nvidia/driver:570.148.08-cos121: not found",
        "kubelet",
    )
    return c, Wanted("driver-not-installed", "Node gke-l4-1", None)


@defect
def the_module_does_not_compile() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/gpu-operator/issues/252"""
    c = Cluster("", node("centos-1", {}, PCI), node("cpu-1", {}))
    box = container("nvidia-driver-ctr", "nvcr.io/nvidia/driver:470.57.02-centos7")
    c.add(
        pod(
            "nvidia-driver-daemonset-bq4zp",
            "gpu-operator-resources",
            box,
            crashes(),
            "centos-1",
            ("DaemonSet", "nvidia-driver-daemonset"),
        )
    )
    c.add(
        init_fails(
            "nvidia-device-plugin-daemonset-ab2cd", PLUGIN, "toolkit-validation", "centos-1", "nvidia-device-plugin-daemonset"
        )
    )
    c.attachments["logs/nvidia-driver-daemonset.log"] = (
        "Proceeding with Linux kernel version 3.10.0-1160.36.2.el7.x86_64\nInstalling Linux kernel headers...\n"
        "Compiling NVIDIA driver kernel modules...\nmake[1]: *** [_module_/usr/src/nvidia-470.57.02/kernel] Error 2\n"
        "make: *** [modules] Error 2\nStopping NVIDIA persistence daemon...\n"
    )
    return c, Wanted("driver-not-installed", "Node centos-1", None)


@defect
def the_card_is_not_for_this_driver_branch() -> tuple[Cluster, Wanted]:
    """https://github.com/siderolabs/extensions/issues/227"""
    c = Cluster("", node("talos-gpu", {}, PCI | {"extensions.talos.dev/nonfree-kmod-nvidia": "535.54.03-v1.5.1"}))
    c.attachments["logs/talos-gpu-dmesg.txt"] = (
        "kern:    info: [2023-09-14T03:08:37.389695757Z]: nvidia-nvlink: Nvlink Core is being initialized, major device number 239\n"
        "kern: warning: [2023-09-14T03:08:37.411164757Z]: NVRM: The NVIDIA GPU 0000:00:10.0 (PCI ID: 10de:1b38)\\x0aNVRM: installed in this system is not supported by the\\x0aNVRM: NVIDIA 535.54.03 driver release.\n"
        "kern: warning: [2023-09-14T03:08:37.433482757Z]: nvidia: probe of 0000:00:10.0 failed with error -1\n"
        "kern: warning: [2023-09-14T03:08:37.434129757Z]: NVRM: The NVIDIA probe routine failed for 1 device(s).\n"
    )
    c.add(pod("llm-0", "rag", _engine(), waits(), "", ("StatefulSet", "llm")))
    return c, Wanted("driver-not-installed", "Node talos-gpu", ("rag/llm-0",))


@defect
def the_validator_finds_no_driver_on_the_host() -> tuple[Cluster, Wanted]:
    """NVIDIA/gpu-operator issues 173 and 1052: driver.enabled=false and nothing on the host."""
    c = Cluster("", node("bm-7", {}, PCI | {"nvidia.com/gpu.deploy.driver": "false"}))
    c.add(init_fails("nvidia-operator-validator-x2x2x", VALIDATOR, "driver-validation", "bm-7", "nvidia-operator-validator"))
    c.attachments["logs/driver-validation.txt"] = (
        'time="2024-10-18T09:11:40Z" level=info msg="version: 0fe1e8db-amd64, commit: 0fe1e8d"\n'
        'time="2024-10-18T09:11:40Z" level=info msg="Attempting to validate a pre-installed driver on the host"\n'
        'time="2024-10-18T09:11:40Z" level=info msg="Attempting to validate a driver container installation"\n'
        "running command chroot with args [/run/nvidia/driver nvidia-smi]\n"
        "chroot: failed to run command 'nvidia-smi': No such file or directory\n"
        "command failed, retrying after 5 seconds\n"
    )
    return c, Wanted("driver-not-installed", "Node bm-7", None)


@defect
def a_new_kernel_without_its_module() -> tuple[Cluster, Wanted]:
    """Ubuntu hosts after a kernel upgrade: dkms did not build; awslabs/amazon-eks-ami and NVIDIA/gpu-operator reports."""
    c = Cluster("", node("ip-10-0-3-7", {}, {"node.kubernetes.io/instance-type": "g5.2xlarge"}))
    c.attachments["logs/ip-10-0-3-7/modprobe.txt"] = (
        "$ uname -r\n5.15.0-1057-aws\n$ modprobe nvidia\n"
        "modprobe: FATAL: Module nvidia not found in directory /lib/modules/5.15.0-1057-aws\n"
    )
    c.add(pod("embed-0", "rag", _engine("x/tei:89-1.5", "tei"), waits(), "", ("StatefulSet", "embed")))
    return c, Wanted("driver-not-installed", "Node ip-10-0-3-7", ("rag/embed-0",))


@defect
def wsl_shows_no_adapter() -> tuple[Cluster, Wanted]:
    """NVIDIA/nvidia-container-toolkit and k3s under WSL2."""
    c = Cluster("", node("desktop-wsl", {}, PCI))
    text = (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during "
        "container init: error running hook #0: error running hook: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\n"
        "nvidia-container-cli: initialization error: WSL environment detected but no adapters were found: unknown"
    )
    c.add(
        pod(
            "nvdp-q5q5q",
            "kube-system",
            PLUGIN,
            crashes(text, code=128, reason="StartError"),
            "desktop-wsl",
            ("DaemonSet", "nvdp"),
            runtimeClassName="nvidia",
        )
    )
    return c, Wanted("driver-not-installed", "Node desktop-wsl", None)


@defect
def gke_pool_without_installer_and_a_plugin_that_waits() -> tuple[Cluster, Wanted]:
    """GKE, gpu-driver-version=disabled; NVIDIA/aicr issue 2344. The driver is known to be absent."""
    labels = {
        "cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb",
        "cloud.google.com/gke-gpu-driver-version": "disabled",
        "nvidia.com/gpu.present": "true",
    }
    c = Cluster("", node("gke-mega-1", {}, labels), node("gke-cpu-1", {}))
    c.add(pod("nvdp-1a1a1", "gpu-operator", PLUGIN, runs(), "gke-mega-1", ("DaemonSet", "nvdp")))
    c.attachments["logs/nvdp-1a1a1.log"] = (
        "E0821 10:00:00.1 1 factory.go:113] Incompatible strategy detected auto\n"
        "I0821 10:00:00.1 1 main.go:346] No devices found. Waiting indefinitely.\n"
    )
    c.add(pod("llm-0", "rag", _engine(), waits(), "", ("StatefulSet", "llm")))
    return c, Wanted("driver-not-installed", "Node gke-mega-1", ("rag/llm-0",), ("device-plugin-nvml-missing",))


@defect
def the_old_driver_cannot_be_unloaded() -> tuple[Cluster, Wanted]:
    """NVIDIA/gpu-operator issue 751: k8s-driver-manager, the init container of the driver pod, fails."""
    c = Cluster("", node("mk8s", {}, PCI | {"nvidia.com/gpu.present": "true"}))
    made = init_fails("nvidia-driver-daemonset-m8m8m", DRIVER, "k8s-driver-manager", "mk8s", "nvidia-driver-daemonset")
    c.add(made)
    c.attachments["logs/k8s-driver-manager.txt"] = (
        "Getting current value of the 'nvidia.com/gpu.deploy.device-plugin' node label\n"
        "Current value of 'nvidia.com/gpu.deploy.device-plugin=true'\n"
        "Shutting down all GPU clients on the current node by disabling their component-specific nodeSelector labels\n"
        "Unloading NVIDIA driver kernel modules...\nnvidia_drm             77824  3\n"
        "Could not unload NVIDIA driver kernel modules, driver is in use\n"
        "Unable to cleanup driver modules, attempting again with node drain...\nFailed to uninstall nvidia driver components\n"
    )
    return c, Wanted("driver-not-installed", "Node mk8s", None)


# driver-cuda-mismatch


@defect
def torch_on_an_old_aks_driver() -> tuple[Cluster, Wanted]:
    """https://github.com/defilantech/LLMKube/issues/1424: only the pod and its log."""
    c = Cluster("")
    c.add(
        pod(
            "qwen-7c9d-x8x8x",
            "llm",
            _engine("vllm/vllm-openai:v0.23.0"),
            crashes(),
            "aks-gpu-000001",
            ("ReplicaSet", "qwen-7c9d"),
        )
    )
    c.attachments["logs/vllm.txt"] = (
        "(EngineCore pid=88) ERROR 08-06 12:00:11 [core.py:1202] EngineCore failed to start.\n"
        "(EngineCore pid=88) RuntimeError: The NVIDIA driver on your system is too old (found version 12040). Please update your GPU driver\n"
    )
    return c, Wanted("driver-cuda-mismatch", "ReplicaSet llm/qwen-7c9d", ("llm/qwen-7c9d-x8x8x",), mentions=("12.4",))


@defect
def forward_compatibility_on_a_consumer_card() -> tuple[Cluster, Wanted]:
    """https://github.com/vllm-project/vllm/issues/4940 and gpustack issue 1254"""
    c = Cluster("", node("rig-1", {GPU: 2}, {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090"}))
    c.add(pod("chat-0", "rag", _engine(gpus=2), crashes(), "rig-1", ("StatefulSet", "chat")))
    c.attachments["logs/chat-0_vllm.log"] = (
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have "
        "already set an error? Error 804: forward compatibility was attempted on non supported HW\n"
    )
    return c, Wanted("driver-cuda-mismatch", "StatefulSet rag/chat", ("rag/chat-0",))


@defect
def onnxruntime_says_failure_35() -> tuple[Cluster, Wanted]:
    """https://github.com/onnxruntime/mobius/issues/316"""
    c = Cluster("", node("w1", {GPU: 1}))
    c.add(
        pod(
            "rerank-5d-aaaaa",
            "rag",
            container("rerank", "registry.example/ort-rerank:2", {GPU: 1}),
            crashes(),
            "w1",
            ("ReplicaSet", "rerank-5d"),
        )
    )
    c.attachments["logs/rerank.log"] = (
        "*************** EP Error ***************\nEP Error /onnxruntime_src/onnxruntime/core/providers/cuda/cuda_call.cc:122 CUDA failure 35: CUDA driver "
        "version is insufficient for CUDA runtime version ; GPU=-1 ; hostname=rerank ; expr=cudaSetDevice(info_.device_id);\n"
    )
    return c, Wanted("driver-cuda-mismatch", "ReplicaSet rag/rerank-5d", ("rag/rerank-5d-aaaaa",))


@defect
def candle_meets_a_newer_ptx() -> tuple[Cluster, Wanted]:
    """https://github.com/kyutai-labs/moshi/issues/303, the same words in text-embeddings-inference"""
    c = Cluster("", node("w2", {GPU: 1}))
    c.add(
        pod(
            "tei-0",
            "rag",
            container("tei", "ghcr.io/huggingface/text-embeddings-inference:89-1.8", {GPU: 1}),
            crashes(),
            "w2",
            ("StatefulSet", "tei"),
        )
    )
    c.attachments["logs/tei-0.log"] = (
        'Error: DriverError(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain.")\n'
    )
    return c, Wanted("driver-cuda-mismatch", "StatefulSet rag/tei", ("rag/tei-0",))


@defect
def the_code_of_ptx_alone() -> tuple[Cluster, Wanted]:
    """The CUDA name without its words, as candle and cudarc print it on one line with a module's name."""
    c = Cluster("", node("w2", {GPU: 1}))
    c.add(
        pod(
            "emb-0",
            "rag",
            container("server", "registry.example/mistralrs:0.6", {GPU: 1}),
            crashes(),
            "w2",
            ("StatefulSet", "emb"),
        )
    )
    c.attachments["logs/emb-0.log"] = "Error: DriverError(CUDA_ERROR_UNSUPPORTED_PTX_VERSION) when loading utanh_bf16\n"
    return c, Wanted("driver-cuda-mismatch", "StatefulSet rag/emb", ("rag/emb-0",))


@defect
def the_entrypoint_wants_a_newer_release() -> tuple[Cluster, Wanted]:
    """NGC images (Triton, NIM, TensorRT-LLM); public logs of fauxpilot and others."""
    labels = {"nvidia.com/cuda.driver-version.full": "535.129.03"}
    c = Cluster("", node("w3", {GPU: 1}, labels))
    c.add(
        pod(
            "triton-0",
            "rag",
            container("triton", "nvcr.io/nvidia/tritonserver:25.06-trtllm-python-py3", {GPU: 1}),
            crashes(),
            "w3",
            ("StatefulSet", "triton"),
        )
    )
    c.attachments["logs/triton.log"] = (
        "ERROR: This container was built for NVIDIA Driver Release 575.57 or later, but\n"
        "       version 535.129.03 was detected and compatibility mode is UNAVAILABLE.\n\n       [[System has unsupported display driver / cuda driver combination (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH) cuInit()=803]]\n"
    )
    return c, Wanted("driver-cuda-mismatch", "StatefulSet rag/triton", ("rag/triton-0",), ("driver-library-mismatch",))


@defect
def the_openshift_validator_runs_a_newer_sample() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/gpu-operator/issues/167"""
    c = Cluster("", node("ocp-w1", {}, PCI | {"nvidia.com/gpu.present": "true"}))
    c.add(
        init_fails(
            "nvidia-device-plugin-daemonset-pfrlf", PLUGIN, "toolkit-validation", "ocp-w1", "nvidia-device-plugin-daemonset"
        )
    )
    c.attachments["logs/toolkit-validation.txt"] = (
        "[Vector addition of 50000 elements]\nFailed to allocate device vector A (error code CUDA driver version is insufficient for CUDA runtime version)!\n"
    )
    return c, Wanted("driver-cuda-mismatch", "Pod gpu-operator/nvidia-device-plugin-daemonset-pfrlf", None)


@defect
def crio_prints_the_requirement() -> tuple[Cluster, Wanted]:
    """CRI-O with runc, docker's older words: a space on both sides of the sign."""
    c = Cluster("", node("ocp-w2", {GPU: 1}, {"nvidia.com/cuda.driver.major": "510"}))
    p = c.add(pod("ns-1", "rag", _engine("pytorch/pytorch:2.1.0-cuda12.1"), stands("CreateContainerError"), "ocp-w2"))
    c.event(
        p,
        "Failed",
        'Error: container create failed: time="2023-12-01T10:00:00Z" level=error msg="runc create failed: unable to start container process: error during container init: error running hook #0: '
        'error running hook: exit status 1, stdout: , stderr: nvidia-container-cli.real: requirement error: unsatisfied condition: cuda >= 12.1, please update your driver to a newer version, or use an earlier cuda container\\n"',
        "kubelet",
    )
    return c, Wanted("driver-cuda-mismatch", "Pod rag/ns-1", ("rag/ns-1",))


@defect
def a_requirement_on_the_driver_itself() -> tuple[Cluster, Wanted]:
    """libnvidia-container, images that require a driver: NVIDIA_REQUIRE_DRIVER; NVIDIA/nvidia-docker reports."""
    c = Cluster("", node("w4", {GPU: 1}))
    p = c.add(
        pod(
            "hpc-0",
            "rag",
            container("app", "nvcr.io/hpc/app:1", {GPU: 1}),
            stands("RunContainerError"),
            "w4",
            ("StatefulSet", "hpc"),
        )
    )
    c.event(
        p,
        "Failed",
        'Error: failed to start container "app": Error response from daemon: OCI runtime create failed: container_linux.go:380: starting container process caused: process_linux.go:545: container init caused: '
        "Running hook #0:: error running hook: exit status 1, stdout: , stderr: nvidia-container-cli: requirement error: unsatisfied condition: driver >= 450: unknown",
        "kubelet",
    )
    return c, Wanted("driver-cuda-mismatch", "StatefulSet rag/hpc", ("rag/hpc-0",))


@defect
def ollama_on_a_driver_of_another_age() -> tuple[Cluster, Wanted]:
    """https://github.com/ollama/ollama/issues/7666: it runs on, without its GPU."""
    c = Cluster("", node("w5", {GPU: 1}))
    c.add(
        pod(
            "ollama-0", "chat", container("ollama", "ollama/ollama:0.4.0", {GPU: 1}), crashes(), "w5", ("StatefulSet", "ollama")
        )
    )
    c.attachments["logs/ollama-0.txt"] = (
        "ggml_cuda_init: failed to initialize CUDA: CUDA driver version is insufficient for CUDA runtime version\nllm_load_tensors: offloading 0 repeating layers to GPU\n"
    )
    return c, Wanted("driver-cuda-mismatch", "StatefulSet chat/ollama", ("chat/ollama-0",))


@defect
def the_kernel_image_is_invalid_for_an_old_driver() -> tuple[Cluster, Wanted]:
    """https://github.com/canonical/inference-snaps/issues/255, predibase/lorax issue 237: the driver was too old."""
    c = Cluster(
        "",
        node(
            "w6",
            {GPU: 1},
            {
                "nvidia.com/cuda.driver.major": "535",
                "nvidia.com/cuda.runtime.major": "12",
                "nvidia.com/cuda.runtime.minor": "2",
            },
        ),
    )
    c.add(
        pod(
            "llama-0",
            "chat",
            container("llama", "ghcr.io/ggml-org/llama.cpp:server-cuda", {GPU: 1}),
            crashes(),
            "w6",
            ("StatefulSet", "llama"),
        )
    )
    c.attachments["logs/llama-0.txt"] = (
        "ggml_cuda_init: found 1 CUDA devices (Total VRAM: 11172 MiB):\nggml_cuda_compute_forward: SCALE failed\nCUDA error: device kernel image is invalid\n"
        "  current device: 0, in function ggml_cuda_compute_forward at ggml-cuda.cu:2962\n"
    )
    return c, Wanted("driver-cuda-mismatch", "StatefulSet chat/llama", ("chat/llama-0",))


# driver-library-mismatch


@defect
def the_validator_after_an_upgrade_on_k3s() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/gpu-operator/issues/898"""
    c = Cluster("", node("k3s-1", {}, PCI | {"nvidia.com/gpu.present": "true"}))
    text = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown"
    c.add(
        init_fails(
            "nvidia-operator-validator-7k7k7", VALIDATOR, "toolkit-validation", "k3s-1", "nvidia-operator-validator", text
        )
    )
    return c, Wanted("driver-library-mismatch", "Node k3s-1", None)


@defect
def the_plugin_cannot_be_started_at_boot() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/k8s-device-plugin/issues/1431"""
    c = Cluster("", node("al2023-1", {}, {"node.kubernetes.io/instance-type": "g6.xlarge"}))
    p = c.add(pod("nvdp-c3c3c", "kube-system", PLUGIN, stands("RunContainerError"), "al2023-1", ("DaemonSet", "nvdp")))
    c.event(
        p,
        "Failed",
        "Error: failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: error running prestart hook #0: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown",
        "kubelet",
    )
    c.add(pod("llm-0", "rag", _engine(), waits(), "", ("StatefulSet", "llm")))
    return c, Wanted("driver-library-mismatch", "Node al2023-1", None)


@defect
def vllm_with_error_803() -> tuple[Cluster, Wanted]:
    """https://github.com/llm-d/llm-d/issues/706, gpustack issue 4678"""
    c = Cluster("", node("h1", {GPU: 8}))
    c.add(
        pod("ms-decode-0", "llm-d", _engine("ghcr.io/llm-d/llm-d-cuda:v0.5.0"), crashes(), "h1", ("StatefulSet", "ms-decode"))
    )
    c.attachments["logs/ms-decode-0-vllm.log"] = (
        "INFO 02-10 10:11:12 [__init__.py:239] No platform detected, vLLM is running on UnspecifiedPlatform\n"
        "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / cuda driver combination (Triggered internally at /pytorch/c10/cuda/CUDAFunctions.cpp:109.)\n"
        "RuntimeError: Failed to infer device type\n"
    )
    return c, Wanted("driver-library-mismatch", "Node h1", ("llm-d/ms-decode-0",), ("runtimeclass-missing",))


@defect
def the_name_of_803_alone() -> tuple[Cluster, Wanted]:
    """https://github.com/NVIDIA/gpu-operator/issues/1428"""
    c = Cluster("", node("h2", {GPU: 8}, {"nvidia.com/gpu.deploy.driver": "pre-installed"}))
    c.add(
        pod(
            "job-a-x1x1x",
            "ml",
            container("test", "registry.example/cuda-python:12.5.1", {GPU: 1}),
            crashes(),
            "h2",
            ("Job", "job-a"),
        )
    )
    c.attachments["logs/job-a-x1x1x.txt"] = "cuda.bindings.driver.cuInit failed: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH\n"
    return c, Wanted("driver-library-mismatch", "Node h2", ("ml/job-a-x1x1x",))


@defect
def nvml_names_the_mismatch_by_code() -> tuple[Cluster, Wanted]:
    """go-nvml's word where the library cannot give its own (ERROR_LIB_RM_VERSION_MISMATCH); plugin and exporter logs."""
    c = Cluster("", node("w7", {GPU: 2}, PCI, allocatable={GPU: 0}))
    c.add(pod("nvdp-d4d4d", "kube-system", PLUGIN, crashes(), "w7", ("DaemonSet", "nvdp")))
    c.attachments["logs/nvdp-d4d4d.log"] = (
        "E0930 07:10:01.0 1 main.go:131] error starting plugins: error creating plugin manager: nvml init failed: ERROR_LIB_RM_VERSION_MISMATCH\n"
    )
    return c, Wanted("driver-library-mismatch", "Node w7", None)


@defect
def python_meets_the_mismatch() -> tuple[Cluster, Wanted]:
    """vLLM and SGLang through pynvml."""
    c = Cluster("", node("w8", {GPU: 2}))
    c.add(pod("sgl-0", "rag", container("sglang", "lmsysorg/sglang:v0.5.1", {GPU: 1}), crashes(), "w8", ("StatefulSet", "sgl")))
    c.attachments["logs/sgl-0.log"] = (
        '  File "pynvml.py", line 2000, in _nvmlCheckReturn\n    raise NVMLError(ret)\npynvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version mismatch\n'
    )
    return c, Wanted("driver-library-mismatch", "Node w8", ("rag/sgl-0",))


# gpu-arch-unsupported


@defect
def tei_entrypoint_does_not_know_blackwell() -> tuple[Cluster, Wanted]:
    """https://github.com/huggingface/text-embeddings-inference/issues/652"""
    c = Cluster("", node("rtx-1", {GPU: 1}, {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-5090"}))
    c.add(
        pod(
            "tei-0",
            "rag",
            container("tei", "ghcr.io/huggingface/text-embeddings-inference:cuda-latest", {GPU: 1}),
            crashes("cuda compute cap 120 is not supported"),
            "rtx-1",
            ("StatefulSet", "tei"),
        )
    )
    return c, Wanted("gpu-arch-unsupported", "StatefulSet rag/tei", ("rag/tei-0",))


@defect
def llm_d_on_a_new_consumer_card() -> tuple[Cluster, Wanted]:
    """https://github.com/llm-d/llm-d-deployer/issues/282"""
    c = Cluster("")
    c.add(
        pod("decode-1-b2b2b", "llm-d", _engine("ghcr.io/llm-d/llm-d:0.0.8"), crashes(), "minikube", ("ReplicaSet", "decode-1"))
    )
    c.attachments["logs/decode.log"] = (
        "ERROR 05-21 20:51:38 [core.py:489] RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
    )
    return c, Wanted("gpu-arch-unsupported", "ReplicaSet llm-d/decode-1", ("llm-d/decode-1-b2b2b",))


@defect
def torch_says_the_card_is_too_old() -> tuple[Cluster, Wanted]:
    """PyTorch torch/cuda/__init__.py, old and new words."""
    c = Cluster("", node("p40-1", {GPU: 1}, {"nvidia.com/gpu.product": "Tesla-P40"}))
    c.add(
        pod(
            "emb-0",
            "rag",
            container("infinity", "michaelf34/infinity:0.0.77", {GPU: 1}),
            crashes(),
            "p40-1",
            ("StatefulSet", "emb"),
        )
    )
    c.attachments["logs/infinity.log"] = (
        "UserWarning: \n    Found GPU0 Tesla P40 which is of cuda capability 6.1.\n    PyTorch no longer supports this GPU because it is too old.\n"
        "    The minimum cuda capability supported by this library is 7.5.\n"
    )
    return c, Wanted("gpu-arch-unsupported", "StatefulSet rag/emb", ("rag/emb-0",))


@defect
def triton_compiler_wants_volta() -> tuple[Cluster, Wanted]:
    """torch inductor: public reports of P40 and P100 with vLLM."""
    c = Cluster("", node("p100-1", {GPU: 2}))
    c.add(pod("llm-0", "rag", _engine(), crashes(), "p100-1", ("StatefulSet", "llm")))
    c.attachments["logs/llm-0.log"] = (
        "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nRuntimeError: Found Tesla P100-PCIE-16GB which is too old to be supported by the triton GPU compiler, which is used as the backend. Triton only supports devices of CUDA Capability >= 7.0, but your device is of CUDA capability 6.0\n"
    )
    return c, Wanted("gpu-arch-unsupported", "StatefulSet rag/llm", ("rag/llm-0",))


@defect
def vllm_has_no_fp8_on_turing() -> tuple[Cluster, Wanted]:
    """vLLM, a quantization that the card does not know."""
    c = Cluster("", node("t4-1", {GPU: 1}, T4))
    c.add(pod("llm-0", "rag", _engine(), crashes(), "t4-1", ("StatefulSet", "llm")))
    c.attachments["logs/llm-0.log"] = (
        "ValueError: The quantization method modelopt is not supported for the current GPU. Minimum capability: 89. Current capability: 75.\n"
    )
    return c, Wanted("gpu-arch-unsupported", "StatefulSet rag/llm", ("rag/llm-0",))


@defect
def sglang_wants_sm75() -> tuple[Cluster, Wanted]:
    """sgl-project/sglang model_runner: V100."""
    c = Cluster("", node("v100-1", {GPU: 4}))
    c.add(
        pod(
            "sgl-0", "rag", container("sglang", "lmsysorg/sglang:v0.4.6", {GPU: 1}), crashes(), "v100-1", ("StatefulSet", "sgl")
        )
    )
    c.attachments["logs/sgl-0.log"] = (
        "[2025-04-01 10:00:00 TP0] Compute capability below sm80. Use float16 due to lack of bfloat16 support.\nRuntimeError: SGLang only supports sm75 and above.\n"
    )
    return c, Wanted("gpu-arch-unsupported", "StatefulSet rag/sgl", ("rag/sgl-0",))


@defect
def an_engine_built_for_another_card() -> tuple[Cluster, Wanted]:
    """TensorRT: the engine plan names another compute capability."""
    c = Cluster("", node("a10-1", {GPU: 1}, {"nvidia.com/gpu.product": "NVIDIA-A10"}))
    c.add(
        pod(
            "triton-0",
            "rag",
            container("triton", "nvcr.io/nvidia/tritonserver:23.10-py3", {GPU: 1}),
            crashes(),
            "a10-1",
            ("StatefulSet", "triton"),
        )
    )
    c.attachments["logs/triton-0.log"] = (
        "E1101 10:00:00.0 1 logging.cc:40] 6: The engine plan file is generated on an incompatible device, expecting compute 8.6 got compute 8.9, please rebuild.\n"
    )
    return c, Wanted("gpu-arch-unsupported", "StatefulSet rag/triton", ("rag/triton-0",))


@defect
def tensorrt_dropped_the_card() -> tuple[Cluster, Wanted]:
    """TensorRT 10 on Volta."""
    c = Cluster("", node("v100-2", {GPU: 1}))
    c.add(
        pod(
            "nim-0",
            "rag",
            container("nim", "nvcr.io/nim/nvidia/nv-embedqa-e5-v5:1.6", {GPU: 1}),
            crashes(),
            "v100-2",
            ("StatefulSet", "nim"),
        )
    )
    c.attachments["logs/nim-0.log"] = (
        "[TRT] [E] IBuilder::buildSerializedNetwork: Error Code 9: API Usage Error (Target GPU SM 70 is not supported by this TensorRT release.)\n"
    )
    return c, Wanted("gpu-arch-unsupported", "StatefulSet rag/nim", ("rag/nim-0",))


@defect
def ollama_passes_over_an_old_card() -> tuple[Cluster, Wanted]:
    """ollama discover/gpu.go: it runs on the CPU, ready."""
    c = Cluster("", node("k80-1", {GPU: 2}, {"nvidia.com/gpu.product": "Tesla-K80"}))
    c.add(
        pod(
            "ollama-0", "chat", container("ollama", "ollama/ollama:0.5.7", {GPU: 1}), runs(), "k80-1", ("StatefulSet", "ollama")
        )
    )
    c.attachments["logs/ollama-0.log"] = (
        'time=2025-01-20T10:00:00Z level=INFO source=gpu.go:319 msg="[0] CUDA GPU is too old. Compute Capability detected: 3.7"\n'
        'time=2025-01-20T10:00:00Z level=INFO source=gpu.go:392 msg="no compatible GPUs were discovered"\n'
    )
    return c, Wanted("gpu-arch-unsupported", "StatefulSet chat/ollama", ("chat/ollama-0",), ("runtimeclass-missing",))
