"""A pod was admitted before the device plugin had registered healthy devices, mostly after a reboot.

What
    The kubelet rejected a pod with UnexpectedAdmissionError ("no healthy devices present; cannot allocate unhealthy devices", "cannot
    allocate unregistered device") on a node that offers the resource now.

Why
    After a reboot the kubelet restarts pods that were bound to the node before the plugin is back. The rejected pod is Failed for good
    and is not retried; its controller makes another one.

Fix
    Delete the failed pods. For single pods without a controller use one; keep the plugin's start quick (its priority class, no slow
    image pull).

References
    - Kubernetes: device manager; kubelet issue on admission before registration

Fires: rejected at boot, the node offers its GPU now
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {nvidia.com/gpu: 1}, allocatable: {nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status:
      phase: Failed
      reason: UnexpectedAdmissionError
      message: "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected"

Quiet: the pod runs
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {nvidia.com/gpu: 1}, allocatable: {nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Running}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.cluster.objects import Pod
from ragstow.rules.context import Context
from ragstow.rules.grouping import by_workload, evidence
from ragstow.rules.model import Finding, Fix
from ragstow.rules.rule import Rule


class DevicePluginStartRace(Rule):
    """See the page above."""

    cause = "device-plugin-start-race"
    severity = "medium"
    needs = frozenset({"snapshot", "events"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload that was rejected on a node which is healthy now."""
        hits = [
            hit
            for hit in context.texts.of_cause(self.cause)
            if hit.text.pod is not None and hit.text.pod.phase == "Failed" and _offers_now(context, hit.text.pod)
        ]
        for site, members in by_workload(context, hits):
            pod = site.pods[0]
            namespace, _, name = pod.partition("/")
            yield self.finding(
                f"{site.words} was rejected on {site.node} before the device plugin had registered its GPUs",
                "The kubelet admitted the pod while no healthy device was registered, as after a reboot. "
                + (
                    "The node offers its GPUs now; the"
                    if _known(context, site.node) and _serving(context, site.node)
                    else "The"
                )
                + " failed pod is not tried again.",
                Fix(
                    "Delete the failed pod; a controller (or you) makes a new one.",
                    command=f"kubectl -n {namespace} delete pod {name}",
                    disruption="none",
                    check="the new pod runs",
                ),
                site.objects,
                evidence=evidence(members),
                held=site.pods,
                confidence="likely" if _known(context, site.node) else "possible",
            )


def _offers_now(context: Context, pod: Pod) -> bool:
    """Whether the pod's node offers all its GPUs by now, or will when its plugin has started, or nothing is told of it.

    A node that is not in the data says nothing against it; a fault of the card would stand in the log of plugin or kernel.
    """
    node = context.inventory.find(pod.node or "")
    if node is None:
        return not context.texts.of_cause("gpu-unhealthy", strong=True)
    plugins = context.stack.pods("device-plugin", "hami-device-plugin", node=node.name)
    states = [state.state for plugin in plugins if (state := context.states.of(plugin)) is not None]
    if states and all(state == "starting" for state in states):
        return True  # it has not come back yet
    return bool(node.resources) and all(use.allocatable == use.capacity > 0 for use in node.resources.values() if use.capacity)


def _serving(context: Context, node: str | None) -> bool:
    found = context.inventory.find(node or "")
    return found is not None and any(use.allocatable for use in found.resources.values())


def _known(context: Context, node: str | None) -> bool:
    return context.inventory.find(node or "") is not None
