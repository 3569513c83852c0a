"""Small reports about what a manifest asks for and about GPU memory, after public ones: one pod of an engine, one text it printed.

`TOLD` are those that differ in the text only; what needs more is a function below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from broken import Wanted, defect
from broken.cluster import Cluster, Raw
from broken.small import GPU, conditions, container, crashes, node, pod, runs, waits, workload
from makers import thing

ONE = {GPU: 1}
NAMES = {
    "gpu-limit-missing": "glm",
    "gpu-memory-insufficient": "min",
    "runtimeclass-missing": "rcm",
    "service-env-collision": "sec",
    "shm-too-small": "shm",
    "tensor-parallel-mismatch": "tpm",
}


@dataclass(frozen=True)
class Told:
    """A report: where it was made, its cause, the image, what the log says, and how the container was started."""

    source: str
    cause: str
    image: str
    log: str
    limits: Mapping[str, str | int] | None = field(default_factory=lambda: ONE)
    args: Sequence[str] = ()
    env: Mapping[str, str] | None = None
    ready: bool = False
    service: tuple[str, str] | None = None
    labels: Mapping[str, str] | None = None
    also: tuple[str, ...] = ()


TOLD = (
    # gpu-limit-missing
    Told(
        "SeldonIO/seldon-core/issues/4887",
        "gpu-limit-missing",
        "nvcr.io/nvidia/tritonserver:23.02-py3",
        "WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be available.\nW0605 06:26:38.147148 1 pinned_memory_manager.cc:236] "
        "Unable to allocate pinned system memory: CUDA driver version is insufficient for CUDA runtime version\n",
        {"cpu": 2},
    ),
    Told(
        "xorbitsai/inference/issues/2022",
        "gpu-limit-missing",
        "xprobe/xinference:v1.5.0",
        "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.\n",
        {"memory": "32Gi"},
    ),
    Told(
        "microsoft/onnxruntime/issues/13753",
        "gpu-limit-missing",
        "registry.example/onnx-app:3",
        "[ONNXRuntimeError] : 11 : EP_FAIL : CUDA failure 100: no CUDA-capable device is detected ; GPU=0\n",
        {"cpu": 6},
    ),
    # runtimeclass-missing
    Told(
        "kserve/kserve/issues/4512",
        "runtimeclass-missing",
        "nvcr.io/nvidia/tritonserver:23.05-py3",
        "WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be available.\nW0608 18:34:52.793676 1 pinned_memory_manager.cc:236] "
        "Unable to allocate pinned system memory: CUDA driver version is insufficient for CUDA runtime version\n",
    ),
    Told(
        "canonical/microk8s/issues/4408",
        "runtimeclass-missing",
        "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0",
        "Failed to allocate device vector A (error code CUDA driver version is insufficient for CUDA runtime version)!\n",
        labels={"nvidia.com/cuda.runtime.major": "12", "nvidia.com/cuda.runtime.minor": "8"},
        also=("driver-cuda-mismatch",),
    ),
    Told(
        "ollama/ollama/issues/3761",
        "runtimeclass-missing",
        "ollama/ollama:0.1.33",
        'level=DEBUG source=gpu.go:294 msg="discovered GPU libraries" paths=[]\ncudaSetDevice err: 35\n',
        ready=True,
    ),
    Told(
        "ollama/ollama/issues/3211",
        "runtimeclass-missing",
        "ollama/ollama:0.1.29",
        'level=INFO msg="no GPU detected"\n',
        ready=True,
    ),
    Told(
        "sgl-project/sglang/issues/7547",
        "runtimeclass-missing",
        "lmsysorg/sglang:v0.5.3",
        "RuntimeError: No accelerator (CUDA, XPU, HPU, NPU) is available.\n",
        {GPU: 4},
    ),
    Told(
        "open-webui/helm-charts/issues/17",
        "runtimeclass-missing",
        "ghcr.io/open-webui/open-webui:cuda",
        "UserWarning: CUDA initialization: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU\n",
    ),
    # tensor-parallel-mismatch
    Told(
        "vllm-project/vllm-omni/issues/5003",
        "tensor-parallel-mismatch",
        "vllm/vllm-omni:v0.18.0",
        "AssertionError: DP adjusted local rank 3 is out of bounds for 1 devices.\n",
        args=("serve", "Qwen/Qwen3-Omni-30B-A3B-Instruct"),
    ),
    Told(
        "vllm-project/vllm/pull/28873",
        "tensor-parallel-mismatch",
        "vllm/vllm-openai:v0.11.1",
        "AssertionError: local_world_size (16) must be less than or equal to the number of visible devices (8).\n",
        {GPU: 8},
    ),
    Told(
        "NVIDIA/TensorRT-LLM/issues/1047",
        "tensor-parallel-mismatch",
        "nvcr.io/nvidia/tritonserver:24.01-trtllm-python-py3",
        "[TensorRT-LLM][ERROR] Assertion failed: mpiSize == tp * pp (/app/tensorrt_llm/cpp/tensorrt_llm/runtime/worldConfig.cpp:80)\n",
    ),
    Told(
        "NVIDIA/TensorRT-LLM/issues/1992",
        "tensor-parallel-mismatch",
        "nvcr.io/nvidia/tensorrt-llm/release:1.0.0",
        "RuntimeError: [TensorRT-LLM][ERROR] Assertion failed: MPI size 1 != TP size 2 * PP size 1\n",
    ),
    Told(
        "NVIDIA/nccl/issues/1092",
        "tensor-parallel-mismatch",
        "vllm/vllm-openai:v0.9.2",
        "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device b3000\n",
        {GPU: 2},
        ("--tensor-parallel-size=2",),
        labels={"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"},
    ),
    Told(
        "pytorch/pytorch: torchrun",
        "tensor-parallel-mismatch",
        "pytorch/pytorch:2.6.0",
        "[rank3]: RuntimeError: CUDA error: invalid device ordinal\n",
        {GPU: 2},
        ("torchrun", "--nproc_per_node=4", "train.py"),
    ),
    Told(
        "huggingface/text-generation-inference/issues/2432",
        "tensor-parallel-mismatch",
        "ghcr.io/huggingface/text-generation-inference:2.2.0",
        "[rank1]: torch.AcceleratorError: CUDA error: invalid device ordinal\n",
        env={"NUM_SHARD": "2"},
    ),
    Told(
        "huggingface/text-generation-inference/issues/1204",
        "tensor-parallel-mismatch",
        "ghcr.io/huggingface/text-generation-inference:1.1.1",
        'Error: NotEnoughCUDADevices("``sharded`` is true but only found 1 CUDA devices")\n',
        env={"SHARDED": "true"},
    ),
    # shm-too-small
    Told(
        "NVIDIA/nccl/issues/525",
        "shm-too-small",
        "gcr.io/deeplearning-platform-release/tf2-gpu.2-4:m69",
        "[3] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device\n",
        {GPU: 4},
    ),
    Told(
        "triton-inference-server/server/issues/4869",
        "shm-too-small",
        "nvcr.io/nvidia/tritonserver:22.08-py3",
        "UNAVAILABLE: Internal: Unable to initialize shared memory key 'triton_python_backend_shm_region_2' to requested size (67108864 bytes).\n",
    ),
    Told(
        "triton-inference-server/server/issues/5681",
        "shm-too-small",
        "nvcr.io/nvidia/tritonserver:23.03-py3",
        "Failed to increase the shared memory pool size for key 'triton_python_backend_shm_region_2' to 67108864 bytes.\n",
    ),
    Told(
        "python/cpython: multiprocessing.shared_memory",
        "shm-too-small",
        "vllm/vllm-openai:v0.8.3",
        "OSError: [Errno 28] No space left on device: '/psm_7a5e1b3c'\n",
        {GPU: 4},
        ("-tp", "4"),
    ),
    Told(
        "sgl-project/sglang/issues/5096",
        "shm-too-small",
        "lmsysorg/sglang:v0.4.4",
        "Fatal Python error: Bus error\n",
        {GPU: 8},
        ("--tp", "8"),
    ),
    # service-env-collision
    Told(
        "gpustack/gpustack/pull/5908",
        "service-env-collision",
        "gpustack/gpustack:v2.1.0",
        "error: argument --worker-port: invalid int value: 'tcp://10.43.209.95:10150'\n",
        service=("gpustack-worker", "10.43.209.95"),
    ),
    Told(
        "langflow-ai/langflow/pull/11968",
        "service-env-collision",
        "langflowai/langflow-backend:1.7.1",
        "runtime_port\n  Input should be a valid integer, unable to parse string as an integer [type=int_parsing, "
        "input_value='tcp://10.96.3.20:7860', input_type=str]\n",
        {"cpu": 1},
        service=("langflow-runtime", "10.96.3.20"),
    ),
    Told(
        "abartrim/sobs/pull/435",
        "service-env-collision",
        "registry.example/sobs:2",
        "listen tcp: address tcp://10.152.183.152:44317: too many colons in address\n",
        {"cpu": 1},
        service=("sobs", "10.152.183.152"),
    ),
    Told(
        "lldap/lldap/issues/844",
        "service-env-collision",
        "registry.example/embed:stable",
        "error: invalid value 'tcp://10.43.194.65:3890' for '--embed-port <EMBED_PORT>': invalid digit found in string\n",
        service=("embed", "10.43.194.65"),
    ),
    Told(
        "kubernetes/kubernetes/issues/16906",
        "service-env-collision",
        "registry:2",
        "Error: 'tcp://10.10.240.151:5000' is not a valid port number.\n",
        {"cpu": 1},
        service=("gunicorn", "10.10.240.151"),
    ),
    Told(
        "osixia/container-openldap/issues/457",
        "service-env-collision",
        "osixia/openldap:1.4.0",
        'daemon: listen URL "ldap://x:tcp://10.108.253.216:389" parse error=5\n',
        {"cpu": 1},
        service=("ldap", "10.108.253.216"),
    ),
    # gpu-memory-insufficient
    Told(
        "triton-inference-server/fastertransformer_backend/issues/157",
        "gpu-memory-insufficient",
        "openmmlab/lmdeploy:v0.6.4",
        "[TM][ERROR] CUDA runtime error: out of memory /opt/lmdeploy/src/turbomind/utils/memory_utils.cu:32\n",
    ),
    Told(
        "triton-inference-server/tensorrtllm_backend/issues/281",
        "gpu-memory-insufficient",
        "nvcr.io/nvidia/tritonserver:24.01-trtllm-python-py3",
        "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory\n",
        {GPU: 2},
    ),
    Told(
        "ahmetoner/whisper-asr-webservice/issues/173",
        "gpu-memory-insufficient",
        "onerahmet/openai-whisper-asr-webservice:v1.3.0-gpu",
        "RuntimeError: CUDA failed with error out of memory\n",
    ),
    Told(
        "PaddlePaddle: memory allocator",
        "gpu-memory-insufficient",
        "paddlecloud/paddleocr:2.6-gpu-cuda11.7",
        "Out of memory error on GPU 0. Cannot allocate 1.150391GB memory on GPU 0\n",
    ),
    Told(
        "tensorflow: bfc allocator",
        "gpu-memory-insufficient",
        "tensorflow/serving:2.15.0-gpu",
        "OOM when allocating tensor with shape[64,512,4096] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n",
    ),
    Told(
        "huggingface/transformers: bitsandbytes",
        "gpu-memory-insufficient",
        "kserve/huggingfaceserver:v0.15.0-gpu",
        "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to fit the quantized model.\n",
    ),
    Told(
        "Project-HAMi/HAMi/issues/662",
        "gpu-memory-insufficient",
        "registry.example/t:1",
        "[HAMI-core ERROR (pid:30 thread=140382094939712 allocator.c:53)]: Device 0 OOM 3171158016 / 3145728000\n",
        {GPU: 1, "nvidia.com/gpumem": 3000},
    ),
    Told(
        "xorbitsai/inference/issues/4926",
        "gpu-memory-insufficient",
        "xprobe/xinference:v2.8.0",
        "ValueError: To serve at least one request with the models's max seq len (262144), (36.0 GiB KV cache is needed, which is larger than the "
        "available KV cache memory (6.94 GiB).\n",
    ),
)


def _as_told(report: Told, number: int) -> tuple[Cluster, Wanted]:
    c = Cluster("", node("g1", {GPU: 8}, report.labels))
    c.add(thing("RuntimeClass", "nvidia", api="node.k8s.io/v1", handler="nvidia"))
    if report.service is not None:
        name, address = report.service
        c.add(thing("Service", name, namespace="rag", spec={"clusterIP": address, "ports": [{"port": 80}]}))
    box = container("main", report.image, report.limits, report.args, report.env)
    owner = f"{NAMES[report.cause]}{number}"
    c.add(pod(f"{owner}-0", "rag", box, runs(ready=False) if report.ready else crashes(), "g1", ("StatefulSet", owner)))
    c.attachments[f"logs/{owner}-0.log"] = report.log
    return c, Wanted(report.cause, f"StatefulSet rag/{owner}", (f"rag/{owner}-0",), report.also)


def _register() -> None:
    for number, report in enumerate(TOLD):

        def made(report: Told = report, number: int = number) -> tuple[Cluster, Wanted]:
            return _as_told(report, number)

        made.__name__ = f"{report.cause}_{report.source}"
        made.__module__ = __name__
        defect(made)


_register()


# wrong-resource-name


def _waits_for(name: str, limits: Mapping[str, str | int], nodes: Sequence[Raw], image: str) -> tuple[Cluster, Wanted]:
    c = Cluster("", *nodes)
    box = container("main", image, limits)
    c.add(workload("Deployment", "app", "rag", box))
    c.add(pod("app-5f-abcde", "rag", box, waits(), "", ("ReplicaSet", "app-5f"), {"app": "app"}))
    return c, Wanted("wrong-resource-name", "Deployment rag/app", ("rag/app-5f-abcde",), mentions=(name, GPU))


@defect
def another_vendors_gpu_beside_ours() -> tuple[Cluster, Wanted]:
    """https://github.com/rstudio/helm/issues/355"""
    return _waits_for("amd.com/gpu", {GPU: 1, "amd.com/gpu": 1}, [node("g4dn-1", ONE), node("cpu-1")], "rstudio/connect-app:1")


@defect
def a_chart_that_asks_for_another_vendor() -> tuple[Cluster, Wanted]:
    """https://github.com/otwld/ollama-helm/issues/150"""
    return _waits_for("amd.com/gpu", {"amd.com/gpu": 1}, [node("desk", ONE)], "ollama/ollama:rocm")


@defect
def gpu_memory_where_no_plugin_offers_it() -> tuple[Cluster, Wanted]:
    """https://github.com/AliyunContainerService/gpushare-scheduler-extender/issues/41"""
    return _waits_for(
        "aliyun.com/gpu-mem", {"aliyun.com/gpu-mem": 8}, [node("g1", {GPU: 2}), node("cpu")], "nvidia/cuda:12.4.1-base"
    )


@defect
def the_name_of_years_ago() -> tuple[Cluster, Wanted]:
    """https://github.com/bluek8s/kubedirector/issues/23"""
    old = "alpha.kubernetes.io/nvidia-gpu"
    return _waits_for(old, {old: 1}, [node("g1", {GPU: 2})], "tensorflow/tensorflow:1.4-gpu")


# shm-too-small


@defect
def only_the_exit_code_speaks_of_a_bus_error() -> tuple[Cluster, Wanted]:
    """https://github.com/vllm-project/vllm/issues/1710"""
    c = Cluster("", node("g1", {GPU: 4}))
    box = container("vllm", "vllm/vllm-openai:v0.10.2", {GPU: 2}, ("--tensor-parallel-size", "2"))
    c.add(pod("llm-0", "rag", box, crashes(code=135), "g1", ("StatefulSet", "llm")))
    return c, Wanted("shm-too-small", "StatefulSet rag/llm", ("rag/llm-0",), mentions=("135",))


@defect
def a_volume_that_stale_segments_fill() -> tuple[Cluster, Wanted]:
    """https://github.com/llm-d/llm-d/issues/352"""
    c = Cluster("", node("h200", {GPU: 8}))
    mounts = [{"name": "dshm", "mountPath": "/dev/shm"}]
    box = container("vllm", "ghcr.io/llm-d/llm-d-cuda:v0.3.0", {GPU: 8}, volumeMounts=mounts)
    volumes = [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]
    c.add(pod("decode-0", "rag", box, crashes(), "h200", ("StatefulSet", "decode"), volumes=volumes))
    c.attachments["logs/decode-0.log"] = (
        "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-p3Xl2q (size 33030528), error: No space left on device (28)\n"
    )
    return c, Wanted("shm-too-small", "StatefulSet rag/decode", ("rag/decode-0",), mentions=("full at its limit of 1Gi",))


# startup-probe-too-short


def _probed(image: str, probe: Mapping[str, object], events: Sequence[tuple[str, str]], status: Raw, log: str = "") -> Cluster:
    c = Cluster("", node("g1", {GPU: 2}))
    box = container("main", image, ONE, livenessProbe={"httpGet": {"path": "/health", "port": 8000}, **probe})
    p = c.add(pod("api-0", "rag", box, status, "g1", ("StatefulSet", "api")))
    for reason, message in events:
        c.event(p, reason, message, "kubelet")
    if log:
        c.attachments["logs/api-0.log"] = log
    return c


def _ended(started: str, finished: str, *, code: int = 0) -> Raw:
    last = {"exitCode": code, "reason": "Completed" if code == 0 else "Error", "startedAt": started, "finishedAt": finished}
    entry: Raw = {"ready": False, "restartCount": 5, "state": {"running": {}}, "lastState": {"terminated": last}}
    return {"phase": "Running", "conditions": conditions(), "containerStatuses": [entry]}


REFUSED = 'Liveness probe failed: Get "http://10.8.0.4:8000/health": dial tcp 10.8.0.4:8000: connect: connection refused'
KILLED = "Container main failed liveness probe, will be restarted"


@defect
def a_server_that_ends_in_order_when_it_is_killed() -> tuple[Cluster, Wanted]:
    """https://github.com/gke-labs/kube-agents/issues/712"""
    status = _ended("2026-11-30T20:00:00Z", "2026-11-30T20:00:53Z")
    probe = {"initialDelaySeconds": 30, "periodSeconds": 10, "failureThreshold": 3}
    c = _probed("registry.example/rag-api:1", probe, [("Unhealthy", REFUSED)], status)
    return c, Wanted("startup-probe-too-short", "StatefulSet rag/api", ("rag/api-0",))


@defect
def triton_ends_in_order_too() -> tuple[Cluster, Wanted]:
    """https://github.com/triton-inference-server/server/issues/6469"""
    image = "nvcr.io/nvidia/tritonserver:23.09-py3"
    log = "I1025 10:00:00.000000 1 model_lifecycle.cc:461] loading: bert:1\nSignal (15) received.\n"
    c = _probed(image, {}, [("Unhealthy", REFUSED)], crashes(code=0, reason="Completed"), log)
    return c, Wanted("startup-probe-too-short", "StatefulSet rag/api", ("rag/api-0",))


# gpu-memory-oversubscribed


@defect
def two_fractions_of_kai_on_one_card() -> tuple[Cluster, Wanted]:
    """https://github.com/kai-scheduler/KAI-Scheduler/issues/708"""
    c = Cluster("", node("g1", ONE))
    half = {"gpu-fraction": "0.5"}
    for name, status in (("chat", runs()), ("judge", crashes())):
        box = container("vllm", "vllm/vllm-openai:v0.10.0")
        c.add(
            pod(f"{name}-0", "rag", box, status, "g1", ("StatefulSet", name), annotations=half, schedulerName="kai-scheduler")
        )
    c.attachments["logs/judge-0.log"] = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB. GPU 0 has a total capacity of 79.25 GiB of which 512.00 MiB is free. "
        "Process 801 has 71.20 GiB memory in use. Process 902 has 7.40 GiB memory in use.\n"
    )
    return c, Wanted("gpu-memory-oversubscribed", "StatefulSet rag/judge", ("rag/judge-0",))


@defect
def what_is_free_is_what_the_neighbour_left() -> tuple[Cluster, Wanted]:
    """https://github.com/huggingface/text-generation-inference/issues/1354"""
    share = "nvidia.com/gpu.shared"
    labels = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "1", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    c = Cluster("", node("g1", {share: 4}, labels))
    c.add(pod("chat-0", "rag", container("vllm", "vllm/vllm-openai:v0.9.2", {share: 1}), runs(), "g1", ("StatefulSet", "chat")))
    box = container("tgi", "ghcr.io/huggingface/text-generation-inference:3.0.2", {share: 1})
    c.add(pod("tgi-0", "rag", box, crashes(), "g1", ("StatefulSet", "tgi")))
    c.attachments["logs/tgi-0.log"] = "RuntimeError: Not enough memory to handle 4096 prefill tokens.\n"
    return c, Wanted("gpu-memory-oversubscribed", "StatefulSet rag/tgi", ("rag/tgi-0",))


def quiet() -> dict[str, Cluster]:
    """Troubles that look like one of these causes and are none."""
    made: dict[str, Cluster] = {}
    sharing = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "1", "nvidia.com/gpu.sharing-strategy": "time-slicing"}

    def add(
        name: str,
        log: str,
        limits: Mapping[str, str | int] | None = ONE,
        status: Raw | None = None,
        image: str = "vllm/vllm-openai:v0.11.0",
        args: Sequence[str] = (),
        gpus: Mapping[str, int] | None = ONE,
    ) -> None:
        c = Cluster("", node("g1", gpus, sharing if gpus else None), node("g2", {GPU: 4}))
        c.add(pod("chat-0", "rag", container("vllm", image, ONE), runs(), "g2", ("StatefulSet", "chat")))
        c.add(pod("llm-0", "rag", container("main", image, limits, args), status or crashes(), "g1", ("StatefulSet", "llm")))
        c.attachments["logs/llm-0.log"] = log
        made[name] = c

    two: Mapping[str, str | int] = {GPU: 2}
    add(
        "a disk that is full",
        "OSError: [Errno 28] No space left on device: '/root/.cache/huggingface/hub/blobs/tmp_abc'\n",
        two,
    )
    add(
        "a port that is taken",
        "[Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use\n",
    )
    add(
        "a name that does not resolve", "Failed to resolve 'huggingface.co' ([Errno -3] Temporary failure in name resolution)\n"
    )
    add(
        "a model type that is not known",
        "ValueError: model type `qwen3` but Transformers does not recognize this architecture.\n",
    )
    add("architectures of models", "ValueError: Model architectures ['Qwen3NextForCausalLM'] are not supported for now.\n")
    add(
        "a context beyond the model's",
        "ValueError: User-specified max_model_len (32768) is greater than the derived max_model_len\n",
    )
    add("an instruction that the processor lacks", "Illegal instruction (core dumped)\n", status=crashes(code=132))
    add("a network between ranks", "ncclRemoteError: A call failed possibly due to a network error\n", two, args=("-tp", "2"))
    add(
        "another library that is missing",
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory\n",
    )
    add("a fault of a kernel", "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n")
    add(
        "host memory",
        "Error: model requires more system memory (8.4 GiB) than is available (6.1 GiB)\n",
        image="ollama/ollama:0.5.7",
    )
    add(
        "an engine that died",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n",
    )
    add("a pod that was preempted", "KeyboardInterrupt: terminated\n", status=crashes(code=143))
    add("two ranks started without mpirun", "Assertion failed: MPI size 1 != TP size 2 * PP size 1\n", two)
    add(
        "variables that nobody reads",
        "WARNING [envs.py:1818] Unknown vLLM environment variable detected: VLLM_SERVICE_PORT\nValueError: unknown chat template\n",
    )
    add(
        "a web server that notes in passing that it has no GPU",
        "UserWarning: CUDA initialization: Found no NVIDIA driver on your system.\nsqlalchemy.exc.OperationalError: could not connect\n",
        {"cpu": 1},
        image="registry.example/rag-api:1",
        gpus=None,
    )
    add(
        "a model on the processor",
        'msg="no compatible GPUs were discovered"\nError: listen tcp 0.0.0.0:11434: bind: address already in use\n',
        {"cpu": 4},
        image="ollama/ollama:0.12.3",
        gpus=None,
    )
    missing = "Liveness probe failed: HTTP probe failed with statuscode: 404"
    ended = crashes(code=0, reason="Completed")
    made["a probe of a path that is not there"] = _probed("x/sim:1", {}, [("Unhealthy", missing), ("Killing", KILLED)], ended)
    log = "INFO:     Application startup complete.\nINFO:     Uvicorn running on http://0.0.0.0:9000\n"
    made["a probe of another port"] = _probed("x/api:1", {}, [("Unhealthy", REFUSED), ("Killing", KILLED)], ended, log)
    served = _ended("2026-11-30T12:00:00Z", "2026-11-30T20:00:53Z", code=137)
    slow = 'Liveness probe failed: Get "http://10.8.0.4:8000/health": context deadline exceeded'
    made["a server that hung after hours"] = _probed("x/api:1", {}, [("Unhealthy", slow), ("Killing", KILLED)], served)
    c = Cluster("", node("mi300", {}, {"amd.com/gpu.family": "AI"}), node("g1", ONE))
    c.add(pod("rocm-0", "rag", container("main", "vllm/rocm:1", {"amd.com/gpu": 1}), waits(), "", ("StatefulSet", "rocm")))
    made["another vendor's plugin that is not there yet"] = c
    return made
