"""Claims cannot be allocated because the DRA driver does not run or has published nothing.

What
    Pods wait for resource claims, while there is no ResourceSlice of the driver, no DeviceClass of the name they ask for, or the
    driver's DaemonSet has no (ready) pod on the GPU nodes.

Why
    The scheduler only says "cannot allocate all claims". The driver's DaemonSet starts only where one of its gate labels is set, and
    managed nodes often have none of them.

Fix
    Label the GPU nodes nvidia.com/gpu.present=true (or relax the driver's affinity), tolerate their taints, enable the driver's GPU part
    (gpuResourcesEnabledOverride), and give it the right driver root.

References
    - NVIDIA DRA driver: installation
    - Kubernetes: dynamic resource allocation

Fires: the driver wants no pod, no slice is published
    apiVersion: v1
    kind: Node
    metadata: {name: gke-1, uid: n, labels: {cloud.google.com/gke-accelerator: nvidia-l4}}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110}, allocatable: {cpu: 8, memory: 32Gi, pods: 110}}
    ---
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: dra-driver-nvidia-gpu-kubelet-plugin, namespace: dra, uid: d}
    spec:
      selector: {matchLabels: {app: dra}}
      template: {metadata: {labels: {app: dra}}, spec: {nodeSelector: {nvidia.com/gpu.present: "true"}, containers: [{name: gpus, image: dra-driver-nvidia-gpu}]}}
    status: {desiredNumberScheduled: 0, currentNumberScheduled: 0}
    ---
    apiVersion: resource.k8s.io/v1
    kind: DeviceClass
    metadata: {name: gpu.nvidia.com, uid: c}
    spec: {}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec: {resourceClaims: [{name: gpu, resourceClaimTemplateName: t}], containers: [{name: vllm, image: i, resources: {claims: [{name: gpu}]}}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/1 nodes are available: 1 cannot allocate all claims."}]}

Quiet: the claim is allocated
    apiVersion: v1
    kind: Node
    metadata: {name: dra-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110}, allocatable: {cpu: 8, memory: 32Gi, pods: 110}}
    ---
    apiVersion: resource.k8s.io/v1
    kind: ResourceSlice
    metadata: {name: s, uid: s}
    spec: {driver: gpu.nvidia.com, nodeName: dra-1, pool: {name: dra-1, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu-0, attributes: {type: {string: gpu}}}]}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec: {nodeName: dra-1, resourceClaims: [{name: gpu, resourceClaimName: c}], containers: [{name: vllm, image: i, resources: {claims: [{name: gpu}]}}]}
    status: {phase: Running}
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from ragstow.cluster.dra import devices
from ragstow.cluster.objects import KubeObject
from ragstow.rules.claims import ClaimGroup, claim_groups, missing_classes
from ragstow.rules.context import Context
from ragstow.rules.daemonsets import ineligible, looks_like_gpu_node
from ragstow.rules.grouping import by_node, evidence, sure
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import AFFINITY, CLAIMS

_GROUP = "resource.k8s.io"
_BY_SELECTOR = "CEL runtime error"


class DraDriverNotReady(Rule):
    """See the page above."""

    cause = "dra-driver-not-ready"
    severity = "high"
    needs = frozenset({"snapshot", "events"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for all pods whose claims have no driver behind them, else one for each node whose driver fails."""
        groups = [group for group in claim_groups(context) if self._without_driver(context, group)]
        if not groups:
            yield from self._failing(context)
            return
        drivers = [item for item in context.stack.workloads("dra-driver") if item.kind == "DaemonSet"]
        classes = sorted({name for group in groups for name in group.classes})
        gone = {name for group in groups for name in missing_classes(context, group)}
        absent = [name for name in classes if name in gone]
        refused = {node: why for item in drivers for node, why in ineligible(context, item).items()}
        nodes = [node for node in context.snapshot.nodes if looks_like_gpu_node(context, node)]
        why = (
            f"DeviceClass {', '.join(absent)} does not exist"
            if absent and context.snapshot.of("DeviceClass", _GROUP)
            else "no driver is installed"
            if not drivers
            else f"{ObjectRef.of(drivers[0])} has no pod on {', '.join(node.name for node in nodes if node.name in refused) or 'any GPU node'}"
            if _without_pods(context, drivers) or _unserved_nodes(context)
            else "the driver has published no device"
        )
        hits = context.texts.of_cause(self.cause)
        words = [word for node in nodes for item in refused.get(node.name, ()) for word in (item.words or item.texts)]
        # The label helps where a node affinity is what keeps the driver off, not against a taint.
        ungated = [node.name for node in nodes if any(item.plugin == AFFINITY for item in refused.get(node.name, ()))]
        yield self.finding(
            f"{sum(len(group.waiting.pods) for group in groups)} pod(s) wait for claims that nobody can allocate: {why}",
            "The scheduler hands out devices from ResourceSlices, which the driver on each node publishes; "
            + (f"{'; '.join(words[:2])}." if words else "there are none for these claims."),
            _fix(absent, [item.name for item in context.snapshot.of("DeviceClass", _GROUP)], ungated),
            (
                *(group.waiting.workload for group in groups),
                *map(ObjectRef.of, drivers),
                *(ObjectRef("DeviceClass", "", name) for name in absent),
                *map(ObjectRef.of, nodes[:5]),
            ),
            evidence=(
                *(entry for group in groups for entry in group.waiting.evidence[:1]),
                *(Evidence(word, ObjectRef.of(drivers[0]), "spec.template.spec") for word in words[:2] if drivers),
                *evidence(hits),
            ),
            held=[key for group in groups for key in group.waiting.held],
        )

    def _failing(self, context: Context) -> Iterator[Finding]:
        """Pods that have their devices and a node whose kubelet cannot reach the driver, or a driver that says why it ends."""
        unwell = [
            hit
            for hit in context.texts.of_cause(self.cause, strong=True)
            if (hit.text.pod is not None and (state := context.states.of(hit.text.pod)) is not None and not state.healthy)
            or (hit.text.pod is None and (hit.text.about is not None or not context.snapshot.pods))
        ]
        for site, hits in by_node(unwell):
            pods = [hit.text.pod for hit in hits if hit.text.pod is not None]
            drivers = [pod for pod in context.stack.pods("dra-driver") if pod.node == site.node]
            workloads = dict.fromkeys(context.owners.workload(pod) for pod in pods)
            ref = ObjectRef.of(drivers[0]) if drivers else None
            yield self.finding(
                f"the DRA driver on {site.words} does not serve its kubelet",
                f"It says: {hits[0].text.value.strip()[:200]}",
                Fix(
                    "See why the driver's kubelet plugin is not registered: its pod on that node, its driver root, the DRA feature and API "
                    "version of the kubelet.",
                    command=f"kubectl -n {ref.namespace} logs {ref.name} --all-containers --tail=50" if ref is not None else "",
                    check="the pod's containers start by themselves at the next retry",
                ),
                (*workloads, *site.objects, *map(ObjectRef.of, drivers)),
                evidence=evidence(hits),
                held=site.pods,
                confidence=sure(hits),
            )

    def _without_driver(self, context: Context, group: ClaimGroup) -> bool:
        if missing_classes(context, group):
            return True
        if any(group.waiting.only(context.inventory.node(name), CLAIMS) for name in _unserved_nodes(context)):
            return True  # a node that would take the pod has cards, and its driver has published none
        if any(_BY_SELECTOR in entry.value for entry in group.waiting.evidence):
            return False  # a selector was evaluated on a device: devices are published, if not in the data
        if not group.classes:  # neither the claim nor its template is in the data
            return not any((item.raw.get("spec") or {}).get("devices") for item in context.snapshot.of("ResourceSlice", _GROUP))
        return not any(devices(context.snapshot, driver) for driver in group.drivers)


def _unserved_nodes(context: Context) -> tuple[str, ...]:
    """GPU nodes without a device in a slice, which the driver's own DaemonSet cannot reach."""

    def find() -> tuple[str, ...]:
        drivers = [item for item in context.stack.workloads("dra-driver") if item.kind == "DaemonSet"]
        published = {(item.raw.get("spec") or {}).get("nodeName") for item in context.snapshot.of("ResourceSlice", _GROUP)}
        refused = [ineligible(context, item) for item in drivers]
        return tuple(
            node.name
            for node in context.snapshot.nodes
            if drivers
            and node.name not in published
            and not node.unschedulable
            and all(node.name in table for table in refused)
            and not any(use.capacity for use in context.inventory.node(node.name).resources.values())
            and looks_like_gpu_node(context, node)
        )

    return context.remember("dra-unserved", find)


def _fix(absent: list[str], known: list[str], ungated: list[str]) -> Fix:
    if absent and known:
        close = difflib.get_close_matches(absent[0], known, 1)
        return Fix(
            f"Name a DeviceClass that exists ({', '.join(close or sorted(known)[:5])}) in the claim or its template, or create {absent[0]}.",
            command="kubectl get deviceclasses",
            disruption="claims cannot be changed: the pods are made again",
            check="kubectl get resourceclaims -A   # allocated,reserved",
        )
    return Fix(
        "Make the driver run on the GPU nodes: set one of its gate labels, tolerate the nodes' taints, enable its GPU part.",
        command=f"kubectl label node {' '.join(ungated[:5])} nvidia.com/gpu.present=true" if ungated else "",
        check="kubectl get resourceslices   # one for each GPU node, driver gpu.nvidia.com",
    )


def _without_pods(context: Context, drivers: list[KubeObject]) -> bool:
    pods = context.stack.pods("dra-driver")
    states = [context.states.of(pod) for pod in pods]
    wanted = [
        (item.raw.get("status") or {}).get("numberReady", (item.raw.get("status") or {}).get("desiredNumberScheduled"))
        for item in drivers
    ]
    return not any(state is not None and state.state == "running" for state in states) and not any(wanted)
