"""A GPU workload has no GPU limit, and so no GPU.

What
    An inference server (or a program that says it found no GPU) runs in a container without any GPU limit or claim, often on a GPU
    node by chance. Lint flags containers with an inference image, or GPU-only arguments, and no GPU.

Why
    Extended resources exist only as limits: without one the plugin gives no device, whatever the node has; a request alone is
    refused by the API server.

Fix
    Add the limit (`resources.limits.nvidia.com/gpu: 1`, or the name that the node's shares or slices have).

References
    - Kubernetes: scheduling GPUs

Fires: no limit, no platform
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.product: NVIDIA-L4}}
    status: {capacity: {nvidia.com/gpu: 4}, allocatable: {nvidia.com/gpu: 4}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: agent, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: app, image: agent, resources: {limits: {cpu: 1, memory: 2Gi}}}]}
    status:
      phase: Running
      containerStatuses: [{name: app, ready: false, restartCount: 5, state: {waiting: {reason: CrashLoopBackOff}}}]
    ---
    kind: Log
    name: app.txt
    text: |
      INFO No platform detected, vLLM is running on UnspecifiedPlatform

Quiet: a CPU program on a GPU node
    apiVersion: v1
    kind: Pod
    metadata: {name: agent, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: app, image: agent, resources: {limits: {cpu: 1, memory: 2Gi}}}]}
    status: {phase: Running, containerStatuses: [{name: app, ready: true, restartCount: 0, state: {running: {}}}]}

Fires (lint): tensor parallelism without GPUs
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec: {containers: [{name: server, image: "vllm/vllm-openai:v0.19.0", args: [--gpu-memory-utilization=0.9]}]}

Fires: a request and no limit, which the API server refuses
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag, uid: d}
    spec: {replicas: 1, selector: {matchLabels: {app: llm}}}
    status: {replicas: 0, conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: "Pod \\"llm-5f-x\\" is invalid: spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"}]}

Quiet (lint): with a limit
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec: {containers: [{name: server, image: "vllm/vllm-openai:v0.19.0", args: [--gpu-memory-utilization=0.9], resources: {limits: {nvidia.com/gpu: 1}}}]}

Quiet (lint): another vendor's accelerator
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec: {containers: [{name: server, image: "vllm/vllm-tpu:v0.19.0", args: [--tensor-parallel-size=8], resources: {limits: {google.com/tpu: 8}}}]}

Quiet (lint): a patch that leaves the rest to its base
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec: {template: {spec: {containers: [{name: server, args: [--num-shard=2]}]}}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragstow.cluster.objects import Container
from ragstow.rules.context import Context
from ragstow.rules.creation import refused
from ragstow.rules.driverless import given, sees_none
from ragstow.rules.engines import GPU_DOMAIN, KV_BYTES, MEMORY_FRACTION, environment, flag, has_claims, limits, parallel
from ragstow.rules.grouping import by_workload, evidence
from ragstow.rules.index.texts import Hit
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef, Patch
from ragstow.rules.rule import Rule
from ragstow.rules.states import serves

_FAILS = re.compile(r"(?i)error|exception|panic|fatal")
_GPU_WORDS = re.compile(r"cuda|gpu|nvidia|[-_]cu1\d\d|vllm|sglang|tensorrt|triton")
_NO_LIMIT = "Limit must be set for non overcommitable resources"
"""pkg/apis/core/validation: a request of an extended resource without a limit."""


class GpuLimitMissing(Rule):
    """See the page above."""

    cause = "gpu-limit-missing"
    severity = "high"
    needs = frozenset({"manifest", "logs", "snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload that looks for a GPU and never asked for one."""
        # The log line is the one of a missing RuntimeClass; without a limit it is this.
        hits = [
            hit
            for hit in (*sees_none(context), *context.texts.of_cause(self.cause))
            if hit.text.pod is not None
            and not given(hit.text.pod)
            and not context.stack.roles(hit.text.pod)
            and (not (hit.signature.passing or serves(context, hit.text.pod)) or _meant(context, hit))
        ]
        for site, members in by_workload(context, hits):
            pods = [hit.text.pod for hit in members if hit.text.pod is not None]
            container = pods[0].containers[0].name if pods[0].containers else "<container>"
            offered = sorted({name for node in context.inventory.nodes for name, use in node.resources.items() if use.capacity})
            name = offered[0] if offered else f"{GPU_DOMAIN}gpu"
            patch = None
            if site.workload is not None and site.workload.kind in ("Deployment", "StatefulSet"):
                inner = {"containers": [{"name": container, "resources": {"limits": {name: 1}}}]}
                patch = Patch("strategic", site.workload, {"spec": {"template": {"spec": inner}}})
            yield self.finding(
                f"{site.words} looks for a GPU and has not asked for one: no GPU limit",
                f"No container of the pod has a GPU limit or a claim, so that no device was given to it, whatever node {site.node or ''} has.",
                Fix(
                    f"Add resources.limits.{name}: 1 to container {container}.",
                    patch=patch,
                    disruption=f"restarts {site.words}",
                    check="kubectl exec … -- nvidia-smi -L lists a card",
                ),
                site.objects,
                evidence=(
                    *evidence(members),
                    Evidence("no GPU in limits", ObjectRef.of(pods[0]), "spec.containers[*].resources.limits"),
                ),
                held=site.pods,
                confidence="likely",
            )

        for workload, said in refused(context, lambda message: _NO_LIMIT in message).items():
            yield self.finding(
                f"{workload}: its pods are refused, since they request a GPU without a limit",
                f"The API server says: {said[0].value.removeprefix('Error creating: ')}. An extended resource needs a limit; with a limit alone "
                "the request is set to it.",
                Fix(
                    "Write the GPU under resources.limits.",
                    command=f"kubectl -n {workload.namespace} get {workload.kind.lower()} {workload.name} -o yaml",
                    check=f"kubectl -n {workload.namespace} get events --field-selector reason=FailedCreate   # no new one",
                ),
                (workload,),
                evidence=said[:3],
            )

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each container that is started for GPUs and has none."""
        for pod in context.pod_specs:
            for path, container in pod.containers():
                if has_claims(container) or any(map(_accelerator, limits(container))):
                    continue
                if not container.get("image"):
                    continue  # a patch: the limit may stand in what it is laid over
                wants = flag(container, MEMORY_FRACTION) or flag(container, KV_BYTES) or parallel(container) > 1
                annotated = any(key in (pod.metadata.get("annotations") or {}) for key in ("gpu-fraction", "gpu-memory"))
                if not wants or annotated:
                    continue
                ref = ObjectRef.of(pod.manifest.object)
                yield self.finding(
                    f"container {container.get('name')} of {ref} is started for a GPU and has no GPU limit",
                    "Its arguments speak of GPU memory or of several GPUs; without a limit or claim no device is given to it.",
                    Fix("Add the GPU to resources.limits."),
                    (ref,),
                    evidence=(Evidence("no GPU in limits", ref, ".".join(map(str, path)) + ".resources.limits"),),
                    file=pod.manifest.file,
                    line=pod.manifest.line(*path),
                )


def _meant(context: Context, hit: Hit) -> bool:
    """Whether a pod that notes in passing that it sees no GPU was meant to have one.

    It is on a node with GPUs, or its image or settings speak of them; one that is ready needs none unless they do. And it does
    not fail for something that it says later.
    """
    text, pod = hit.text, hit.text.pod
    if pod is None:
        return False
    node = context.inventory.find(pod.node)
    beside = node is not None and any(use.capacity for use in node.resources.values())
    known = context.snapshot.get("Node", pod.node or "") is not None
    speaks = any(_speaks_of_gpus(container) or hit.signature.software in container.image for container in pod.containers)
    if not (speaks or beside or not known) or (serves(context, pod) and not speaks):
        return False
    log = next((log for log in context.logs.of(pod) if log.path == text.evidence.file), None)
    later = log.lines[text.evidence.line or 0 :] if log is not None else ()
    state = context.states.of(pod)
    return state is None or state.state != "crashing" or not any(_FAILS.search(line) for line in later)


def _speaks_of_gpus(container: Container) -> bool:
    return bool(_GPU_WORDS.search(container.image.lower())) or "NVIDIA_VISIBLE_DEVICES" in environment(container.raw)


def _accelerator(resource: str) -> bool:
    """Whether an extended resource stands for a card, NVIDIA's or another vendor's (google.com/tpu, amd.com/gpu)."""
    domain, slash, _ = str(resource).partition("/")
    return f"{domain}/" == GPU_DOMAIN or (bool(slash) and "nvidia" not in domain and not domain.endswith("kubernetes.io"))
