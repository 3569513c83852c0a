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

Fires: an event is all there is
    apiVersion: v1
    kind: Event
    metadata: {name: trainer.1, namespace: rag, uid: e}
    involvedObject: {kind: Pod, name: trainer, namespace: rag, uid: a}
    reason: UnexpectedAdmissionError
    message: "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected"

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
from ragstow.rules.grouping import evidence
from ragstow.rules.index.texts import Hit
from ragstow.rules.model import Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule


class DevicePluginStartRace(Rule):
    """See the page above."""

    cause = "device-plugin-start-race"
    severity = "medium"
    needs = frozenset({"snapshot", "events"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for all pods that were rejected on a node which is healthy now."""
        by_node: dict[str, list[Hit]] = {}
        for hit in context.texts.of_cause(self.cause):
            pod = hit.text.pod
            if pod is not None and pod.phase == "Failed" and _offers_now(context, pod):
                by_node.setdefault(pod.node or "", []).append(hit)
            elif pod is None and hit.text.about is not None and not context.texts.of_cause("gpu-unhealthy", strong=True):
                by_node.setdefault("", []).append(hit)  # an event about a pod that is not in the data
        for node, hits in sorted(by_node.items()):
            pods = [ref for ref in dict.fromkeys(map(_pod, hits)) if ref is not None]
            owners = [context.owners.workload(hit.text.pod) for hit in hits if hit.text.pod is not None]
            workloads = list(dict.fromkeys(owners or pods))
            reboots = context.events.about(ObjectRef("Node", "", node), "Rebooted") if node else ()
            known = context.inventory.find(node) is not None
            yield self.finding(
                f"{workloads[0] if len(workloads) == 1 else f'{len(workloads)} workloads'}: {len(pods)} pod(s) were rejected on "
                f"{node or 'their node'} before the device plugin had registered its GPUs",
                "The kubelet admitted them while no healthy device was registered, as after a reboot. "
                + ("The node offers its GPUs now; the" if known and _serving(context, node) else "The")
                + " failed pods are not tried again.",
                Fix(
                    "Delete the failed pods; a controller (or you) makes new ones.",
                    command="; ".join(
                        f"kubectl -n {space} delete pod {' '.join(pod.name for pod in pods if pod.namespace == space)}"
                        for space in dict.fromkeys(pod.namespace for pod in pods)
                    ),
                    disruption="none",
                    check="the new pods run",
                ),
                tuple(dict.fromkeys((*workloads, *pods, *([ObjectRef("Node", "", node)] if known else [])))),
                evidence=(*evidence(hits), *(event.evidence for event in reboots[:1])),
                held=[f"{pod.namespace}/{pod.name}" for pod in pods],
                confidence="likely" if known else "possible",
            )


def _pod(hit: Hit) -> ObjectRef | None:
    return ObjectRef.of(hit.text.pod) if hit.text.pod is not None else hit.text.about


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


def _serving(context: Context, node: str) -> bool:
    found = context.inventory.find(node)
    return found is not None and any(use.allocatable for use in found.resources.values())
