"""Small reports about engines and what their manifests ask for."""

from __future__ import annotations

from broken import Wanted, defect
from broken.cluster import Cluster
from broken.small import GPU, container, crashes, node, pod, runs, stands, workload
from makers import thing

VLLM = "vllm/vllm-openai:v0.11.0"
L4 = {"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.memory": "23034", "nvidia.com/gpu.count": "2"}


def _log(c: Cluster, name: str, text: str) -> None:
    c.attachments[f"logs/{name}"] = text


# gpu-limit-missing


@defect
def a_job_that_trains_without_a_limit() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("gpu-a", {GPU: 2}, L4))
    box = container("finetune", "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime", {"cpu": "4", "memory": "16Gi"})
    c.add(pod("reranker-tune-k8xtr", "ml", box, crashes(), "gpu-a", ("Job", "reranker-tune")))
    _log(c, "reranker-tune-k8xtr.log", "Traceback (most recent call last):\nRuntimeError: No CUDA GPUs are available\n")
    return c, Wanted("gpu-limit-missing", "Job ml/reranker-tune", ("ml/reranker-tune-k8xtr",))


@defect
def ollama_on_the_processor() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("k3s-1", {GPU: 1}))
    box = container("ollama", "ollama/ollama:0.12.3")
    c.add(workload("StatefulSet", "ollama", "chat", box))
    c.add(pod("ollama-0", "chat", box, runs(ready=False), "k3s-1", ("StatefulSet", "ollama")))
    _log(c, "ollama-0_ollama.log", 'level=INFO source=gpu.go:396 msg="no compatible GPUs were discovered"\n')
    return c, Wanted("gpu-limit-missing", "StatefulSet chat/ollama", ("chat/ollama-0",))


@defect
def only_a_sidecar_asks_for_the_card() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("a10-7", {GPU: 4}))
    boxes = [container("engine", VLLM, {"cpu": "8"}), container("metrics", "registry.example/metrics:2", {"cpu": "1"})]
    c.add(pod("qwen-6f7d5-xkq2p", "serve", boxes, crashes(count=2), "a10-7", ("ReplicaSet", "qwen-6f7d5")))
    _log(
        c,
        "serve/qwen-6f7d5-xkq2p/engine.log",
        "RuntimeError: Failed to infer device type, please set the environment variable\n",
    )
    return c, Wanted("gpu-limit-missing", "Pod serve/qwen-6f7d5-xkq2p", ("serve/qwen-6f7d5-xkq2p",))


# runtimeclass-missing


@defect
def a_statefulset_under_plain_runc() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("rke-2", {GPU: 1}, handlers=("", "nvidia")))
    c.add(thing("RuntimeClass", "nvidia", api="node.k8s.io/v1", handler="nvidia"))
    box = container("tei", "ghcr.io/huggingface/text-embeddings-inference:89-1.8", {GPU: 1})
    c.add(workload("StatefulSet", "embed", "search", box))
    c.add(pod("embed-0", "search", box, crashes(), "rke-2", ("StatefulSet", "embed")))
    _log(c, "embed-0.txt", "/usr/local/bin/text-embeddings-router: error while loading shared libraries: libcuda.so.1: cannot open "
         "shared object file: No such file or directory\n")  # fmt: skip
    return c, Wanted("runtimeclass-missing", "StatefulSet search/embed", ("search/embed-0",))


@defect
def torch_without_a_driver_in_the_container() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("bare-1", {"nvidia.com/gpu.shared": 4}))
    box = container("app", "registry.example/rag-ranker:0.3", {"nvidia.com/gpu.shared": 1})
    c.add(pod("ranker", "rag", box, crashes("RuntimeError: Found no NVIDIA driver on your system."), "bare-1"))
    return c, Wanted("runtimeclass-missing", "Pod rag/ranker", ("rag/ranker",))


@defect
def milvus_that_sees_no_card() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("k3s-gpu", {GPU: 1}))
    c.add(thing("RuntimeClass", "nvidia", api="node.k8s.io/v1", handler="nvidia"))
    box = container("standalone", "milvusdb/milvus:v2.4.11-gpu", {GPU: 1})
    c.add(workload("Deployment", "milvus-standalone", "vectors", box))
    c.add(pod("milvus-standalone-7c9d-mmmmm", "vectors", box, crashes(code=134), "k3s-gpu", ("ReplicaSet", "milvus-standalone-7c9d"),
              {"app": "milvus-standalone"}))  # fmt: skip
    _log(c, "standalone.log", "terminate called after throwing an instance of 'raft::cuda_error'\n  what():  CUDA error encountered at: "
         "file=/home/build/.conan/data/raft/cudart_utils.hpp line=146: call='cudaGetDeviceCount(&n)', Reason=cudaErrorNoDevice:no "
         "CUDA-capable device is detected\n")  # fmt: skip
    return c, Wanted("runtimeclass-missing", "Deployment vectors/milvus-standalone", ("vectors/milvus-standalone-7c9d-mmmmm",))


# tensor-parallel-mismatch


@defect
def four_shards_on_two_cards() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("h100-a", {GPU: 8}))
    box = container("vllm", VLLM, {GPU: 2}, ["--model", "meta-llama/Llama-3.1-70B-Instruct", "--tensor-parallel-size=4"])
    c.add(workload("Deployment", "llama", "llm", box))
    c.add(pod("llama-59b-aaaaa", "llm", box, crashes(), "h100-a", ("ReplicaSet", "llama-59b"), {"app": "llama"}))
    _log(c, "vllm.log", "ValueError: World size (4) is larger than the number of available GPUs (2) in this node. If this is "
         "intentional and you are using...\n")  # fmt: skip
    return c, Wanted("tensor-parallel-mismatch", "Deployment llm/llama", ("llm/llama-59b-aaaaa",), mentions=("4", "2"))


@defect
def tgi_sharded_on_one_card() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("a100-x", {GPU: 4}))
    box = container(
        "tgi", "ghcr.io/huggingface/text-generation-inference:3.3.5", {GPU: 1}, ["--sharded", "true", "--model-id", "x/y"]
    )
    c.add(pod("tgi-0", "llm", box, crashes(), "a100-x", ("StatefulSet", "tgi")))
    _log(
        c, "tgi-0.log", "2026-11-30T20:00:01Z ERROR text_generation_launcher: `sharded` is true but only found 1 CUDA devices\n"
    )
    return c, Wanted("tensor-parallel-mismatch", "StatefulSet llm/tgi", ("llm/tgi-0",))


@defect
def a_shell_script_with_tp_eight() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("h200-1", {GPU: 8}))
    script = "exec python3 -m sglang.launch_server --model-path Qwen/Qwen3-235B-A22B --tp 8 --host 0.0.0.0"
    box = container("sglang", "lmsysorg/sglang:v0.5.3", {GPU: 4}, command=["/bin/bash", "-c", script])
    c.add(pod("qwen-big", "llm", box, crashes(), "h200-1"))
    _log(c, "qwen-big.log", "RuntimeError: CUDA error: invalid device ordinal\n")
    return c, Wanted("tensor-parallel-mismatch", "Pod llm/qwen-big", ("llm/qwen-big",))


@defect
def two_mig_slices_for_one_engine() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("a100-mig", {"nvidia.com/mig-3g.20gb": 2}))
    box = container("vllm", VLLM, {"nvidia.com/mig-3g.20gb": 1}, ["--model=x/y", "-tp", "2"])
    c.add(workload("Deployment", "judge", "rag", box))
    c.add(pod("judge-1-bbbbb", "rag", box, crashes(), "a100-mig", ("ReplicaSet", "judge-1"), {"app": "judge"}))
    _log(c, "judge-1-bbbbb.log", "ValueError: Tensor parallel size (2) exceeds available GPUs (1).\n")
    return c, Wanted("tensor-parallel-mismatch", "Deployment rag/judge", ("rag/judge-1-bbbbb",))


# shm-too-small


@defect
def nccl_cannot_make_a_segment() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("a100-3", {GPU: 8}))
    box = container("sglang", "lmsysorg/sglang:v0.5.3", {GPU: 2}, ["--tp", "2"])
    c.add(workload("StatefulSet", "sgl", "llm", box))
    c.add(pod("sgl-0", "llm", box, crashes(), "a100-3", ("StatefulSet", "sgl")))
    _log(c, "sgl-0.log", "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\n"
         "Last error:\nError while creating shared memory segment /dev/shm/nccl-vzIpS6 (size 9637888)\n")  # fmt: skip
    return c, Wanted("shm-too-small", "StatefulSet llm/sgl", ("llm/sgl-0",))


@defect
def a_bus_error_of_tgi() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("a100-3", {GPU: 8}))
    box = container("tgi", "ghcr.io/huggingface/text-generation-inference:2.4.1", {GPU: 2}, ["--num-shard", "2"])
    c.add(pod("tgi-mixtral-5f4-q7", "llm", box, crashes(), "a100-3", ("ReplicaSet", "tgi-mixtral-5f4")))
    _log(c, "tgi.log", "ERROR text_generation_launcher: Shard 1 failed to start\nError: Download process was signaled to shutdown "
         "with signal 7\n")  # fmt: skip
    return c, Wanted("shm-too-small", "Pod llm/tgi-mixtral-5f4-q7", ("llm/tgi-mixtral-5f4-q7",))


@defect
def workers_of_a_loader_die() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("l40s-2", {GPU: 4}))
    box = container("train", "registry.example/embed-train:5", {GPU: 4})
    c.add(pod("embed-train-0-vvvvv", "ml", box, crashes(), "l40s-2", ("Job", "embed-train")))
    _log(c, "embed-train-0-vvvvv.log", "RuntimeError: DataLoader worker (pid 211) is killed by signal: Bus error. It is possible that "
         "dataloader's workers are out of shared memory. Please try to raise your shared memory limit.\n")  # fmt: skip
    return c, Wanted("shm-too-small", "Job ml/embed-train", ("ml/embed-train-0-vvvvv",))


# service-env-collision


@defect
def a_service_called_vllm() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("n1", {GPU: 1}))
    box = container("server", VLLM, {GPU: 1})
    c.add(thing("Service", "vllm", namespace="genai", spec={"ports": [{"port": 8000}], "selector": {"app": "x"}}))
    c.add(pod("server-0", "genai", box, crashes(), "n1", ("StatefulSet", "server")))
    _log(c, "server-0.log", "ValueError: invalid literal for int() with base 10: 'tcp://10.43.17.8:8000'\n")
    return c, Wanted("service-env-collision", "StatefulSet genai/server", ("genai/server-0",))


@defect
def a_service_called_ollama() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("n1", {GPU: 1}))
    box = container("triton", "nvcr.io/nvidia/tritonserver:25.09-py3", {GPU: 1})
    c.add(thing("Service", "triton", namespace="genai", spec={"ports": [{"port": 8001}]}))
    c.add(workload("Deployment", "rank", "genai", box))
    c.add(pod("rank-77-ccccc", "genai", box, crashes(), "n1", ("ReplicaSet", "rank-77"), {"app": "rank"}))
    _log(c, "rank-77-ccccc.log", "error: failed to parse port from tcp://10.96.3.4:8001\n")
    return c, Wanted("service-env-collision", "Deployment genai/rank", ("genai/rank-77-ccccc",))


@defect
def new_vllm_says_that_it_is_a_uri() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("n1", {GPU: 1}))
    box = container("vllm", "vllm/vllm-openai:v0.33.0", {GPU: 1})
    c.add(thing("Service", "vllm", namespace="default", spec={"ports": [{"port": 80}]}))
    text = "ValueError: VLLM_PORT 'tcp://10.0.0.7:80' appears to be a URI. This may be caused by a Kubernetes service discovery issue"
    c.add(pod("vllm-7f-ddddd", "default", box, crashes(text), "n1", ("ReplicaSet", "vllm-7f")))
    return c, Wanted("service-env-collision", "Pod default/vllm-7f-ddddd", ("default/vllm-7f-ddddd",))


# startup-probe-too-short


@defect
def only_a_liveness_probe() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("n1", {GPU: 1}))
    probe = {"httpGet": {"path": "/health", "port": 8000}, "initialDelaySeconds": 60, "periodSeconds": 10}
    box = container("vllm", VLLM, {GPU: 1}, livenessProbe=probe)
    c.add(workload("Deployment", "llm", "rag", box))
    p = c.add(pod("llm-5-eeeee", "rag", box, crashes(code=137), "n1", ("ReplicaSet", "llm-5"), {"app": "llm"}))
    c.event(
        p,
        "Unhealthy",
        'Liveness probe failed: Get "http://10.1.1.9:8000/health": dial tcp: connect: connection refused',
        "kubelet",
    )
    c.event(p, "Killing", "Container vllm failed liveness probe, will be restarted", "kubelet", kind="Normal")
    return c, Wanted("startup-probe-too-short", "Deployment rag/llm", ("rag/llm-5-eeeee",))


# gpu-arch-unsupported


@defect
def a_volta_card_and_a_new_wheel() -> tuple[Cluster, Wanted]:
    labels = {
        "nvidia.com/gpu.product": "Tesla-V100-SXM2-32GB",
        "nvidia.com/gpu.compute.major": "7",
        "nvidia.com/gpu.compute.minor": "0",
    }
    c = Cluster("", node("v100-1", {GPU: 4}, labels))
    box = container("vllm", "vllm/vllm-openai:v0.23.0", {GPU: 1})
    c.add(pod("chat-0", "rag", box, crashes(), "v100-1", ("StatefulSet", "chat")))
    _log(c, "chat-0.log", "RuntimeError: CUDA error: no kernel image is available for execution on the device\nCUDA kernel errors might "
         "be asynchronously reported at some other API call\n")  # fmt: skip
    return c, Wanted("gpu-arch-unsupported", "StatefulSet rag/chat", ("rag/chat-0",))


@defect
def blackwell_and_an_old_torch() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("pro6000", {GPU: 2}, {"nvidia.com/gpu.product": "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"}))
    box = container("infinity", "michaelf34/infinity:0.0.76", {GPU: 1})
    c.add(workload("Deployment", "infinity", "embed", box))
    c.add(pod("infinity-1-fffff", "embed", box, crashes(), "pro6000", ("ReplicaSet", "infinity-1"), {"app": "infinity"}))
    _log(c, "infinity.log", "UserWarning: NVIDIA RTX PRO 6000 Blackwell Server Edition with CUDA capability sm_120 is not compatible with "
         "the current PyTorch installation.\n")  # fmt: skip
    return c, Wanted("gpu-arch-unsupported", "Deployment embed/infinity", ("embed/infinity-1-fffff",))


@defect
def fp8_on_turing() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("t4-a", {GPU: 1}, {"nvidia.com/gpu.product": "Tesla-T4"}))
    box = container("vllm", VLLM, {GPU: 1}, ["--quantization", "fp8"])
    c.add(pod("small-llm", "rag", box, crashes(), "t4-a"))
    _log(c, "small-llm.log", "ValueError: The quantization method fp8 is not supported for the current GPU. Minimum capability: 89. "
         "Current capability: 75.\n")  # fmt: skip
    return c, Wanted("gpu-arch-unsupported", "Pod rag/small-llm", ("rag/small-llm",))


# driver-cuda-mismatch


@defect
def torch_finds_the_driver_too_old() -> tuple[Cluster, Wanted]:
    labels = {
        "nvidia.com/cuda.driver.major": "535",
        "nvidia.com/cuda.runtime.major": "12",
        "nvidia.com/cuda.runtime.minor": "2",
    }
    c = Cluster("", node("old-1", {GPU: 2}, labels))
    box = container("app", "registry.example/reranker:cu130", {GPU: 1})
    c.add(pod("rerank-2-ggggg", "rag", box, crashes(), "old-1", ("ReplicaSet", "rerank-2")))
    _log(c, "rerank-2-ggggg.log", "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update your "
         "GPU driver\n")  # fmt: skip
    return c, Wanted("driver-cuda-mismatch", "Pod rag/rerank-2-ggggg", ("rag/rerank-2-ggggg",))


@defect
def a_container_that_is_not_created_for_its_cuda() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("old-2", {GPU: 2}))
    box = container("nim", "nvcr.io/nim/nvidia/llama-3.2-nv-embedqa-1b-v2:1.10.0", {GPU: 1})
    message = (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: could not apply required modification "
        "to OCI specification: requirements not met: unsatisfied condition: cuda>=12.9 (cuda=12.4): unknown"
    )
    c.add(workload("StatefulSet", "embedqa", "nim", box))
    c.add(pod("embedqa-0", "nim", box, stands("RunContainerError", message), "old-2", ("StatefulSet", "embedqa")))
    return c, Wanted("driver-cuda-mismatch", "StatefulSet nim/embedqa", ("nim/embedqa-0",), mentions=("12.9",))


@defect
def ptx_of_a_newer_toolchain() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("l4-9", {GPU: 1}))
    box = container("main", "registry.example/kernels:13.1", {GPU: 1})
    c.add(pod("kernels", "rag", box, crashes(), "l4-9"))
    _log(c, "kernels.log", "CUDA error: the provided PTX was compiled with an unsupported toolchain.\n")
    return c, Wanted("driver-cuda-mismatch", "Pod rag/kernels", ("rag/kernels",))


# gpu-memory-oversubscribed, gpu-memory-insufficient

SHARED = L4 | {
    "nvidia.com/gpu.replicas": "4",
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
    "nvidia.com/gpu.product": "NVIDIA-L4-SHARED",
}


@defect
def out_of_memory_beside_a_neighbour() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("l4-s", {GPU: 4}, SHARED | {"nvidia.com/gpu.count": "1"}))
    llm = container("vllm", VLLM, {GPU: 1}, ["--gpu-memory-utilization", "0.9"])
    c.add(pod("llm-1-hhhhh", "rag", llm, runs(), "l4-s", ("ReplicaSet", "llm-1")))
    box = container("infinity", "michaelf34/infinity:0.0.77", {GPU: 1})
    c.add(pod("embed-1-iiiii", "rag", box, crashes(), "l4-s", ("ReplicaSet", "embed-1")))
    _log(c, "embed-1-iiiii.log", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.20 GiB. GPU 0 has a total capacity of "
         "22.03 GiB of which 412.00 MiB is free. Process 811 has 19.90 GiB memory in use. Process 2210 has 1.71 GiB memory in use.\n")  # fmt: skip
    return c, Wanted("gpu-memory-oversubscribed", "Pod rag/embed-1-iiiii", ("rag/embed-1-iiiii",))


@defect
def out_of_memory_that_only_the_sum_explains() -> tuple[Cluster, Wanted]:
    c = Cluster(
        "",
        node(
            "l4-s",
            {"nvidia.com/gpu.shared": 8},
            L4 | {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"},
        ),
    )
    for name in ("chat", "judge"):
        box = container("vllm", VLLM, {"nvidia.com/gpu.shared": 1}, ["--gpu-memory-utilization=0.45"])
        c.add(pod(f"{name}-0", "rag", box, runs(), "l4-s", ("StatefulSet", name)))
    box = container("tei", "ghcr.io/huggingface/text-embeddings-inference:89-1.8", {"nvidia.com/gpu.shared": 1})
    c.add(pod("embed-0", "rag", box, crashes(), "l4-s", ("StatefulSet", "embed")))
    _log(c, "embed-0.log", 'Error: Model backend is not healthy: DriverError(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")\n')
    return c, Wanted("gpu-memory-oversubscribed", "StatefulSet rag/embed", ("rag/embed-0",))


@defect
def sglang_beside_others() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("l4-s", {GPU: 8}, SHARED))
    other = container("vllm", VLLM, {GPU: 1})
    c.add(pod("other-0", "rag", other, runs(), "l4-s", ("StatefulSet", "other")))
    box = container("sglang", "lmsysorg/sglang:v0.5.3", {GPU: 1})
    c.add(pod("sgl-0", "rag", box, crashes(), "l4-s", ("StatefulSet", "sgl")))
    _log(c, "sgl-0.log", "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes.\n")
    return c, Wanted("gpu-memory-oversubscribed", "StatefulSet rag/sgl", ("rag/sgl-0",))


@defect
def a_context_that_is_too_long() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("l4-1", {GPU: 2}, L4))
    box = container("vllm", VLLM, {GPU: 1}, ["--max-model-len", "131072"])
    c.add(workload("Deployment", "llm", "rag", box))
    c.add(pod("llm-4-jjjjj", "rag", box, crashes(), "l4-1", ("ReplicaSet", "llm-4"), {"app": "llm"}))
    _log(c, "llm-4-jjjjj.log", "ValueError: To serve at least one request with the model's max seq len (131072), (7.00 GiB KV cache is needed, "
         "which is larger than the available KV cache memory (3.12 GiB).\n")  # fmt: skip
    return c, Wanted("gpu-memory-insufficient", "Deployment rag/llm", ("rag/llm-4-jjjjj",))


@defect
def llama_cpp_with_a_big_context() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("3090", {GPU: 1}))
    box = container("llama", "ghcr.io/ggml-org/llama.cpp:server-cuda", {GPU: 1}, ["-c", "262144"])
    c.add(pod("llama-server-0", "home", box, crashes(), "3090", ("StatefulSet", "llama-server")))
    _log(c, "llama-server-0.log", "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 36864.00 MiB on device 0: cudaMalloc failed: out "
         "of memory\nllama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache\n")  # fmt: skip
    return c, Wanted("gpu-memory-insufficient", "StatefulSet home/llama-server", ("home/llama-server-0",))


@defect
def tgi_warm_up_does_not_fit() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("a10-1", {GPU: 1}))
    box = container("tgi", "ghcr.io/huggingface/text-generation-inference:3.0.1", {GPU: 1})
    text = 'Error: Backend(Warmup(Generation("Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`")))'
    c.add(pod("tgi-9-kkkkk", "rag", box, crashes(text), "a10-1", ("ReplicaSet", "tgi-9")))
    return c, Wanted("gpu-memory-insufficient", "Pod rag/tgi-9-kkkkk", ("rag/tgi-9-kkkkk",))


@defect
def sglang_weights_fill_the_card() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("l40s-1", {GPU: 2}))
    box = container("sglang", "lmsysorg/sglang:v0.5.3", {GPU: 1})
    c.add(pod("sgl-0", "rag", box, crashes(), "l40s-1", ("StatefulSet", "sgl")))
    _log(c, "sgl-0.log", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: 0.84\n")
    return c, Wanted("gpu-memory-insufficient", "StatefulSet rag/sgl", ("rag/sgl-0",))


@defect
def infinity_breaks_its_lines() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("l4-1", {GPU: 2}, L4))
    box = container("infinity", "michaelf34/infinity:0.0.74", {GPU: 1}, ["v2", "--batch-size", "64"])
    c.add(pod("embed-3-lllll", "rag", box, crashes(), "l4-1", ("ReplicaSet", "embed-3")))
    _log(c, "embed-3-lllll.log", "ERROR    2026-11-30 13:24:44,248 infinity_emb ERROR: CUDA   batch_handler.py:574\n         out of memory. "
         "Tried to allocate 3.88 GiB. GPU 0\n         has a total capacity of 22.03 GiB of which 920.81\n")  # fmt: skip
    return c, Wanted("gpu-memory-insufficient", "Pod rag/embed-3-lllll", ("rag/embed-3-lllll",))


# gpu-isolation-bypassed


@defect
def a_web_pod_that_lists_the_cards() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("dgx", {GPU: 8}))
    box = container("web", "nvcr.io/nvidia/pytorch:25.08-py3", None, (), {"NVIDIA_VISIBLE_DEVICES": "all"})
    c.add(pod("notebook", "lab", box, runs(), "dgx"))
    table = "".join(f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: GPU-0000000{n}-0000-0000-0000-000000000000)\n" for n in range(8))
    _log(c, "notebook.txt", "$ nvidia-smi -L\n" + table)
    return c, Wanted("gpu-isolation-bypassed", "Pod lab/notebook", (), mentions=("8",))


@defect
def one_card_given_and_all_seen_in_the_table() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("l40s", {GPU: 4}))
    box = container("embed", "registry.example/embed:1", {GPU: 1}, (), {"NVIDIA_VISIBLE_DEVICES": "all"})
    c.add(pod("embed-1", "rag", box, runs(), "l40s"))
    rows = "".join(
        f"|   {n}  NVIDIA L40S                    On  |   00000000:{n}7:00.0 Off |                    0 |\n"
        "| N/A   31C    P8             32W / 350W |      14MiB / 46068MiB |      0%      Default |\n"
        for n in range(4)
    )
    _log(c, "embed-1-nvidia-smi.txt", "| NVIDIA-SMI 580.95.05   Driver Version: 580.95.05   CUDA Version: 13.0 |\n" + rows)
    return c, Wanted("gpu-isolation-bypassed", "Pod rag/embed-1", ())


@defect
def torch_counts_more_than_it_was_given() -> tuple[Cluster, Wanted]:
    c = Cluster("", node("dgx", {GPU: 8}))
    box = container("ray", "rayproject/ray:2.49.0-gpu", {GPU: 2})
    c.add(pod("ray-worker-0", "lab", box, runs(), "dgx", ("StatefulSet", "ray-worker")))
    table = "".join(f"GPU {n}: NVIDIA A100-SXM4-80GB (UUID: GPU-{n}1111111-0000-0000-0000-000000000000)\n" for n in range(8))
    _log(c, "ray-worker-0.txt", table)
    return c, Wanted("gpu-isolation-bypassed", "StatefulSet lab/ray-worker", (), mentions=("8", "2"))
