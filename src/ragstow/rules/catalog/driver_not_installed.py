"""A GPU node has no working driver, so that no GPU is advertised.

What
    A node that has a GPU (by its labels or machine type) offers none, and nothing more specific explains it: the driver installer or the
    operator's driver pod is missing, fails or waits, or a program says that it cannot reach the driver. Where pods wait for a GPU node
    whose plugin runs and registers nothing, and nothing else explains it, this is what remains.

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
from ragstow.rules.drivers import DriverSigns, driver_signs, idle_plugin, outside_runtime
from ragstow.rules.grouping import by_node, evidence
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import unserved
from ragstow.rules.youth import just_joined, still_starting


class DriverNotInstalled(Rule):
    """See the page above."""

    cause = "driver-not-installed"
    severity = "high"
    needs = frozenset({"snapshot", "logs"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each GPU node without GPUs whose driver is missing or failing."""
        specific = context.texts.of_cause("driver-library-mismatch", "runtime-handler-not-configured", strong=True)
        explained = {hit.text.node.name for hit in specific if hit.text.node is not None}
        nvml = context.texts.of_cause("device-plugin-nvml-missing", strong=True)
        unloaded = {hit.text.node.name for hit in nvml if hit.text.node is not None}
        for node in context.snapshot.nodes:
            if just_joined(context, node):
                continue
            signs = driver_signs(context, node.name)
            if not signs and idle_plugin(context, node):
                yield from self._silent(context, node)
            if not signs or node.name in explained or node.unschedulable or (node.name in unloaded and not signs.absent):
                continue
            if _offers(context, node, signs) or not (signs.absent or looks_like_gpu_node(context, node)):
                continue
            if _being_built(context, node, signs):
                continue
            yield self._finding(context, node, signs)
        known = {node.name for node in context.snapshot.nodes}
        homeless = [hit for hit in context.texts.of_cause(self.cause, strong=True) if hit.text.node is None]
        for site, hits in by_node(homeless):
            if site.node not in known and (site.pods or not known):
                yield self.finding(
                    f"a program on {site.words} cannot reach the NVIDIA driver",
                    "The node is not in the data, so what it offers is unknown; its driver is missing or does not load.",
                    Fix(
                        "Look at nvidia-smi and dmesg on the node; install the driver, or read the log of the driver pod there."
                    ),
                    site.objects,
                    evidence=evidence(hits),
                    held=site.pods,
                    confidence="likely",
                )

    def _silent(self, context: Context, node: Node) -> Iterator[Finding]:
        """A GPU node that pods wait for, whose plugin runs and finds nothing, with no other explanation: the residual cause."""
        plugin = context.stack.pods("device-plugin", node=node.name)[0]
        held = [key for group in unserved(context, [node.name]) for key in group.held]
        if held and not outside_runtime(context, plugin):
            yield self.finding(
                f"node {node.name} has a GPU and offers none, though its device plugin runs: its driver is missing or does not load",
                f"{plugin.key} runs and registers no device, discovery has written nothing about a driver, and nothing else in the data explains "
                "it. A node that has just joined needs some minutes.",
                Fix(
                    "Look at the plugin's log and at nvidia-smi on the node; install the driver: the cloud's node-pool option, its installer "
                    "DaemonSet, or the operator with driver.enabled.",
                    command=f"kubectl -n {plugin.namespace} logs {plugin.name}",
                    disruption="none on a node that offers no GPU",
                    check=f"kubectl get node {node.name} -o jsonpath='{{.status.allocatable}}'",
                ),
                (ObjectRef.of(node), ObjectRef.of(plugin)),
                evidence=(
                    Evidence("no GPU", ObjectRef.of(node), "status.allocatable"),
                    Evidence(str(plugin.status.get("phase")), ObjectRef.of(plugin), "status.phase"),
                ),
                held=held,
                confidence="possible",
            )

    def _finding(self, context: Context, node: Node, signs: DriverSigns) -> Finding:
        failing, wanted = signs.failing, signs.declined
        held = [key for group in unserved(context, [node.name]) for key in group.held]
        return self.finding(
            f"node {node.name} has a GPU and no working driver",
            (
                f"The driver pod {failing[0].key} is not ready."
                if failing
                else f"Its label says that no driver is to be installed ({wanted})."
                if wanted
                else f"A program on the node cannot reach the driver{_meaning(signs)}."
                if signs.hits
                else f"{signs.waiting[0].key} waits for a driver, and no driver pod runs there: the host has none that works, and the operator is "
                "told to install none or has not got to it."
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
                *evidence(signs.hits),
                *(Evidence(str(pod.status.get("phase")), ObjectRef.of(pod), "status.phase") for pod in failing[:1]),
                *([Evidence(wanted, ObjectRef.of(node), "metadata.labels")] if wanted else []),
                *(
                    Evidence("not finished", ObjectRef.of(pod), "status.initContainerStatuses[driver-validation]")
                    for pod in signs.waiting[:1]
                ),
            ),
            held=(*(pod.key for pod in signs.waiting), *held),
            confidence="certain" if signs.hits or failing else "likely",
        )


def _meaning(signs: DriverSigns) -> str:
    meaning = next((hit.signature.meaning for hit in signs.hits if hit.signature.meaning), "")
    return f": {meaning}" if meaning else ""


def _being_built(context: Context, node: Node, signs: DriverSigns) -> bool:
    """Whether all that is to be seen is a driver pod that has not failed yet, for which nobody waits: the chart allows the module
    twenty minutes."""
    return (
        bool(signs.failing)
        and not (signs.hits or signs.declined)
        and all(still_starting(context, pod) for pod in signs.failing)
        and not any(group.held for group in unserved(context, [node.name]))
    )


def _offers(context: Context, node: Node, signs: DriverSigns) -> bool:
    """Whether the node still offers GPUs: then its driver works, whatever a log says. A plugin that has lost the driver leaves the
    capacity and offers none of it."""
    found = context.inventory.node(node.name)
    proved = any(hit.signature.strong for hit in signs.hits)
    return found.sharing == "dra" or any(use.allocatable if proved else use.capacity for use in found.resources.values())
