"""A GPU node has no working driver, so that no GPU is advertised.

What
    A node that has a GPU (by its labels or machine type) offers none, and nothing more specific explains it: the driver installer or the
    operator's driver pod is missing, fails or waits, or a program says that it cannot reach the driver.

Why
    Plugin, feature discovery and every GPU pod wait for the driver. On clouds the installer runs only where a node-pool setting
    asks for it.

Fix
    Install the driver (node-pool option, driver DaemonSet, GPU Operator with driver.enabled) and look at the driver pod's log.

References
    - NVIDIA GPU Operator: troubleshooting; GKE: installing drivers

Fires: the driver pod fails
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.present: "true"}}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110}, allocatable: {cpu: 8, memory: 32Gi, pods: 110}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: nvidia-driver-daemonset-x, namespace: gpu-operator, uid: p}
    spec: {nodeName: gpu-1, containers: [{name: nvidia-driver-ctr, image: driver}]}
    status:
      phase: Running
      containerStatuses: [{name: nvidia-driver-ctr, ready: false, restartCount: 7, state: {waiting: {reason: CrashLoopBackOff}}}]

Quiet: it runs, and the node offers its GPU
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.present: "true"}}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: nvidia-driver-daemonset-x, namespace: gpu-operator, uid: p}
    spec: {nodeName: gpu-1, containers: [{name: nvidia-driver-ctr, image: driver}]}
    status:
      phase: Running
      containerStatuses: [{name: nvidia-driver-ctr, ready: true, restartCount: 0, state: {running: {}}}]
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.cluster.objects import Node
from ragstow.rules.context import Context
from ragstow.rules.daemonsets import looks_like_gpu_node
from ragstow.rules.grouping import evidence
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import unserved

_INSTALLER_OFF = ("disabled",)


class DriverNotInstalled(Rule):
    """See the page above."""

    cause = "driver-not-installed"
    severity = "high"
    needs = frozenset({"snapshot", "logs"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each GPU node without GPUs whose driver is missing or failing."""
        specific = context.texts.of_cause(
            "driver-library-mismatch", "device-plugin-nvml-missing", "runtime-handler-not-configured", strong=True
        )
        explained = {hit.text.node.name for hit in specific if hit.text.node is not None}
        for node in context.snapshot.nodes:
            if node.name in explained or not looks_like_gpu_node(context, node) or _offers(context, node) or node.unschedulable:
                continue
            hits = [
                hit
                for hit in context.texts.of_cause(self.cause)
                if hit.text.node is not None and hit.text.node.name == node.name
            ]
            drivers = context.stack.pods("driver", node=node.name)
            failing = [pod for pod in drivers if (state := context.states.of(pod)) is not None and not state.healthy]
            wanted = _asks_for_none(node)
            if not hits and not failing and not wanted:
                continue
            held = [key for group in unserved(context, [node.name]) for key in group.held]
            yield self.finding(
                f"node {node.name} has a GPU and no working driver",
                (
                    f"The driver pod {failing[0].key} is not ready."
                    if failing
                    else f"Its label says that no driver is to be installed ({wanted})."
                    if wanted
                    else "A program on the node cannot reach the driver."
                ),
                Fix(
                    "Install the driver: the cloud's node-pool option, its installer DaemonSet, or the operator with driver.enabled; read the "
                    "driver pod's log.",
                    command=f"kubectl -n {failing[0].namespace} logs {failing[0].name} -c {failing[0].containers[0].name}"
                    if failing and failing[0].containers
                    else "",
                    disruption="none on a node that offers no GPU",
                    check=f"kubectl get node {node.name} -o jsonpath='{{.status.allocatable}}'",
                ),
                (ObjectRef.of(node), *map(ObjectRef.of, failing)),
                evidence=(
                    *evidence(hits),
                    *(Evidence(str(pod.status.get("phase")), ObjectRef.of(pod), "status.phase") for pod in failing[:1]),
                    *([Evidence(wanted, ObjectRef.of(node), "metadata.labels")] if wanted else []),
                ),
                held=held,
                confidence="certain" if hits or failing else "likely",
            )


def _offers(context: Context, node: Node) -> bool:
    found = context.inventory.node(node.name)
    return found.sharing == "dra" or any(use.capacity for use in found.resources.values())


def _asks_for_none(node: Node) -> str:
    key = "cloud.google.com/gke-gpu-driver-version"
    return f"{key}={node.labels[key]}" if node.labels.get(key) in _INSTALLER_OFF else ""
