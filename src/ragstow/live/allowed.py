"""The keys whose values leave a cluster: environment variables, annotations, container arguments, configuration texts.

An allow-list: what no rule reads is not here, and stays where it is. Names only; `redact` applies them.
"""

from __future__ import annotations

import re

from ragstow.rules import engines
from ragstow.sharing import commandline

ENVIRONMENT_PREFIXES = ("NVIDIA_", "CUDA_", "VLLM_", "NCCL_", "GFD_", "SGLANG_")
_VARIABLES = """
CDI_ENABLED CDI_ROOT CONFIG_FILE CONFIG_FILE_DST CONFIG_FILE_SRCDIR CONTAINER_DRIVER_ROOT DEFAULT_CONFIG
DEFAULT_GPU_CLIENTS_NAMESPACE DEVICE_ID_STRATEGY DEVICE_LIST_STRATEGY DRIVER_ROOT_CTR_PATH FAIL_ON_INIT_ERROR
FALLBACK_STRATEGIES GPU_CLIENTS_FILE HF_HOME HF_HUB_OFFLINE IMEX_ISOLATION IMEX_MODE KUBERNETES_NODE_NAME
LD_LIBRARY_PATH MAX_BATCH_TOKENS MAX_CONCURRENT_REQUESTS MIG_STRATEGY MODEL_ID MPS_ROOT NIM_MODEL_PROFILE
NIM_TENSOR_PARALLEL_SIZE NODE_LABEL NODE_NAME OMP_NUM_THREADS ONESHOT PASS_DEVICE_SPECS POD_NAME POD_NAMESPACE
PROCESS_TO_SIGNAL PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF RUNTIME SEND_SIGNAL SIGNAL TENSOR_PARALLEL_SIZE
TRANSFORMERS_OFFLINE USE_NODE_FEATURE_API XID_CONFIG
"""
ENVIRONMENT = frozenset(_VARIABLES.split()) | {
    name
    for options in (commandline.PLUGIN_OPTIONS, commandline.GFD_OPTIONS)
    for option in options
    for name in option.env
}  # fmt: skip

ANNOTATION_PREFIXES = (
    "nvidia.com/", "hami.io/", "nfd.node.kubernetes.io/", "run.ai/", "runai/", "kai.scheduler/", "resource.kubernetes.io/",
    "ragstow.dev/", "nvidia.cdi.k8s.io/", "pv.kubernetes.io/", "volume.kubernetes.io/", "volumes.kubernetes.io/",
    "volume.beta.kubernetes.io/", "deployment.kubernetes.io/", "storageclass.kubernetes.io/", "controller.kubernetes.io/",
    "scheduling.k8s.io/", "scheduling.x-k8s.io/", "kueue.x-k8s.io/",
)  # fmt: skip
ANNOTATIONS = frozenset(
    {
        "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "runai-job-id", "received-resource-type",
        "kubernetes.io/config.mirror", "kubernetes.io/config.source", "storageclass.beta.kubernetes.io/is-default-class",
        "kubectl.kubernetes.io/restartedAt", "kubectl.kubernetes.io/default-container",
        "cluster-autoscaler.kubernetes.io/safe-to-evict",
        "deprecated.daemonset.template.generation", "karpenter.sh/do-not-disrupt", "pod-group-name",
        "meta.helm.sh/release-name", "meta.helm.sh/release-namespace",
    }
)  # fmt: skip

_FLAGS = """
accelerator async-scheduling block-size chunked-prefill-size compilation-config config config-file context-length
convert cpu-offload-gb cuda-graph-max-bs cuda-graph-sizes data-parallel-backend data-parallel-rank data-parallel-size
data-parallel-size-local device device-memory-scaling device-split-count distributed-executor-backend download-dir dtype
enable-chunked-prefill enable-expert-parallel enable-lora enable-prefix-caching enforce-eager engine feature-gates
feature-gates-default gpu-memory-util gpu_memory_utilization host hostname kv-cache-dtype kv-cache-memory
kv-cache-memory-bytes kv-transfer-config leader-elect limit-mm-per-prompt load-format max-batch-prefill-tokens
max-batch-requests max-batch-size max-batch-tokens max-batch-total-tokens max-client-batch-size max-concurrent-requests
max-input-length max-input-tokens max-loras max-lora-rank max-model-len max-num-batched-tokens max-num-seqs
max-running-requests max-seq-len-to-capture max-total-tokens mem-fraction-static memory-manager-policy model model-id
model-impl model-path mps-root nnodes node-rank node-taints num-gpu-blocks-override num-lookahead-slots
num-speculative-tokens optimization-level page-size pooling-type port quantization quantize reserved-memory revision
runner scheduler-name schedule-conservativeness served-model-name shm-size speculative-config speculative-model
swap-space task tensor_parallel_size pipeline_parallel_size tokenization-workers tokenizer topology-manager-policy
topology-manager-scope trust-remote-code uvicorn-log-level v
"""
FLAGS = (
    frozenset(_FLAGS.split())
    | {
        name.lstrip("-")
        for names in (
            engines.TENSOR_PARALLEL,
            engines.PIPELINE_PARALLEL,
            engines.DATA_PARALLEL,
            engines.MEMORY_FRACTION,
            engines.KV_BYTES,
        )
        for name in names
    }
    | {name for options in (commandline.PLUGIN_OPTIONS, commandline.GFD_OPTIONS) for option in options for name in option.names}
)
"""Without dashes at the front; also with underscores for dashes inside."""

_PROGRAMS = """
/bin/bash /bin/sh /usr/bin/env bash break case cat cd config-manager do done echo elif else env esac exec exit export
false fi for gpu-feature-discovery hostname if in init launch_server mkdir mps-control-daemon numactl
nvidia-cuda-mps-control nvidia-smi python python3 ray rm sed serve set sglang sh sleep source start tee tei test
text-embeddings-router text-generation-launcher then true ulimit uninstall_driver until vllm wait while [ [[ ]] ] { } (
) ! : infinity -c -lc -ec -exc -m -e -x -f -d
"""
PROGRAMS = frozenset(_PROGRAMS.split())
"""Words of commands and shell scripts that are kept wherever they stand."""
PROGRAM_PREFIXES = ("nvidia-", "k8s-device-plugin", "gpu-", "mps-", "vllm.", "sglang.", "hami-", "nfd-", "dcgm")

SECRET_NAME = re.compile(
    r"(?i)(^|[^a-z])(api[_-]?key|access[_-]?key|auth|bearer|credentials?|pass(word|wd|phrase)|pass(?=$)|pwd|private[_-]?key|secret|token|jwt|dsn|connection[_-]?string)(?=$|[^a-z]|s$)"
)
"""Names whose value never leaves, whatever list they are in ("max-num-batched-tokens" and "tokenizer" are none of them)."""

SECRET_TEXT = re.compile(
    r"hf_[A-Za-z0-9]{8,}|nvapi-[A-Za-z0-9_-]{8,}|sk-[A-Za-z0-9_-]{8,}|gh[pousr]_[A-Za-z0-9]{8,}|github_pat_\w{8,}|glpat-[\w-]{8,}"
    r"|xox[abpr]-[\w-]{8,}|AKIA[0-9A-Z]{12,}|AIza[\w-]{20,}|eyJ[\w-]{10,}\.[\w-]{5,}(?:\.[\w-]*)?"
    r"|(?<=[Bb]earer )[^\s\"',;]{6,}|(?<=[Bb]asic )[A-Za-z0-9+/=]{8,}|(?<=://)[^\s/@:]+:[^\s/@]+(?=@)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)
"""Secrets that are known by their look, wherever they stand."""

SECRET_LINE = re.compile(
    r"(?im)((?:--|[\"'\s,{(]|^)[\w.-]*(?:api[_-]?key|access[_-]?key|password|passwd|passphrase|private[_-]?key|secret|auth[_-]?token|access[_-]?token|hf[_-]?token)"
    r"[\"']?\s*(?:[:=]\s*|(?<=\w)\s+(?=[^\s]{12,}$)))(?!\(redacted\))(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s,}\"']+)"
)
"""`password: x`, `api_key=x` and the like in a text."""

CONFIGURATION = re.compile(
    r"""["']?\b(timeSlicing|mps|sharing|migStrategy|mig-configs|mig-devices|mig-enabled|deviceListStrategy|renameByDefault"""
    r"""|failRequestsGreaterThanOne|nodeconfig|devicememoryscaling|deviceSplitCount|topologyManagerPolicy)["']?\s*:"""
    r"""|kind:\s*["']?(KubeletConfiguration|KubeSchedulerConfiguration|SchedulerConfiguration)\b"""
    r"""|(?s:\bversion:\s*["']?v1\b.*\b(flags|resources)\s*:|\b(flags|resources)\s*:.*\bversion:\s*["']?v1\b)"""
)
"""A ConfigMap's text that configures sharing of GPUs or a kubelet; any other is dropped."""
