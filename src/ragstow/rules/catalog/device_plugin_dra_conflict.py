"""Device plugin and DRA driver are both set to hand out the same GPUs.

What
    A node advertises nvidia.com/gpu through the device plugin and publishes the same cards in ResourceSlices of gpu.nvidia.com.

Why
    Neither knows of the other: a card can be given to a pod by each of them. With an extended resource name on the DeviceClass even plain
    requests may go both ways.

Fix
    Choose one for each node: switch the plugin off where DRA serves (nvidia.com/gpu.deploy.device-plugin=false, or uninstall), or turn
    the DRA driver's GPU part off.

References
    - KEP-5004: one node must not serve the same name from both
    - NVIDIA DRA driver: exclusive with the device plugin

Fires: both offer the card
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {nvidia.com/gpu: 1}, allocatable: {nvidia.com/gpu: 1}}
    ---
    apiVersion: resource.k8s.io/v1
    kind: ResourceSlice
    metadata: {name: s, uid: s}
    spec: {driver: gpu.nvidia.com, nodeName: gpu-1, pool: {name: gpu-1, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu-0, attributes: {type: {string: gpu}}}]}

Quiet: DRA here, the plugin on another node
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8}, allocatable: {cpu: 8}}
    ---
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-2, uid: m}
    status: {capacity: {nvidia.com/gpu: 1}, allocatable: {nvidia.com/gpu: 1}}
    ---
    apiVersion: resource.k8s.io/v1
    kind: ResourceSlice
    metadata: {name: s, uid: s}
    spec: {driver: gpu.nvidia.com, nodeName: gpu-1, pool: {name: gpu-1, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu-0, attributes: {type: {string: gpu}}}]}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ragstow.cluster.dra import claims, devices
from ragstow.cluster.objects import Node, Pod
from ragstow.rules.claims import DEFAULT_DRIVER
from ragstow.rules.context import Context
from ragstow.rules.daemonsets import ineligible
from ragstow.rules.engines import is_device
from ragstow.rules.grouping import evidence
from ragstow.rules.index.stack import template
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule

_GPU_PART = "gpus"
"""The container of the driver's DaemonSet that hands out GPUs; without it the driver serves ComputeDomains only."""


@dataclass(frozen=True, slots=True)
class _Both:
    """A node that is served twice: the plugin's resource and its amount, and what the driver has there."""

    node: Node
    resource: str
    amount: int
    driver: str


class DevicePluginDraConflict(Rule):
    """See the page above."""

    cause = "device-plugin-dra-conflict"
    severity = "high"
    needs = frozenset({"snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for all nodes that are served twice; where none is known, what the operator or a chart refused to set up."""
        both = _served_twice(context)
        hits = [hit for hit in context.texts.of_cause(self.cause) if both or hit.signature.strong]
        if not both and not hits:
            return
        names = list(dict.fromkeys(item.node.name for item in both))
        sharers = _sharers(context, names)
        said = {
            hit.text.pod.key: hit.text.pod for hit in hits if hit.text.pod is not None and not context.stack.roles(hit.text.pod)
        }
        unwell = [pod for pod in sharers if (state := context.states.of(pod)) is not None and not state.healthy]
        abouts = dict.fromkeys(hit.text.about for hit in hits if hit.text.about is not None)
        plugins = context.stack.workloads("device-plugin")
        drivers = context.stack.workloads("dra-driver")
        where = f"the GPUs of {', '.join(names[:5])}" if names else "the same GPUs"
        yield self.finding(
            f"device plugin and DRA driver both hand out {where}"
            if names
            else f"device plugin and DRA driver are both set to hand out {where}",
            "A card may be given to one pod by the plugin and to another by a claim; neither knows of the other."
            + (f" On these nodes {', '.join(pod.key for pod in sharers[:5])} got one from the plugin." if sharers else ""),
            Fix(
                "Choose one for each node: switch the device plugin off there, or the DRA driver's GPU part.",
                command=f"kubectl label node {names[0]} nvidia.com/gpu.deploy.device-plugin=false --overwrite   # operator; else uninstall the chart"
                if names
                else "kubectl patch clusterpolicies.nvidia.com/cluster-policy --type merge -p "
                '\'{"spec":{"devicePlugin":{"enabled":false}}}\'   # or draDriver.gpus.enabled=false',
                disruption="running pods keep their devices",
                check="the node has either nvidia.com/gpu in allocatable or devices in a ResourceSlice",
            ),
            (
                *(ObjectRef("Node", "", name) for name in names),
                *abouts,
                *map(ObjectRef.of, plugins),
                *map(ObjectRef.of, drivers),
                *map(ObjectRef.of, sharers),
            ),
            evidence=(
                *evidence(hits),
                *(
                    Evidence(
                        f"{item.resource}: {item.amount} in capacity, {item.driver}",
                        ObjectRef.of(item.node),
                        f"status.capacity[{item.resource}]",
                    )
                    for item in both[:3]
                ),
            ),
            held=[*dict.fromkeys((*said, *(pod.key for pod in unwell)))],
        )


def _served_twice(context: Context) -> list[_Both]:
    """Nodes with the plugin's devices in capacity, and the same cards in slices or a driver that hands GPUs out there."""
    published: dict[str, str] = {}
    for device in devices(context.snapshot, DEFAULT_DRIVER):
        if device.node is not None:
            published[device.node] = ""
    for name in published:
        count = sum(device.node == name for device in devices(context.snapshot, DEFAULT_DRIVER))
        published[name] = f"{count} device(s) in ResourceSlices"
    if not context.snapshot.of("ResourceSlice", "resource.k8s.io"):
        for pod in context.stack.pods("dra-driver"):
            if pod.node and any(container.name == _GPU_PART for container in pod.containers):
                published[pod.node] = f"{pod.key} runs there with container {_GPU_PART}"
        if not context.stack.pods("dra-driver"):
            for item in context.stack.workloads("dra-driver"):
                names = [container.get("name") for container in template(item).get("containers") or ()]
                if _GPU_PART in names and (item.raw.get("status") or {}).get("numberReady"):
                    refused = ineligible(context, item)
                    ready = f"{ObjectRef.of(item)} has container {_GPU_PART}"
                    published |= {node.name: ready for node in context.snapshot.nodes if node.name not in refused}
    return [
        _Both(node, name, amount, published[node.name])
        for node in context.snapshot.nodes
        if node.name in published
        for name, amount in node.capacity.items()
        if is_device(name) and amount > 0
    ]


def _sharers(context: Context, names: list[str]) -> list[Pod]:
    """Pods with a card of the plugin's on nodes where claims hold devices too: they may sit on one card."""
    claimed = {device.pool for claim in claims(context.snapshot) if claim.pods for device in claim.devices}
    holders = {
        key
        for name in names
        if name in claimed
        for use in context.inventory.node(name).resources.values()
        for key in use.holders
    }
    return [pod for pod in context.snapshot.pods if pod.key in holders]
