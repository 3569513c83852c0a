"""Two device plugins on one node register the same resource.

What
    Pods of two different plugin DaemonSets (the operator's and a chart's, or a cloud's and the static manifest) run on one node and both
    offer nvidia.com/gpu; the kubelet takes the one that registered last.

Why
    Each registration replaces the other's devices: counts jump, sharing comes and goes, allocations meet devices that the other plugin
    knows nothing of.

Fix
    Remove one of them, or keep one off the node (operator: devicePlugin.enabled=false, label nvidia.com/gpu.deploy.device-plugin=false).

References
    - Kubernetes: device plugins, registration; container names tell plugin, GFD and MPS daemon apart

Fires: the operator's and a static one
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {nvidia.com/gpu: 4}, allocatable: {nvidia.com/gpu: 4}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: gpu-operator, uid: a, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: nvidia-device-plugin-daemonset, uid: d1, controller: true}]}
    spec: {nodeName: gpu-1, containers: [{name: nvidia-device-plugin, image: k8s-device-plugin}]}
    status: {phase: Running}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: b, namespace: kube-system, uid: b, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: static-plugin, uid: d2, controller: true}]}
    spec: {nodeName: gpu-1, containers: [{name: nvidia-device-plugin-ctr, image: k8s-device-plugin}]}
    status: {phase: Running}

Quiet: plugin and GFD of one chart share image and labels
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {nvidia.com/gpu: 4}, allocatable: {nvidia.com/gpu: 4}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: nvidia, uid: a, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: nvdp, uid: d1, controller: true}]}
    spec: {nodeName: gpu-1, containers: [{name: nvidia-device-plugin-ctr, image: k8s-device-plugin}]}
    status: {phase: Running}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: b, namespace: nvidia, uid: b, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: nvdp-gfd, uid: d2, controller: true}]}
    spec: {nodeName: gpu-1, containers: [{name: gpu-feature-discovery-ctr, image: k8s-device-plugin}]}
    status: {phase: Running}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragstow.cluster.objects import Pod
from ragstow.rules.context import Context
from ragstow.rules.daemonsets import ineligible, looks_like_gpu_node
from ragstow.rules.index.stack import template
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import unserved

_ROLES = ("device-plugin", "hami-device-plugin")
_OPERATOR = "nvidia.com/gpu.deploy.device-plugin"


class DevicePluginDuplicate(Rule):
    """See the page above."""

    cause = "device-plugin-duplicate"
    severity = "high"
    needs = frozenset({"snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each pair of plugins, with the nodes they share."""
        nodes: dict[tuple[ObjectRef, ...], list[tuple[str, tuple[Pod, ...]]]] = {}
        reach = _reach(context)
        named = (pod.node for pod in context.stack.pods(*_ROLES) if pod.node)
        for name in dict.fromkeys((*(node.name for node in context.snapshot.nodes), *named)):
            pods = [pod for pod in context.stack.pods(*_ROLES, node=name) if not pod.finished and not pod.deleted and pod.live]
            owners = tuple(sorted({*_plugins(context, pods), *reach.get(name, ())}))
            if len(owners) > 1:
                nodes.setdefault(owners, []).append((name, tuple(pods)))
        for owners, places in nodes.items():
            names = [name for name, _ in places]
            yield self.finding(
                f"{len(owners)} device plugins serve the same GPUs on {', '.join(names[:5])}: {' and '.join(map(str, owners))}",
                "Each registration at the kubelet replaces the other's devices, so that counts and sharing depend on who came last.",
                Fix(
                    "Keep one: uninstall the other, or switch it off on these nodes.",
                    command=f"kubectl label node {' '.join(names[:10])} nvidia.com/gpu.deploy.device-plugin=false --overwrite   # the operator's"
                    if any(_OPERATOR in str(template(item).get("nodeSelector")) for item in context.stack.workloads(*_ROLES))
                    or context.snapshot.of("ClusterPolicy", "nvidia.com")
                    else "",
                    disruption="running pods keep their devices",
                    check="one plugin pod for each node; allocatable stays",
                ),
                (*owners, *(ObjectRef("Node", "", name) for name in names)),
                evidence=(
                    *(
                        Evidence(pod.key, ObjectRef("Node", "", name), "plugin pod")
                        for name, pods in places[:2]
                        for pod in pods
                    ),
                    *(
                        Evidence("wants a pod on " + ", ".join(names[:5]), owner, "status.desiredNumberScheduled")
                        for owner in owners
                        if not any(_plugin(context, pod) == owner for _, pods in places for pod in pods)
                    ),
                ),
                held=[key for group in unserved(context, names) for key in group.held],
            )


def _plugins(context: Context, pods: list[Pod]) -> list[ObjectRef]:
    """The plugins that these pods are of; of pods whose owner nothing tells, those of one name but for its end are one."""
    found: dict[object, ObjectRef] = {}
    for pod in pods:
        ref = _plugin(context, pod)
        found.setdefault((pod.namespace, pod.name.rpartition("-")[0]) if ref.kind == "Pod" else ref, ref)
    return list(found.values())


def _plugin(context: Context, pod: Pod) -> ObjectRef:
    """The DaemonSet of a plugin's pod, itself where it has none."""
    name = context.owners.replica_set(pod) or next(
        (
            item.name
            for item in context.stack.workloads(*_ROLES)
            if item.kind == "DaemonSet" and item.namespace == pod.namespace and pod.name.startswith(f"{item.name}-")
        ),
        "",
    )
    return (
        ObjectRef(pod.controller.kind if pod.controller is not None else "DaemonSet", pod.namespace, name)
        if name
        else ObjectRef.of(pod)
    )


def _reach(context: Context) -> dict[str, list[ObjectRef]]:
    """Node -> plugin DaemonSets that have pods and may run there, where the data hold none of their pods."""
    found: dict[str, list[ObjectRef]] = {}
    present = {_plugin(context, pod) for pod in context.stack.pods(*_ROLES)}
    for item in context.stack.workloads(*_ROLES):
        status = item.raw.get("status")
        number = status.get("currentNumberScheduled") if isinstance(status, Mapping) else None
        if item.kind != "DaemonSet" or ObjectRef.of(item) in present or not isinstance(number, int):
            continue
        refused = ineligible(context, item)
        allowed = [node for node in context.snapshot.nodes if node.name not in refused]
        nodes = [node.name for node in allowed]
        if number != len(nodes):
            nodes = [node.name for node in allowed if looks_like_gpu_node(context, node)]
        if number == len(nodes):  # else the nodes of the data are not all of them, and which have a pod is not told
            for name in nodes:
                found.setdefault(name, []).append(ObjectRef.of(item))
    return found
