"""What programs say when something is wrong, as their versions word it: each text has a signature of its cause."""

from __future__ import annotations

import re

import pytest

from rules_support import FACTS

TEXTS = [
    (
        "device-plugin-nvml-missing",
        ("Detected non-NVML platform: could not load NVML library: libnvidia-ml.so.1: cannot open shared object file"),
    ),
    ("device-plugin-nvml-missing", "E0101 Incompatible strategy detected auto"),
    ("device-plugin-nvml-missing", "Failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND."),
    ("driver-library-mismatch", "Failed to initialize NVML: Driver/library version mismatch"),
    ("driver-library-mismatch", "CUDA error 803: system has unsupported display driver / cuda driver combination"),
    ("cgroup-device-lost", "Failed to initialize NVML: Unknown Error"),
    ("driver-cuda-mismatch", "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version"),
    ("driver-cuda-mismatch", "The NVIDIA driver on your system is too old (found version 12080)."),
    ("driver-cuda-mismatch", "unsatisfied condition: cuda>=13.0 (cuda=12.6)"),
    ("gpu-arch-unsupported", "CUDA error: no kernel image is available for execution on the device"),
    ("fabric-manager-down", "error code system not yet initialized"),
    ("mps-not-ready", "error waiting for MPS daemon: error checking MPS daemon health: failed to send command to MPS daemon"),
    ("sharing-config-unknown", "specified config  does not exist"),
    ("sharing-config-unknown", "specified config shared-8 does not exist"),
    ("sharing-config-invalid", "invalid MPS configuration: invalid device maximum allowed replicas exceeded: 49 > 48"),
    (
        "sharing-request-gt-one",
        ("request for 'nvidia.com/gpu: 2' too large: maximum request size for shared resources is 1, which is unexpected"),
    ),
    ("mig-strategy-mismatch", "all devices on the node must be configured with the same migEnabled value"),
    ("gpu-unhealthy", "XidCriticalError: Xid=79 on Device=GPU-1; marking device as unhealthy."),
    ("gpu-unhealthy", "'nvidia.com/gpu' device marked unhealthy: GPU-1"),
    (
        "device-plugin-start-race",
        ("Allocate failed due to can't allocate unregistered device nvidia.com/gpu, which is unexpected"),
    ),
    ("device-plugin-start-race", "no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu"),
    ("gpu-memory-insufficient", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB."),
    ("gpu-memory-insufficient", "cudaMalloc failed: out of memory"),
    ("driver-not-installed", "Could not resolve Linux kernel version"),
    ("driver-not-installed", "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service"),
    ("driver-not-installed", "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown"),
    (
        "gpu-arch-unsupported",
        "ERROR: CUDA kernel mul_mat_vec has no device code compatible with CUDA arch 520. ggml-cuda.cu was compiled for: 520",
    ),
    ("gpu-arch-unsupported", "Could not match a profile in manifest"),
    (
        "gpu-memory-insufficient",
        "Detected additional 1 compatible profile(s) that are currently not runnable due to low free GPU memory.",
    ),
    ("gpu-memory-insufficient", "ERROR    2024-11-28 13:24:44,248 infinity_emb ERROR: CUDA   batch_handler.py:574"),
    (
        "gpu-memory-insufficient",
        "std::bad_alloc: out_of_memory: RMM failure at:/rmm/pool_memory_resource.hpp:195: Maximum pool size exceeded",
    ),
    (
        "gpu-memory-insufficient",
        "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache",
    ),
    ("gpu-memory-insufficient", "Error: llama runner process has terminated: CUDA error: out of memory"),
    ("gpu-memory-insufficient", "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 20.00 MiB."),
    ("gpu-memory-insufficient", "[TRT] [E] [resizingAllocator.cpp::allocate::78] Error Code 1: Cuda Runtime (out of memory)"),
    (
        "gpu-memory-insufficient",
        "Error: 'err == cudaSuccess' failed: StandardGpuResources: alloc fail type TemporaryMemoryOverflow dev 0",
    ),
    ("gpu-memory-insufficient", "Not enough memory to handle 16000 total tokens with 2 prefill tokens."),
    ("tensor-parallel-mismatch", "`sharded` is true but only found 1 CUDA devices"),
    ("shm-too-small", "Error: Download process was signaled to shutdown with signal 7"),
    ("shm-too-small", "RuntimeError: unable to write to file </torch_812_331>: No space left on device (28)"),
    ("service-env-collision", 'panic: strconv.ParseInt: parsing "tcp://10.96.40.2:19530": invalid syntax'),
    ("runtimeclass-missing", 'level=INFO source=gpu.go:396 msg="no compatible GPUs were discovered"'),
    ("runtimeclass-missing", "ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected"),
    ("runtimeclass-missing", "WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be available."),
    ("runtime-handler-not-configured", "failed to find runtime handler nvidia from runtime list map[crun:0x1 runc:0x2]"),
    ("dra-driver-not-ready", "prepare dynamic resources: DRA driver compute-domain.nvidia.com is not registered"),
    (
        "dra-driver-not-ready",
        'failed to create device library: failed to locate driver libraries: error locating "libnvidia-ml.so.1"',
    ),
    ("mig-reconfig-stuck", "Unable to shutdown GPU clients on host by stopping their systemd services"),
    ("mig-config-invalid", "error setting MIGConfig: error attempting multiple config orderings: all orderings failed"),
    ("mig-monitor-permission", "error visiting device: error getting device memory info: Insufficient Permissions"),
    (
        "sharing-request-gt-one",
        "invalid request for sharing GPU (time-sharing), at most 1 nvidia.com/gpu can be requested on GPU nodes",
    ),
    ("mps-not-ready", "Failed to allocate device vector A (error code all CUDA-capable devices are busy or unavailable)!"),
    ("fabric-manager-down", "nvidia-fabricmanager.service: Failed with result 'exit-code'."),
    ("gpu-unhealthy", "XidCriticalError: Xid=48, All devices will go unhealthy."),
    ("gpu-unhealthy", "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0xffff:1863)"),
]


def test_every_signature_says_versions_and_source() -> None:
    assert [row.id for row in FACTS.signatures.rows if not (row.versions and row.source)] == []


@pytest.mark.parametrize(("cause", "text"), TEXTS, ids=[text[:40] for _, text in TEXTS])
def test_text_has_a_signature(cause: str, text: str) -> None:
    assert cause in {row.cause for row in FACTS.signatures.rows if re.search(row.pattern, text)}
