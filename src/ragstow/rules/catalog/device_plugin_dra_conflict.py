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

from ragstow.cluster.dra import devices
from ragstow.rules.claims import DEFAULT_DRIVER
from ragstow.rules.context import Context
from ragstow.rules.engines import is_device
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule


class DevicePluginDraConflict(Rule):
    """See the page above."""

    cause = "device-plugin-dra-conflict"
    severity = "high"
    needs = frozenset({"snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for all nodes that are served twice."""
        published: dict[str, int] = {}
        for device in devices(context.snapshot, DEFAULT_DRIVER):
            if device.node is not None:
                published[device.node] = published.get(device.node, 0) + 1
        both = [
            (node, name, amount)
            for node in context.snapshot.nodes
            if node.name in published
            for name, amount in node.capacity.items()
            if is_device(name) and amount > 0
        ]
        if not both:
            return
        names = list(dict.fromkeys(node.name for node, _, _ in both))
        plugins = context.stack.workloads("device-plugin")
        drivers = context.stack.workloads("dra-driver")
        yield self.finding(
            f"device plugin and DRA driver both hand out the GPUs of {', '.join(names[:5])}",
            "A card may be given to one pod by the plugin and to another by a claim; neither knows of the other.",
            Fix(
                "Choose one for each node: switch the device plugin off there, or the DRA driver's GPU part.",
                command=f"kubectl label node {names[0]} nvidia.com/gpu.deploy.device-plugin=false --overwrite   # operator; else uninstall the chart",
                disruption="running pods keep their devices",
                check="the node has either nvidia.com/gpu in allocatable or devices in a ResourceSlice",
            ),
            (*(ObjectRef("Node", "", name) for name in names), *map(ObjectRef.of, plugins), *map(ObjectRef.of, drivers)),
            evidence=[
                Evidence(
                    f"{name}: {amount} in capacity, {published[node.name]} device(s) in ResourceSlices",
                    ObjectRef.of(node),
                    f"status.capacity[{name}]",
                )
                for node, name, amount in both[:3]
            ],
        )
