"""A running container has lost access to its GPU devices ("Failed to initialize NVML: Unknown Error").

What
    A program in a container that had its GPU says "Failed to initialize NVML: Unknown Error" (NVML 999), while the host's own
    nvidia-smi still works. Typical after `systemctl daemon-reload` or an update of the container's cgroup: with the legacy
    runtime hook systemd does not know of the device rules that the hook added and drops them.

Why
    The server keeps running and answers nothing, or crashes; all GPU pods of the node are hit at the same moment, and a restart of
    the container alone does not always bring the device back.

Fix
    Recreate the pod now. For good: let CDI hand out the devices, or pass the device specs (`compatWithCPUManager: true` in the
    plugin's chart, PASS_DEVICE_SPECS=true), or create the /dev/char links with `nvidia-ctk system create-dev-char-symlinks`.

References
    - NVIDIA Container Toolkit, troubleshooting: containers losing access to GPUs with error "Failed to initialize NVML: Unknown Error"
    - NVML error 999 (NVML_ERROR_UNKNOWN)

Fires: nvidia-smi inside fails although the pod runs
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec:
      nodeName: gpu-1
      containers: [{name: vllm, image: vllm-openai, resources: {limits: {nvidia.com/gpu: 1}}}]
    status:
      phase: Running
      containerStatuses: [{name: vllm, ready: true, restartCount: 0, state: {running: {}}}]
    ---
    kind: Log
    name: llm-0-probe.txt
    text: |
      $ nvidia-smi -L
      Failed to initialize NVML: Unknown Error

Quiet: nvidia-smi inside lists the card
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec:
      nodeName: gpu-1
      containers: [{name: vllm, image: vllm-openai, resources: {limits: {nvidia.com/gpu: 1}}}]
    status:
      phase: Running
      containerStatuses: [{name: vllm, ready: true, restartCount: 0, state: {running: {}}}]
    ---
    kind: Log
    name: llm-0-probe.txt
    text: |
      $ nvidia-smi -L
      GPU 0: NVIDIA A10 (UUID: GPU-00000000-0000-0000-0000-000000000001)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragstow.rules.context import Context
from ragstow.rules.engines import gpu_limits, has_claims
from ragstow.rules.grouping import by_workload, evidence, sure
from ragstow.rules.index.texts import Hit
from ragstow.rules.model import Finding, Fix
from ragstow.rules.rule import Rule

_RIGHTS = re.compile(r"^c 195:\d+ rw")
"""A card in the list of devices that a cgroup allows."""


def _counts(context: Context, hit: Hit) -> bool:
    """Whether a sign that does not prove it alone is of a pod that was given a GPU, and is not taken back in the same text."""
    if hit.signature.strong:
        return True
    pod = hit.text.pod
    given = pod is not None and any(any(gpu_limits(item.raw).values()) or has_claims(item.raw) for item in pod.containers)
    allowed = any(log.path == hit.text.evidence.file and any(True for _ in log.find(_RIGHTS)) for log in context.logs.all)
    return given and not allowed


class CgroupDeviceLost(Rule):
    """See the page above."""

    cause = "cgroup-device-lost"
    severity = "critical"
    needs = frozenset({"logs", "probe"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload that says so."""
        for site, hits in by_workload(context, [hit for hit in context.texts.of_cause(self.cause) if _counts(context, hit)]):
            pod = site.pods[0] if site.pods else "<namespace>/<pod>"
            namespace, _, name = pod.partition("/")
            yield self.finding(
                f"{site.words} has lost access to its GPU while running",
                "Programs inside the container cannot open the card that it was given: the device rules of its cgroup are gone, as after "
                "a reload of systemd on the node. The host itself may look healthy.",
                Fix(
                    "Recreate the pod now. Then hand out devices by CDI, or with device specs (compatWithCPUManager=true), so that a "
                    "reload of systemd cannot take them away again.",
                    command=f"kubectl delete pod -n {namespace} {name}",
                    disruption=f"restarts {pod}",
                    check=f"kubectl exec -n {namespace} {name} -- nvidia-smi -L   # in the new pod",
                ),
                site.objects,
                evidence=evidence(hits),
                held=site.pods,
                confidence=sure(hits),
            )
