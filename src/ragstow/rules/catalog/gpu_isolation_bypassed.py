"""A container can use GPUs that it was not given: it holds none and sees all, or its memory is not limited as believed.

What
    A pod without a GPU limit lists every GPU of its node. With nvidia as the default runtime the image's NVIDIA_VISIBLE_DEVICES=all (which
    CUDA base images set) is honoured for any container; a privileged container sees all cards whatever it was given; a share whose
    memory cap (HAMi, Volcano) is not in force shows the whole card. Lint flags that variable in containers that ask for no GPU.

Why
    The scheduler and the plugin know nothing of such use: memory of the rightful holder disappears, and a card can be taken by a pod
    that nobody counts.

Fix
    Let the toolkit ignore the variable in unprivileged containers (accept-nvidia-visible-devices-envvar-when-unprivileged = false
    with deviceListStrategy volume-mounts, or CDI), use the RuntimeClass instead of a default runtime, or set
    NVIDIA_VISIBLE_DEVICES=void on pods without GPU.

References
    - NVIDIA Container Toolkit: environment variables; read list of GPU devices from volume mounts

Fires: a probe in a pod without GPU lists two
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {nvidia.com/gpu: 2}, allocatable: {nvidia.com/gpu: 2}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: tool, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: main, image: tool}]}
    status: {phase: Running, containerStatuses: [{name: main, ready: true, restartCount: 0, state: {running: {}}}]}
    ---
    kind: Log
    name: tool-probe.txt
    text: |
      $ nvidia-smi -L
      GPU 0: Tesla V100-PCIE-16GB (UUID: GPU-00000000-0000-0000-0000-000000000001)

Quiet: the pod has a GPU and sees it
    apiVersion: v1
    kind: Pod
    metadata: {name: tool, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: main, image: tool, resources: {limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Running, containerStatuses: [{name: main, ready: true, restartCount: 0, state: {running: {}}}]}
    ---
    kind: Log
    name: tool-probe.txt
    text: |
      $ nvidia-smi -L
      GPU 0: Tesla V100-PCIE-16GB (UUID: GPU-00000000-0000-0000-0000-000000000001)

Fires (lint): the variable without a GPU
    apiVersion: v1
    kind: Pod
    metadata: {name: tool, namespace: rag}
    spec: {containers: [{name: main, image: tool, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]}]}

Quiet (lint): the device plugin itself needs it
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: plugin, namespace: nvidia}
    spec: {template: {spec: {containers: [{name: nvidia-device-plugin-ctr, image: k8s-device-plugin, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]}]}}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragstow.cluster.objects import Pod
from ragstow.rules.context import Context
from ragstow.rules.engines import GPU_DOMAIN, environment, has_claims, limits
from ragstow.rules.index.logs import Log
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import gpu_nodes

_LISTED = re.compile(
    r"^GPU (?P<list>\d+): .+\(UUID: |^(?:.*\s)?(?:/dev/)?nvidia(?P<node>\d+)$|^\|\s+(?P<table>\d+)\s+\S.*\s(?:On|Off)\s+\|\s+[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:"
)
"""A card in the output of nvidia-smi -L, among the device nodes, or in the table of nvidia-smi."""
_SLICE = re.compile(r"^\s+MIG \S+\s+Device\s+\d+: \(UUID: (?P<uuid>[^)]+)\)")
"""A slice in the output of nvidia-smi -L."""
_MEMORY = re.compile(r"\|\s*\d+MiB\s*/\s*(?P<total>\d+)MiB\s*\|")
"""Memory used and memory there, in the table of nvidia-smi; where a share caps memory, the second is the cap."""
_ALL = re.compile(r"^NVIDIA_VISIBLE_DEVICES=all\s*$")
_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
_CAPS = (f"{GPU_DOMAIN}gpumem", "volcano.sh/vgpu-memory")
"""Memory of each card that HAMi and Volcano let a container use, in MiB."""
_NUMBERS = ("volcano.sh/vgpu-number", "volcano.sh/gpu-number")
_TOLERANCE = 1.1


class GpuIsolationBypassed(Rule):
    """See the page above."""

    cause = "gpu-isolation-bypassed"
    severity = "medium"
    needs = frozenset({"manifest", "logs", "files", "probe"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each pod that lists more GPUs, slices or memory than it was given."""
        for log in context.logs.all:
            pod = log.pod or _only_suspect(context, log)
            if pod is None or context.stack.roles(pod):
                continue
            given, slices = sum(_given(pod)), sum(_given(pod, "mig-"))
            cards = {match["list"] or match["node"] or match["table"]: number for number, match in log.find(_LISTED)}
            parts = {match["uuid"]: number for number, match in log.find(_SLICE)} if slices == given > 0 else {}
            seen, what = (parts, "MIG slice(s)") if len(parts) > given else (cards, "GPU(s)")
            if len(seen) > given and not (_privileged(pod) and not given):
                yield self._more(context, log, pod, f"sees {len(seen)} {what} and was given {given}", next(iter(seen.values())))
            elif cap := min(_caps(pod), default=0):
                totals = {int(match["total"]): number for number, match in log.find(_MEMORY)}
                if totals and max(totals) > cap * _TOLERANCE:
                    yield self._uncapped(context, log, pod, cap, max(totals), totals[max(totals)])

    def _more(self, context: Context, log: Log, pod: Pod, words: str, number: int) -> Finding:
        workload = context.owners.workload(pod)
        extra = [log.evidence(line) for line, _ in log.find(_ALL)]
        host = [
            item.evidence(line)
            for item in context.logs.files
            for line, _ in item.find(re.compile(r'default_runtime_name\s*=\s*"nvidia"'))
        ]
        open_to_all = _privileged(pod)
        return self.finding(
            f"{workload} {words}",
            "Its container lists GPUs that neither the scheduler nor the plugin gave to it: "
            + (
                "it is privileged, so that every device of the node is open to it."
                if open_to_all
                else "NVIDIA_VISIBLE_DEVICES is honoured by the runtime for any container"
                + (", since nvidia is the node's default runtime." if host else ".")
            ),
            Fix(
                "Drop privileged and add the capabilities that it needs; where it must stay, give it a node of its own or CUDA_VISIBLE_DEVICES."
                if open_to_all
                else "Let the toolkit ignore that variable in unprivileged containers (or hand out devices by CDI), use the RuntimeClass "
                "instead of a default runtime, or set NVIDIA_VISIBLE_DEVICES=void on pods without GPU.",
                command=""
                if open_to_all
                else "nvidia-ctk config --in-place --set accept-nvidia-visible-devices-envvar-when-unprivileged=false "
                "--set accept-nvidia-visible-devices-as-volume-mounts=true   # on the node; plugin: deviceListStrategy volume-mounts",
                disruption=f"restarts {workload}" if open_to_all else "restarts the container runtime and the device plugin",
                check="nvidia-smi -L in the pod lists only what it was given",
            ),
            (workload, ObjectRef.of(pod)),
            evidence=(log.evidence(number), *extra[:1], *host[:1]),
            confidence="certain" if log.certain and log.pod is not None else "likely",
        )

    def _uncapped(self, context: Context, log: Log, pod: Pod, cap: int, total: int, number: int) -> Finding:
        workload = context.owners.workload(pod)
        loader = [log.evidence(line) for line, _ in log.find(re.compile(r"ld\.so\.preload cannot be preloaded"))]
        return self.finding(
            f"{workload} was given {cap} MiB of a card and can use {total} MiB",
            "The vendor's library that caps memory inside the container is not in force there"
            + (": the loader cannot read it." if loader else ", so that the limit binds nobody."),
            Fix(
                "Look at the vendor's library in the container (ld.so.preload, its mount) and at the process's environment: a shell that "
                "drops it (SSH, nested containers, a static binary) is not capped. Recreate the pod once the node has the library.",
                disruption=f"restarts {workload}",
                check=f"nvidia-smi in the pod shows {cap} MiB",
            ),
            (workload, ObjectRef.of(pod)),
            evidence=(
                *loader[:1],
                log.evidence(number),
                Evidence(f"{cap} MiB", ObjectRef.of(pod), "spec.containers[].resources.limits"),
            ),
            confidence="certain" if log.certain and log.pod is not None else "likely",
        )

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each container that takes all GPUs by variable and asks for none."""
        for pod in context.pod_specs:
            for path, container in pod.containers():
                named = context.facts.stack.programs_of([(str(container.get("name") or ""), str(container.get("image") or ""))])
                gpu = any(str(name).startswith(GPU_DOMAIN) for name in limits(container)) or has_claims(container)
                if environment(container).get(_VARIABLE) == "all" and not named and not gpu:
                    ref = ObjectRef.of(pod.manifest.object)
                    yield self.finding(
                        f"container {container.get('name')} of {ref} takes all GPUs by {_VARIABLE} and asks for none",
                        "Under the NVIDIA runtime it sees every card of its node, unknown to the scheduler.",
                        Fix("Ask for a GPU in resources.limits, or drop the variable."),
                        (ref,),
                        evidence=(Evidence("all", ref, f"env[{_VARIABLE}]"),),
                        file=pod.manifest.file,
                        line=pod.manifest.line(*path, "env"),
                    )


def _given(pod: Pod, *kinds: str) -> Iterator[int]:
    """Devices that the containers were given, of any kind or of these (the beginning of a resource's name)."""
    for container in pod.containers:
        for name, amount in container.limits.items():
            if (name in _NUMBERS and not kinds) or (
                name.startswith(GPU_DOMAIN)
                and name.removeprefix(GPU_DOMAIN).startswith(kinds or ("gpu", "mig-"))
                and "mem" not in name
                and "cores" not in name
            ):
                yield amount
        if has_claims(container.raw) and not kinds:
            yield 1


def _caps(pod: Pod) -> Iterator[int]:
    for container in pod.containers:
        for name in _CAPS:
            if container.limits.get(name):
                yield container.limits[name]


def _privileged(pod: Pod) -> bool:
    return any((container.raw.get("securityContext") or {}).get("privileged") is True for container in pod.containers)


def _only_suspect(context: Context, log: Log) -> Pod | None:
    """A probe's output that names no pod belongs to the only pod of the data, if it has no GPU or the file says that it is of a pod."""
    if log.node is not None or "probe" not in log.path or "host" in log.path:
        return None
    gpus = {node.name for node in gpu_nodes(context)}
    pods = [
        pod
        for pod in context.snapshot.pods
        if pod.node and (not gpus or pod.node in gpus) and not pod.finished and not context.stack.roles(pod)
    ]
    return pods[0] if len(pods) == 1 and ("pod" in log.path or not sum(_given(pods[0]))) else None
