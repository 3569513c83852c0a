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
]


@pytest.mark.parametrize(("cause", "text"), TEXTS, ids=[text[:40] for _, text in TEXTS])
def test_text_has_a_signature(cause: str, text: str) -> None:
    assert cause in {row.cause for row in FACTS.signatures.rows if re.search(row.pattern, text)}
