"""A pod asks for a GPU resource that no node of the cluster offers, while its GPU nodes offer others.

What
    The requested name (`nvidia.com/gpu`, `nvidia.com/gpu.shared`, `nvidia.com/mig-…`) is in no node's allocatable and behind no
    DeviceClass. With renamed shares or MIG strategy mixed the plain name is gone; with a typo it never was; where a DRA driver
    hands the GPUs out there is none at all.

Why
    The event says "Insufficient …", exactly as if all cards were busy; adding nodes does not help.

Fix
    Ask for a name that is offered, or change the sharing configuration so that the wanted name is. Under DRA: a ResourceClaim
    in the place of the resource, or a DeviceClass with extendedResourceName.

References
    - NVIDIA device plugin: renameByDefault, MIG strategies
    - KEP-5004: extended resources backed by a DeviceClass

Fires: shares are renamed, the pod asks for the plain name
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu.shared: 4}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu.shared: 4}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec: {containers: [{name: vllm, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}

Quiet: it asks for the shares
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu.shared: 4}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu.shared: 4}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec: {nodeName: gpu-1, containers: [{name: vllm, image: i, resources: {requests: {nvidia.com/gpu.shared: 1}, limits: {nvidia.com/gpu.shared: 1}}}]}
    status: {phase: Running}

Fires: the GPUs are handed out by a DRA driver, the pod asks for the device plugin's name
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110}, allocatable: {cpu: 8, memory: 32Gi, pods: 110}}
    ---
    apiVersion: resource.k8s.io/v1
    kind: DeviceClass
    metadata: {name: gpu.nvidia.com, uid: c}
    spec: {selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com'"}}]}
    ---
    apiVersion: resource.k8s.io/v1
    kind: ResourceSlice
    metadata: {name: s, uid: s}
    spec: {driver: gpu.nvidia.com, nodeName: gpu-1, pool: {name: gpu-1, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu-0, attributes: {type: {string: gpu}}}]}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec: {containers: [{name: vllm, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}

Quiet: a DeviceClass stands behind the name
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110}, allocatable: {cpu: 8, memory: 32Gi, pods: 110}}
    ---
    apiVersion: resource.k8s.io/v1
    kind: DeviceClass
    metadata: {name: gpu.nvidia.com, uid: c}
    spec: {extendedResourceName: nvidia.com/gpu, selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com'"}}]}
    ---
    apiVersion: resource.k8s.io/v1
    kind: ResourceSlice
    metadata: {name: s, uid: s}
    spec: {driver: gpu.nvidia.com, nodeName: gpu-1, pool: {name: gpu-1, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu-0, attributes: {type: {string: gpu}}}]}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec: {containers: [{name: vllm, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Pending}

Fires (lint): no node of the cluster offers that name
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.product: NVIDIA-L4}}
    spec: {taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      selector: {matchLabels: {app: llm}}
      template:
        metadata: {labels: {app: llm}}
        spec: {tolerations: [{key: nvidia.com/gpu, operator: Exists}], containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu.shared: 1}}}]}

Quiet (lint): one does
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.product: NVIDIA-L4}}
    spec: {taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 2}}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm, namespace: rag}
    spec:
      selector: {matchLabels: {app: llm}}
      template:
        metadata: {labels: {app: llm}}
        spec: {tolerations: [{key: nvidia.com/gpu, operator: Exists}], containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}]}

Quiet (lint): the manifests bring the layout that offers it
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
    status: {capacity: {cpu: 8, memory: 64Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 64Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: layouts, namespace: gpu-operator}
    data: {config.yaml: "version: v1\\nmig-configs: {small: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]}\\n"}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: embedder, namespace: rag}
    spec: {containers: [{name: tei, image: "tei:1", resources: {limits: {nvidia.com/mig-1g.10gb: 1}}}]}
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from ragstow.rules.configs import given
from ragstow.rules.context import Context
from ragstow.rules.dra_objects import mapping
from ragstow.rules.engines import GPU_DOMAIN, is_device
from ragstow.rules.fixes import resources_patch
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef, Patch
from ragstow.rules.plugin_texts import mig_texts, plugin_texts
from ragstow.rules.prospects import in_cluster
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import FIT, TAINT, Waiting, gpu_nodes, waiting
from ragstow.sharing import migparted


class WrongResourceName(Rule):
    """See the page above."""

    cause = "wrong-resource-name"
    severity = "high"
    needs = frozenset({"manifest", "snapshot", "events"})
    asks_cluster = True

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each workload that asks for a name nobody offers."""
        offered = _offered(context)
        if not offered:
            yield from self._under_dra(context)
            return
        for group in waiting(context):
            asked = [name for name in (*_asked(context, group), *_of_others(context, group)) if not _backed(context, name)]
            if not asked or not group.by_default_scheduler or group.verdict.feasible:
                continue
            missing = [name for name in asked if name not in offered]
            here = offered if missing else _reachable(context, group)
            if not missing:
                missing = [name for name in asked if here and name not in here]
            if not missing:
                continue
            name = missing[0]
            close = difflib.get_close_matches(name, sorted(here), 1, 0.5) or sorted(here)[:1]
            nodes = here[close[0]]
            everywhere = here is offered
            yield self.finding(
                f"{group.workload} asks for {name}, which no node offers; {close[0]} is offered"
                if everywhere
                else f"{group.workload} asks for {name}, which none of the nodes that it may run on offers; {close[0]} is offered there",
                f"The GPU nodes offer {', '.join(sorted(offered))}. {name} is in no node's allocatable and behind no DeviceClass, so that "
                "the pod waits whatever is free."
                if everywhere
                else f"Its selector and tolerations leave {', '.join(nodes[:5])}, which offer(s) {', '.join(sorted(here))}; {name} is "
                f"offered by {', '.join(offered[name][:5])} only.",
                Fix(
                    f"Do not ask for {name} beside {close[0]}, or give the cluster nodes that offer it."
                    if group.wants.get(close[0])
                    else f"Ask for {close[0]} instead, or add nodes and the device plugin of {name.partition('/')[0]}."
                    if not name.startswith(GPU_DOMAIN)
                    else f"Ask for {close[0]} instead, or change the sharing or MIG configuration of the nodes so that {name} is offered.",
                    patch=_patch(group, name, close[0]),
                    disruption=f"restarts {group.workload}",
                    check="the pod gets a node",
                ),
                (*group.objects, *(ObjectRef("Node", "", node) for node in nodes[:5])),
                evidence=(
                    *group.evidence,
                    Evidence(name, ObjectRef.of(group.pod), "spec.containers[*].resources.limits"),
                    *(Evidence(close[0], ObjectRef("Node", "", node), "status.allocatable") for node in nodes[:2]),
                ),
                held=group.held,
                since=group.since,
            )

    def _under_dra(self, context: Context) -> Iterator[Finding]:
        """Nothing is in allocatable because every GPU is a device of a DRA driver; no plugin is there that would offer the name."""
        nodes = gpu_nodes(context)
        if not nodes or any(tuple(node.allocators) != ("dra",) for node in nodes):
            return
        names = [node.name for node in nodes]
        for group in waiting(context):
            asked = [name for name in _asked(context, group) if not _backed(context, name)]
            if not asked or not group.by_default_scheduler or group.verdict.feasible:
                continue
            name = asked[0]
            yield self.finding(
                f"{group.workload} asks for {name}, but the GPUs of {', '.join(names[:3])} are handed out by DRA",
                f"A DRA driver publishes the GPUs as devices in ResourceSlices; no device plugin puts {name} into a node's "
                "allocatable and no DeviceClass has it as extendedResourceName, so that the pod waits whatever is free.",
                Fix(
                    f"Ask with a ResourceClaimTemplate of a DeviceClass (`kubectl get deviceclasses` lists them) in the place of {name}; "
                    f"or give a DeviceClass spec.extendedResourceName: {name} where the release serves it (KEP-5004).",
                    disruption=f"restarts {group.workload}",
                    check="the pod gets a node",
                ),
                (*group.objects, *(ObjectRef("Node", "", node) for node in names[:5])),
                evidence=(
                    *group.evidence,
                    Evidence(name, ObjectRef.of(group.pod), "spec.containers[*].resources.limits"),
                ),
                held=group.held,
                since=group.since,
            )

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """The same for pods that these manifests would make, against the cluster and what the manifests' own configurations add."""
        coming = _coming(context)
        for finding in in_cluster(context, self.diagnose):
            if not any(entry.value in coming for entry in finding.evidence if entry.field.endswith("resources.limits")):
                yield finding


def _coming(context: LintContext) -> frozenset[str]:
    """Resource names that sharing configurations and MIG layouts among the manifests will make nodes offer."""
    names = {name for _, config in plugin_texts(context) for name in given(config.text)}
    for _, config in mig_texts(context):
        read = migparted.read(config.text)
        for entries in read.layouts.values() if not isinstance(read, migparted.Failure) else ():
            for profile in (profile for entry in entries for profile in entry.mig_devices or {}):
                resource = f"{GPU_DOMAIN}mig-{profile.replace('+', '.')}"
                names |= {resource, f"{resource}.shared"}
    # A node that the manifests give a configuration which is not among them (Helm values hold it) will offer whatever that says.
    for manifest in context.of("Node"):
        labels = mapping(mapping(manifest.object.raw.get("metadata")).get("labels"))
        if labels.get("nvidia.com/device-plugin.config"):
            names |= {f"{GPU_DOMAIN}gpu", f"{GPU_DOMAIN}gpu.shared"}
    return frozenset(names)


def _patch(group: Waiting, name: str, instead: str) -> Patch | None:
    """The one container that asks for it asks for the other name."""
    asking = [item for item in group.pod.containers if item.limits.get(name) or item.requests.get(name)]
    if len(asking) != 1 or "mem" in name:
        return None  # an amount of memory is no number of devices
    count = asking[0].limits.get(name) or asking[0].requests[name]
    both = bool(asking[0].limits.get(instead))
    return resources_patch(group.workload, asking[0], {name: None} if both else {name: None, instead: count})


def _asked(context: Context, group: Waiting) -> list[str]:
    """NVIDIA names that the pod asks for; a typo such as nvidia.com/gpus counts, what schedulers of vendors add does not."""
    return [
        name
        for name, count in context.requests(group.pod).items()
        if count > 0
        and (
            is_device(name)
            or (name.startswith(GPU_DOMAIN) and not name.startswith(f"{GPU_DOMAIN}gpumem") and name not in _VENDOR)
        )
    ]


def _of_others(context: Context, group: Waiting) -> list[str]:
    """GPUs by a name that is not NVIDIA's, which nothing in the cluster speaks of: no node offers it or has a label of that domain, and
    no autoscaler has promised a node."""
    names = [
        name
        for name, count in context.requests(group.pod).items()
        if count > 0 and "/" in name and not name.startswith(GPU_DOMAIN) and _A_GPU.search(name)
    ]
    nodes = context.snapshot.nodes
    promised = any(context.events.about(pod, "TriggeredScaleUp", "Nominated") for pod in group.pods)
    return [
        name
        for name in names
        if not promised and not any(name in node.capacity or any(_of(key, name) for key in node.labels) for node in nodes)
    ]


def _of(label: str, resource: str) -> bool:
    return "/" in label and label.partition("/")[0] == resource.partition("/")[0]


_A_GPU = re.compile(r"gpu|vcuda|cuda")
_DRA = "resource.k8s.io"
_VENDOR = frozenset(f"{GPU_DOMAIN}{name}" for name in ("gpucores", "gpumem", "gpumem-percentage", "priority"))


def _reachable(context: Context, group: Waiting) -> dict[str, list[str]]:
    """Resource -> nodes with some of it, of those that nothing but room keeps the pod off; {} where one of them offers all it wants."""
    nodes = [node for node in gpu_nodes(context) if group.only(node, FIT)]
    if any(group.only(node, TAINT) for node in group.offering) or any(
        all(node.resources.get(name) is not None and node.resources[name].capacity for name in group.wants) for node in nodes
    ):
        return {}
    table: dict[str, list[str]] = {}
    for node in nodes:
        for name, use in node.resources.items():
            if use.capacity > 0:
                table.setdefault(name, []).append(node.name)
    return table


def _offered(context: Context) -> dict[str, list[str]]:
    """Resource -> nodes with some of it."""
    table: dict[str, list[str]] = {}
    for node in gpu_nodes(context):
        for name, use in node.resources.items():
            if use.capacity > 0:
                table.setdefault(name, []).append(node.name)
    return table


def _backed(context: Context, name: str) -> bool:
    """Whether a DeviceClass hands out this extended resource (KEP-5004)."""
    implicit = "deviceclass.resource.kubernetes.io/"
    return name.startswith(implicit) or any(
        (item.raw.get("spec") or {}).get("extendedResourceName") == name
        for item in context.snapshot.of("DeviceClass", "resource.k8s.io")
    )
