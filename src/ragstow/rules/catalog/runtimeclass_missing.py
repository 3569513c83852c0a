"""A GPU pod runs under the default runtime, which is not NVIDIA's: runtimeClassName is not set.

What
    A container with a GPU says that there is none ("No platform detected", "Failed to infer device type", libcuda.so.1 not found, no
    CUDA-capable device), the pod sets no runtimeClassName, and a RuntimeClass with an nvidia handler exists.

Why
    Where nvidia is not the runtime's default (k3s, RKE2, many kubeadm set-ups) only pods of that RuntimeClass get the devices and the
    driver's libraries. The plugin allocated a card all the same, so the pod looks right from outside.

Fix
    Set runtimeClassName: nvidia in the pod template, or make nvidia the default runtime, or let CDI do the work.

References
    - Kubernetes: RuntimeClass
    - NVIDIA Container Toolkit: containerd

Fires: vLLM finds no platform
    apiVersion: node.k8s.io/v1
    kind: RuntimeClass
    metadata: {name: nvidia, uid: r}
    handler: nvidia
    ---
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {nvidia.com/gpu: 1}, allocatable: {nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: vllm, image: vllm-openai, resources: {limits: {nvidia.com/gpu: 1}}}]}
    status:
      phase: Running
      containerStatuses: [{name: vllm, ready: false, restartCount: 18, state: {waiting: {reason: CrashLoopBackOff}}}]
    ---
    kind: Log
    name: vllm.txt
    text: |
      INFO [__init__.py:252] No platform detected, vLLM is running on UnspecifiedPlatform

Quiet: CDI does the work, no class is needed
    apiVersion: node.k8s.io/v1
    kind: RuntimeClass
    metadata: {name: nvidia, uid: r}
    handler: nvidia
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: vllm, image: vllm-openai, resources: {limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Running, containerStatuses: [{name: vllm, ready: true, restartCount: 0, state: {running: {}}}]}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.cluster.objects import Pod
from ragstow.rules.context import Context
from ragstow.rules.driverless import sees_none
from ragstow.rules.engines import gpu_limits, has_claims
from ragstow.rules.grouping import by_workload, evidence
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef, Patch
from ragstow.rules.rule import Rule


class RuntimeclassMissing(Rule):
    """See the page above."""

    cause = "runtimeclass-missing"
    severity = "high"
    needs = frozenset({"logs", "snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload that has a GPU and sees none."""
        hits = [hit for hit in sees_none(context) if hit.text.pod is not None and has_gpu(hit.text.pod)]
        for site, members in by_workload(context, hits):
            pods = [hit.text.pod for hit in members if hit.text.pod is not None]
            if any(pod.runtime_class for pod in pods) or all(context.stack.roles(pod) for pod in pods):
                continue
            classes = [
                item for item in context.snapshot.of("RuntimeClass", "node.k8s.io") if "nvidia" in str(item.raw.get("handler"))
            ]
            name = classes[0].name if classes else "nvidia"
            patch = None
            if classes and site.workload is not None and site.workload.kind in ("Deployment", "StatefulSet"):
                patch = Patch("strategic", site.workload, {"spec": {"template": {"spec": {"runtimeClassName": name}}}})
            yield self.finding(
                f"{site.words} has a GPU and does not see it: runtimeClassName is not set",
                "The plugin allocated a card, but the container runs under the default runtime, which injects neither devices nor driver "
                f"libraries. RuntimeClass {name} " + ("exists." if classes else "does not exist either."),
                Fix(
                    f"Set runtimeClassName: {name} in the pod template"
                    + ("" if classes else " and create that RuntimeClass")
                    + ", or make nvidia the default runtime of the nodes.",
                    patch=patch,
                    disruption=f"restarts {site.words}",
                    check="kubectl exec … -- nvidia-smi -L lists the card",
                ),
                (*site.objects, *map(ObjectRef.of, classes)),
                evidence=(
                    *evidence(members),
                    Evidence("(absent)", ObjectRef.of(pods[0]), "spec.runtimeClassName"),
                    *(Evidence(str(item.raw.get("handler")), ObjectRef.of(item), "handler") for item in classes[:1]),
                ),
                held=site.pods,
                confidence="certain" if classes else "likely",
            )


def has_gpu(pod: Pod) -> bool:
    """Whether a container of the pod asks for a GPU device or uses a claim."""
    return any(any(gpu_limits(container.raw).values()) or has_claims(container.raw) for container in pod.containers)
