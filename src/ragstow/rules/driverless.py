"""Whether a container has no driver in it at all, which some programs word as a driver that is too old.

CUDA's runtime reports error 35 (cudaErrorInsufficientDriver) for an old libcuda and for none. Shared by both rules.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragstow.cluster.objects import Pod
from ragstow.rules import images
from ragstow.rules.context import Context
from ragstow.rules.engines import GPU_DOMAIN, gpu_limits, has_claims
from ragstow.rules.grouping import by_workload
from ragstow.rules.index.texts import Hit

NO_DRIVER = "runtimeclass-missing"
"""The cause whose signatures say that a container sees no driver or no card."""


def driverless(context: Context, hits: Sequence[Hit]) -> bool:
    """Whether texts of one workload about its driver are to be read as "there is none": all of them may mean it, and the pod
    has no GPU, says elsewhere that it sees none, or is on a node whose driver is new enough for its image."""
    pods = [hit.text.pod for hit in hits if hit.text.pod is not None]
    if not pods or not all(hit.signature.without_driver for hit in hits):
        return False
    said = {hit.text.pod.key for hit in context.texts.of_cause(NO_DRIVER) if hit.text.pod is not None}
    return all(
        not (given(pod) or pod.runtime_class or context.stack.roles(pod)) or pod.key in said or _new_enough(context, pod)
        for pod in pods
    )


def sees_none(context: Context) -> tuple[Hit, ...]:
    """The texts of pods that see no driver or no card, those about a driver that is not there among them."""
    return context.remember("sees none", lambda: _sees_none(context))


def _sees_none(context: Context) -> tuple[Hit, ...]:
    old = [hit for hit in context.texts.of_cause("driver-cuda-mismatch") if hit.text.pod is not None]
    meant = [members for _, members in by_workload(context, old) if driverless(context, members)]
    return (*context.texts.of_cause(NO_DRIVER), *(hit for members in meant for hit in members))


def given(pod: Pod) -> bool:
    """Whether a container of the pod asks for a GPU device, names another resource of NVIDIA's, or uses a claim."""
    return any(
        any(gpu_limits(container.raw).values())
        or has_claims(container.raw)
        or any(name.startswith(GPU_DOMAIN) for name in container.limits)
        for container in pod.containers
    ) or any(name in pod.annotations for name in ("gpu-fraction", "gpu-memory"))


def _new_enough(context: Context, pod: Pod) -> bool:
    """Whether the node's labels give a CUDA that is not older than the one in the names of the pod's images."""
    node = context.snapshot.get("Node", pod.node or "")
    wanted = [version for container in pod.containers if (version := images.cuda(container.image)) is not None]
    if node is None or not wanted or pod.runtime_class:
        return False
    found = [node.labels.get(f"{GPU_DOMAIN}cuda.{name}", "") for name in ("runtime.major", "runtime.minor")]
    full = node.labels.get(f"{GPU_DOMAIN}cuda.runtime-version.full", "").split(".")[:2]
    parts = found if all(part.isdecimal() for part in found) else full
    return len(parts) == 2 and all(part.isdecimal() for part in parts) and (int(parts[0]), int(parts[1])) >= max(wanted)
