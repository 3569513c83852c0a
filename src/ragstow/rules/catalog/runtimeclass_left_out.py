"""A GPU workload sets no runtimeClassName in a cluster whose plugin and GPU pods all do.

What
    Against a cluster: the device plugin and every running pod with a GPU set a runtimeClassName, and the manifest's GPU pod sets none.

Why
    Where the NVIDIA runtime is not the default, a pod without the class gets its device counted and sees no driver: "no CUDA-capable
    device", "libcuda.so.1: cannot open shared object file" (runtimeclass-missing).

Fix
    Set the same runtimeClassName.

References
    - NVIDIA container toolkit: RuntimeClass; k3s: NVIDIA container runtime

Fires (lint): all others set it
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: plugin, namespace: nvidia, uid: d}
    spec:
      selector: {matchLabels: {app: plugin}}
      template: {metadata: {labels: {app: plugin}}, spec: {runtimeClassName: nvidia, containers: [{name: nvidia-device-plugin-ctr, image: k8s-device-plugin}]}}
    status: {desiredNumberScheduled: 1}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: old, namespace: rag, uid: p}
    spec: {nodeName: gpu-1, runtimeClassName: nvidia, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Running, containerStatuses: [{name: c, ready: true, restartCount: 0, state: {running: {}}}]}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: new, namespace: rag}
    spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}

Quiet (lint): so does this one
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: plugin, namespace: nvidia, uid: d}
    spec:
      selector: {matchLabels: {app: plugin}}
      template: {metadata: {labels: {app: plugin}}, spec: {runtimeClassName: nvidia, containers: [{name: nvidia-device-plugin-ctr, image: k8s-device-plugin}]}}
    status: {desiredNumberScheduled: 1}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: old, namespace: rag, uid: p}
    spec: {nodeName: gpu-1, runtimeClassName: nvidia, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Running, containerStatuses: [{name: c, ready: true, restartCount: 0, state: {running: {}}}]}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: new, namespace: rag}
    spec: {runtimeClassName: nvidia, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.context import Context
from ragstow.rules.demand import demands
from ragstow.rules.index.stack import template
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef, Patch
from ragstow.rules.rule import Rule
from ragstow.rules.states import gpu_holders


class RuntimeclassLeftOut(Rule):
    """See the page above."""

    cause = "runtimeclass-left-out"
    severity = "medium"
    needs = frozenset({"manifest", "snapshot"})
    asks_cluster = True

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each workload."""
        name = _in_use(context.cluster) if context.cluster is not None else None
        if name is None:
            return
        for demand in demands(context):
            if demand.spec.spec.get("runtimeClassName"):
                continue
            ref = ObjectRef.of(demand.manifest.object)
            patch = None
            if ref.kind in ("Deployment", "StatefulSet", "DaemonSet"):
                patch = Patch("strategic", ref, {"spec": {"template": {"spec": {"runtimeClassName": name}}}})
            yield self.finding(
                f"{ref} asks for {demand.resource} and sets no runtimeClassName; everybody else here uses {name}",
                "The device plugin and all running GPU pods of the cluster set it, which they need where nvidia is not the default runtime.",
                Fix(f"Set runtimeClassName: {name}.", patch=patch, disruption=f"restarts {ref}"),
                (ref,),
                evidence=(Evidence("(absent)", ref, ".".join(map(str, (*demand.spec.path, "runtimeClassName")))),),
                confidence="likely",
                file=demand.manifest.file,
                line=demand.manifest.line(*demand.spec.path),
            )


def _in_use(cluster: Context) -> str | None:
    """The RuntimeClass that the plugin and all running GPU pods set; None where one does without."""
    plugins = cluster.stack.workloads("device-plugin")
    classes = {str(template(plugin).get("runtimeClassName") or "") for plugin in plugins}
    holders = gpu_holders(cluster)
    classes |= {pod.runtime_class or "" for pod in holders}
    return classes.pop() or None if plugins and holders and len(classes) == 1 else None
