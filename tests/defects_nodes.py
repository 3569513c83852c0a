"""Defects of nodes and of containers, with what they say."""

from __future__ import annotations

from defects import Defect, defect, keys
from variants import GPU, LATER, Variant, crashing


@defect
def a_card_that_failed() -> Defect:
    made = Variant("01")
    made.offer("a100-1", {}, allocatable={GPU: 3})
    return Defect(made, "gpu-unhealthy", ("Node a100-1",))


@defect
def a_runtime_without_the_handler() -> Defect:
    made = Variant("06")
    pods = made.pods_of("llm")
    message = (
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: "
        'no runtime for "nvidia" is configured'
    )
    for pod in pods:
        pod["status"] = {
            "phase": "Pending",
            "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": LATER}],
            "containerStatuses": [
                {
                    "name": pod["spec"]["containers"][0]["name"],
                    "ready": False,
                    "restartCount": 0,
                    "state": {"waiting": {"reason": "ContainerCreating"}},
                }
            ],
        }
        made.event(pod, "FailedCreatePodSandBox", message)
    return Defect(made, "runtime-handler-not-configured", ("Node ragbox",), keys(pods))


@defect
def admitted_before_the_plugin_was_there() -> Defect:
    made = Variant("01")
    pod = made.copy_workload("embedder", "code", ["t4-2"])[0]
    message = (
        "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, "
        "which is unexpected"
    )
    pod["status"] = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": f"Pod was rejected: {message}",
        "startTime": LATER,
    }
    made.event(pod, "UnexpectedAdmissionError", message)
    return Defect(made, "device-plugin-start-race", (f"Pod {keys([pod])[0]}",), None)


@defect
def devices_that_the_kubelet_holds_for_nobody() -> Defect:
    made = Variant("01")
    pod = made.copy_workload("embedder", "code", ["t4-2"])[0]
    message = (
        "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, "
        "Available: 0, which is unexpected"
    )
    pod["status"] = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": f"Pod was rejected: {message}",
        "startTime": LATER,
    }
    made.event(pod, "UnexpectedAdmissionError", message)
    return Defect(made, "kubelet-device-state-stale", ("Node t4-2",), None)


@defect
def a_probe_that_is_too_short() -> Defect:
    made = Variant("14")
    pod = made.pods_of("vllm-qwen-14b-deployment-vllm")[0]
    crashing(pod, code=143)
    made.event(pod, "Killing", "Container vllm failed startup probe, will be restarted", type_="Normal")
    made.event(pod, "Unhealthy", 'Startup probe failed: Get "http://10.0.0.1:8000/health": connect: connection refused')
    return Defect(made, "startup-probe-too-short", ("Deployment serving/vllm-qwen-14b-deployment-vllm",), keys([pod]))


@defect
def an_image_for_a_newer_driver() -> Defect:
    made = Variant("01")
    pod = made.pods_of("reranker")[0]
    message = (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: nvidia-container-cli: "
        "requirement error: unsatisfied condition: cuda>=13.4, please update your driver to a newer version"
    )
    crashing(pod, code=128, message=message)
    return Defect(made, "driver-cuda-mismatch", ("Deployment rag/reranker",), keys([pod]))


@defect
def shares_that_claim_too_much() -> Defect:
    made = Variant("04")
    pod = made.pods_of("rewriter")[0]
    crashing(pod)
    made.attachments[f"logs/{pod['metadata']['name']}.log"] = (
        "INFO starting\nValueError: Free memory on device (3.1/22.03 GiB) on startup is less than desired GPU memory "
        "utilization (0.9, 19.83 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
    )
    return Defect(made, "gpu-memory-oversubscribed", ("Deployment rag/rewriter",), keys([pod]))


@defect
def a_model_that_does_not_fit() -> Defect:
    made = Variant("14")
    pod = made.pods_of("vllm-qwen-7b-deployment-vllm")[0]
    crashing(pod)
    made.attachments["logs/vllm.txt"] = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB. GPU 0 has a total capacity of 22.03 GiB of "
        "which 512.0 MiB is free.\n"
    )
    return Defect(made, "gpu-memory-insufficient", ("Deployment serving/vllm-qwen-7b-deployment-vllm",), keys([pod]))
