"""A container with several GPUs has the default /dev/shm of 64 MiB and fails in it.

What
    NCCL or PyTorch fails with "Error while creating shared memory segment /dev/shm/…", "No space left on device" there, or a bus
    error. Lint flags a container that spreads one engine over several cards without a memory-backed volume at /dev/shm.

Why
    Processes of one engine hand data to each other through /dev/shm. Kubernetes gives a container 64 MiB of it, whatever its memory
    limit; a Helm value such as shmSize does nothing where the chart renders it only under another condition.

Fix
    Mount an emptyDir with medium Memory at /dev/shm, sized for the engine (several GiB); it counts against the memory limit.

References
    - Kubernetes: emptyDir, medium Memory
    - NCCL user guide, troubleshooting: shared memory

Fires: NCCL cannot create its segment
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec:
      nodeName: gpu-1
      containers: [{name: vllm, image: vllm-openai, args: [--tensor-parallel-size, "2"], resources: {limits: {nvidia.com/gpu: 2}}}]
    status:
      phase: Running
      containerStatuses: [{name: vllm, ready: false, restartCount: 3, state: {waiting: {reason: CrashLoopBackOff}}}]
    ---
    kind: Log
    name: vllm.txt
    text: |
      Error while creating shared memory segment /dev/shm/nccl-F9ffgB (size 9637888)

Quiet: the volume is mounted and the server runs
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec:
      nodeName: gpu-1
      containers:
      - name: vllm
        image: vllm-openai
        args: [--tensor-parallel-size, "2"]
        resources: {limits: {nvidia.com/gpu: 2}}
        volumeMounts: [{name: shm, mountPath: /dev/shm}]
      volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}]
    status:
      phase: Running
      containerStatuses: [{name: vllm, ready: true, restartCount: 0, state: {running: {}}}]

Fires (lint): two cards, no volume at /dev/shm
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec:
      containers: [{name: vllm, image: vllm-openai, args: [--tensor-parallel-size=2], resources: {limits: {nvidia.com/gpu: 2}}}]

Quiet (lint): one card needs none
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag}
    spec:
      containers: [{name: vllm, image: vllm-openai, resources: {limits: {nvidia.com/gpu: 1}}}]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.rules.context import Context
from ragstow.rules.engines import gpu_limits, parallel
from ragstow.rules.grouping import by_workload, evidence, sure
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef, Patch
from ragstow.rules.rule import Rule

_BUS_ERROR = 135
"""128 + SIGBUS."""
_SEVERAL = 2


class ShmTooSmall(Rule):
    """See the page above."""

    cause = "shm-too-small"
    severity = "high"
    needs = frozenset({"manifest", "logs"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload whose processes failed in /dev/shm."""
        said = context.texts.of_cause(self.cause)
        for site, hits in by_workload(context, said):
            pods = [hit.text.pod for hit in hits if hit.text.pod is not None]
            strong = any(hit.signature.strong for hit in hits)
            if not strong and not any(_lacks(pod.spec, container.raw) for pod in pods for container in pod.containers):
                continue
            mounted = bool(pods) and not any(_lacks(pod.spec, container.raw) for pod in pods for container in pod.containers)
            yield self.finding(
                f"{site.words} fails in /dev/shm, which "
                + ("is full" + _limit(pods[0].spec) if mounted else "has the default 64 MiB"),
                "The processes of the engine share memory through /dev/shm. "
                + (
                    "The volume mounted there has no room left for what they need; files of processes that were killed stay in it until "
                    "the pod is deleted."
                    if mounted
                    else "Kubernetes gives it 64 MiB unless a memory-backed volume is mounted there, whatever the container's memory limit."
                ),
                _fix(site.workload, pods[0].containers[0].name if pods and pods[0].containers else "<container>"),
                site.objects,
                evidence=evidence(hits),
                held=site.pods,
                confidence=sure(hits),
            )
        yield from self._killed_by_a_bus_error(context, {hit.text.pod.key for hit in said if hit.text.pod is not None})

    def _killed_by_a_bus_error(self, context: Context, said: set[str]) -> Iterator[Finding]:
        """Nothing is written when a process dies of SIGBUS; its exit code says it."""
        seen: set[ObjectRef] = set()
        for state in context.states.in_state("crashing"):
            codes = {entry.name: entry.last_exit_code or entry.exit_code for entry in state.containers}
            workload = context.owners.workload(state.pod)
            for container in state.pod.containers:
                cards = max(parallel(container.raw), sum(gpu_limits(container.raw).values()))
                if (
                    codes.get(container.name) != _BUS_ERROR
                    or cards < _SEVERAL
                    or state.pod.key in said
                    or workload in seen
                    or not _lacks(state.pod.spec, container.raw)
                ):
                    continue
                seen.add(workload)
                yield self.finding(
                    f"{workload} dies of a bus error with {cards} GPUs and the default 64 MiB of /dev/shm",
                    "Exit code 135 is SIGBUS: a page of shared memory could not be had. The processes of an engine on several GPUs share "
                    "memory through /dev/shm.",
                    _fix(workload, container.name),
                    (workload, ObjectRef.of(state.pod)),
                    evidence=(
                        Evidence(
                            str(_BUS_ERROR), ObjectRef.of(state.pod), f"status.containerStatuses[{container.name}] exitCode"
                        ),
                    ),
                    held=(state.pod.key,),
                    confidence="likely",
                )

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each container that spreads an engine over several cards without the volume."""
        for pod in context.pod_specs:
            for path, container in pod.containers():
                cards = max(parallel(container), sum(gpu_limits(container).values()))
                if cards > 1 and gpu_limits(container) and _lacks(pod.spec, container):
                    ref = ObjectRef.of(pod.manifest.object)
                    yield self.finding(
                        f"container {container.get('name')} of {ref} uses {cards} GPUs with the default 64 MiB of /dev/shm",
                        "NCCL and PyTorch hand data between the processes of several GPUs through /dev/shm.",
                        _fix(ref, str(container.get("name"))),
                        (ref,),
                        evidence=(Evidence("no volume mounted at /dev/shm", ref, ".".join(map(str, path))),),
                        # A program that nobody knows may do without; an engine told to use several cards does not.
                        severity="medium" if parallel(container) > 1 or _engine(context, container) else "low",
                        confidence="likely",
                        file=pod.manifest.file,
                        line=pod.manifest.line(*path),
                    )


def _engine(context: LintContext, container: Mapping[str, Any]) -> bool:
    """Whether the image is called after an engine that the facts know."""
    name = str(container.get("image") or "").rsplit("/", 1)[-1].partition(":")[0]
    return any(row.name in (name, *name.split("-")) for row in context.facts.engines.rows)


def _lacks(spec: Mapping[str, Any], container: Mapping[str, Any]) -> bool:
    memory = {
        volume.get("name")
        for volume in spec.get("volumes") or ()
        if (isinstance(volume.get("emptyDir"), Mapping) and volume["emptyDir"].get("medium") == "Memory")
        or "hostPath" in volume
    }
    return not any(
        str(mount.get("mountPath", "")).rstrip("/") == "/dev/shm" and mount.get("name") in memory
        for mount in container.get("volumeMounts") or ()
    ) and not spec.get("hostIPC")


def _limit(spec: Mapping[str, Any]) -> str:
    """The limit of the memory-backed volume, in words."""
    sizes = [
        str(volume["emptyDir"].get("sizeLimit") or "")
        for volume in spec.get("volumes") or ()
        if isinstance(volume.get("emptyDir"), Mapping) and volume["emptyDir"].get("medium") == "Memory"
    ]
    return f" at its limit of {sizes[0]}" if len(sizes) == 1 and sizes[0] else ""


def _fix(workload: ObjectRef | None, container: str) -> Fix:
    pod = {
        "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}],
        "containers": [{"name": container, "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}]}],
    }
    patch = None
    if workload is not None and workload.kind in ("Deployment", "StatefulSet", "DaemonSet"):
        patch = Patch("strategic", workload, {"spec": {"template": {"spec": pod}}})
    return Fix(
        "Mount an emptyDir with medium Memory at /dev/shm, sized for the engine; it counts against the memory limit.",
        patch=patch,
        disruption=f"restarts {workload}" if workload is not None else "restarts the pod",
        check="df -h /dev/shm in the container shows the new size",
    )
