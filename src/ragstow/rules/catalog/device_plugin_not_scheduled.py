"""The device plugin's DaemonSet has no pod on a GPU node: its gate labels or its tolerations do not fit the node.

What
    A GPU node offers no GPU and runs no plugin pod, while a plugin DaemonSet exists that the node does not qualify for: none of the
    labels it selects (pci-10de, cpu vendor, gpu.present) is there, or a taint of the node is not tolerated.

Why
    A DaemonSet that wants 0 pods is silent: no event, no Pending pod. Without node feature discovery nobody sets those labels, and a
    taint such as `nvidia.com/gpu=true` also keeps the NFD worker away that would set them.

Fix
    Label the node nvidia.com/gpu.present=true (or let NFD run there), or add the toleration to plugin, GFD and NFD worker.

References
    - NVIDIA device plugin chart: affinity and tolerations
    - Kubernetes: DaemonSet scheduling

Fires: the gate label is missing
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110}, allocatable: {cpu: 8, memory: 32Gi, pods: 110}}
    ---
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: nvdp, namespace: nvidia, uid: d}
    spec:
      selector: {matchLabels: {app: nvdp}}
      template:
        metadata: {labels: {app: nvdp}}
        spec:
          affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: nvidia.com/gpu.present, operator: In, values: ["true"]}]}]}}}
          containers: [{name: nvidia-device-plugin-ctr, image: k8s-device-plugin}]
    status: {desiredNumberScheduled: 0, currentNumberScheduled: 0}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec: {containers: [{name: vllm, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}

Fires: a taint that the plugin does not tolerate
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.present: "true"}}
    spec: {taints: [{key: dedicated, value: llm, effect: NoSchedule}]}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110}, allocatable: {cpu: 8, memory: 32Gi, pods: 110}}
    ---
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: nvdp, namespace: nvidia, uid: d}
    spec:
      selector: {matchLabels: {app: nvdp}}
      template: {metadata: {labels: {app: nvdp}}, spec: {containers: [{name: nvidia-device-plugin-ctr, image: k8s-device-plugin}]}}
    status: {desiredNumberScheduled: 0, currentNumberScheduled: 0}

Quiet: the plugin runs there, CPU nodes have none
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/gpu.present: "true"}}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Node
    metadata: {name: cpu-1, uid: m}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110}, allocatable: {cpu: 8, memory: 32Gi, pods: 110}}
    ---
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: nvdp, namespace: nvidia, uid: d}
    spec:
      selector: {matchLabels: {app: nvdp}}
      template: {metadata: {labels: {app: nvdp}}, spec: {nodeSelector: {nvidia.com/gpu.present: "true"}, containers: [{name: nvidia-device-plugin-ctr, image: k8s-device-plugin}]}}
    status: {desiredNumberScheduled: 1, currentNumberScheduled: 1}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: nvdp-a, namespace: nvidia, uid: p, labels: {app: nvdp}}
    spec: {nodeName: gpu-1, containers: [{name: nvidia-device-plugin-ctr, image: k8s-device-plugin}]}
    status: {phase: Running, containerStatuses: [{name: nvidia-device-plugin-ctr, ready: true, restartCount: 0, state: {running: {}}}]}

Fires: nobody ever installed a plugin
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {node.kubernetes.io/instance-type: g5.xlarge}}
    status: {capacity: {cpu: 4, memory: 16Gi, pods: 58}, allocatable: {cpu: 4, memory: 16Gi, pods: 58}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag, uid: p}
    spec: {containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}, requests: {nvidia.com/gpu: 1}}}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}

Quiet: the cloud runs the plugin itself
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {eks.amazonaws.com/compute-type: auto, eks.amazonaws.com/instance-gpu-name: l4}}
    status: {capacity: {cpu: 4, memory: 16Gi, pods: 58}, allocatable: {cpu: 4, memory: 16Gi, pods: 58}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm, namespace: rag, uid: p}
    spec: {containers: [{name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}, requests: {nvidia.com/gpu: 1}}}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.cluster.objects import KubeObject, Node
from ragstow.inventory.identity import provider_id
from ragstow.rules.context import Context, NodeRefusal
from ragstow.rules.daemonsets import ineligible, looks_like_gpu_node
from ragstow.rules.index.stack import template
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef, Patch
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import TAINT, Waiting, unserved, waiting
from ragstow.rules.youth import passing

_GATES = (
    "nvidia.com/gpu.present",
    "feature.node.kubernetes.io/pci-10de.present",
    "feature.node.kubernetes.io/cpu-model.vendor_id",
)

_FEW = 50
_PLUGINS = ("device-plugin", "hami-device-plugin")
_OPERATED = frozenset({"nvidia.com/gpu.deploy.operands", "nvidia.com/gpu.deploy.device-plugin"})
"""Labels of a node that the GPU Operator looks after: its plugin is on its way."""


class DevicePluginNotScheduled(Rule):
    """See the page above."""

    cause = "device-plugin-not-scheduled"
    severity = "high"
    needs = frozenset({"snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each plugin DaemonSet and reason, with the nodes it cannot reach."""
        plugins = [item for item in context.stack.workloads(*_PLUGINS) if item.kind == "DaemonSet"]
        reasons = {id(plugin): ineligible(context, plugin) for plugin in plugins}
        groups = [group for group in waiting(context) if group.wants]
        bare = [node for node in context.snapshot.nodes if self._bare(context, node, plugins, groups)]
        for plugin in plugins:
            refused = [(node, reasons[id(plugin)][node.name]) for node in bare if node.name in reasons[id(plugin)]]
            # A node that another plugin would serve is that one's matter.
            refused = [(node, why) for node, why in refused if all(node.name in reasons[id(other)] for other in plugins)]
            if refused and not _another_value(plugin, [node for node, _ in refused]):
                yield self._finding(
                    plugin,
                    refused,
                    _discovery_kept_off(context, [node for node, _ in refused]),
                    [key for group in unserved(context, [node.name for node, _ in refused]) for key in group.held],
                )

        if not plugins:
            yield from self._absent(context)
        if not context.snapshot.nodes:
            yield from self._nodeless(plugins, groups)

    def _nodeless(self, plugins: list[KubeObject], groups: list[Waiting]) -> Iterator[Finding]:
        """Pods that wait for GPUs and a plugin that wants no pod at all, in data without nodes.

        The operator takes its labels off a node for reasons of its own (a MIG change, an upgrade), which only the node tells.
        """
        plugins = [item for item in plugins if not _OPERATED & set(template(item).get("nodeSelector") or ())]
        held = [key for group in groups for key in group.held]
        if plugins and held and all(map(_wants_none, plugins)):
            refs = tuple(map(ObjectRef.of, plugins))
            yield self.finding(
                f"{refs[0]} wants no pod on any node, and {len(held)} pod(s) wait for GPUs",
                "None of the nodes carries what its selector or affinity asks for, or their taints keep it off; the nodes are not in the data.",
                Fix(
                    "Compare the plugin's selector, affinity and tolerations with labels and taints of the GPU nodes.",
                    command="kubectl get nodes --show-labels",
                    check=f"kubectl -n {refs[0].namespace} get daemonset {refs[0].name}   # DESIRED counts the GPU nodes",
                ),
                refs,
                evidence=[Evidence("0", ref, "status.desiredNumberScheduled") for ref in refs],
                held=held,
                confidence="likely",
            )

    def _absent(self, context: Context) -> Iterator[Finding]:
        """GPU nodes that pods wait for, in data that hold no plugin, no driver of claims, and nothing that explains it."""
        if context.stack.pods(*_PLUGINS, "dra-driver", "operator") or context.stack.workloads(
            *_PLUGINS, "dra-driver", "operator"
        ):
            return
        spoken = {hit.text.node.name for hit in context.texts.hits if hit.text.node is not None and hit.text.current}
        nodes = [
            node
            for node in context.snapshot.nodes
            if looks_like_gpu_node(context, node)
            and not node.unschedulable
            and not passing(context, node)
            and node.name not in spoken
            and not any(value.startswith("paused-for") for value in node.labels.values())
            and not (node.labels.keys() & _OPERATED)
            and not node.labels.get("nvidia.com/gpu.product", "").endswith("-MIG-INVALID")
            and not any(use.capacity for use in context.inventory.node(node.name).resources.values())
            and context.inventory.node(node.name).sharing != "dra"
            and not (
                (cloud := context.facts.clouds.of_node(node.labels, provider_id(node), node.kubelet_version or ""))
                and cloud.plugin_managed
            )
        ]
        held = [key for group in unserved(context, [node.name for node in nodes]) for key in group.held]
        if not held or any(use.capacity for found in context.inventory.nodes for use in found.resources.values()):
            return
        names, known = ", ".join(node.name for node in nodes[:5]), bool(context.snapshot.of("DaemonSet", "apps"))
        yield self.finding(
            f"no device plugin runs: GPU node(s) {names} advertise no GPU, {len(held)} pod(s) wait",
            "The kubelet knows of GPUs only what a device plugin tells it. The data hold no plugin, operator or DRA driver"
            + ("." if known else ", and no DaemonSet at all: they may be incomplete."),
            Fix(
                "Install the NVIDIA device plugin or the GPU Operator; the driver and the container toolkit must be on the node.",
                command="kubectl get daemonsets -A   # is there one for GPUs?",
                check=f"kubectl get node {nodes[0].name} -o jsonpath='{{.status.allocatable}}'",
            ),
            tuple(map(ObjectRef.of, nodes[:10])),
            evidence=[Evidence("no GPU", ObjectRef.of(node), "status.allocatable") for node in nodes[:2]],
            held=held,
            confidence="likely" if known else "possible",
        )

    def _bare(self, context: Context, node: Node, plugins: list[KubeObject], groups: list[Waiting]) -> bool:
        """Whether a node should have a plugin, offers no GPU and runs none."""
        if (
            not plugins
            or node.unschedulable
            or passing(context, node)
            or any(value == "paused-for-mig-change" for value in node.labels.values())
        ):
            return False
        offers = any(use.capacity for use in context.inventory.node(node.name).resources.values())
        if offers or context.stack.pods(*_PLUGINS, node=node.name) or context.inventory.node(node.name).sharing == "dra":
            return False
        if looks_like_gpu_node(context, node):
            return True
        if not context.snapshot.pods:
            # A report about the plugin itself: who wrote it expects a pod of it on the nodes that he shows.
            return all(_wants_none(plugin) for plugin in plugins) and node in (_workers(context) or context.snapshot.nodes)
        return bool(groups) and node.name == context.remember("lone-node", lambda: _lone(context))

    def _finding(
        self,
        plugin: KubeObject,
        refused: list[tuple[Node, tuple[NodeRefusal, ...]]],
        discovery: dict[ObjectRef, tuple[str, ...]],
        held: list[str],
    ) -> Finding:
        ref, nodes = ObjectRef.of(plugin), [node for node, _ in refused]
        tainted = any(item.plugin == TAINT for _, why in refused for item in why)
        taints = [
            taint for node in nodes for taint in node.taints if tainted and not taint.key.startswith("node.kubernetes.io/")
        ]
        words = list(dict.fromkeys(word for _, why in refused for item in why for word in (item.words or item.texts)))
        listed = [{"key": key, "operator": "Exists"} for key in dict.fromkeys(taint.key for taint in taints)]
        existing = [dict(item) for item in template(plugin).get("tolerations") or ()]
        worker = next(iter(discovery), None) if not tainted else None
        return self.finding(
            f"{ref} has no pod on GPU node {', '.join(node.name for node in nodes[:5])}: "
            + ("a taint keeps it off" if tainted else "none of its gate labels is there"),
            f"The node(s) offer no GPU, since nobody advertises them. {'; '.join(words[:3])}."
            + (f" {worker}, which would set the labels, is itself kept off by a taint." if worker is not None else ""),
            Fix(
                "Add the taint to the tolerations of the plugin, GFD and the NFD worker."
                if tainted
                else "Label the node, or let node feature discovery run there so that it sets the labels"
                + (f": {worker} needs a toleration for the node's taint." if worker is not None else "."),
                command="" if tainted else f"kubectl label node {' '.join(node.name for node in nodes[:5])} {_GATES[0]}=true",
                patch=Patch("merge", ref, {"spec": {"template": {"spec": {"tolerations": [*existing, *listed]}}}})
                if listed
                else None,
                disruption="restarts the device plugin; running pods keep their devices" if tainted else "none",
                check=f"kubectl -n {plugin.namespace} get daemonset {plugin.name}   # DESIRED counts the node",
            ),
            (ref, *map(ObjectRef.of, nodes), *([worker] if worker is not None else [])),
            evidence=(
                *(
                    Evidence(f"{t.key}={t.value}:{t.effect}", ObjectRef.of(node), "spec.taints")
                    for node in nodes[:2]
                    for t in node.taints
                    if tainted
                ),
                *(Evidence(word, ref, "spec.template.spec") for word in words[:3]),
                *(
                    Evidence(word, item, "spec.template.spec.tolerations")
                    for item, said in discovery.items()
                    for word in said[:1]
                ),
                *(Evidence("no GPU", ObjectRef.of(node), "status.allocatable") for node in nodes[:2]),
            ),
            held=held,
        )


def _discovery_kept_off(context: Context, nodes: list[Node]) -> dict[ObjectRef, tuple[str, ...]]:
    """Workers of node feature discovery that a taint keeps off one of these nodes, with the scheduler's words."""
    found: dict[ObjectRef, tuple[str, ...]] = {}
    for item in context.stack.workloads("node-feature-discovery"):
        refused = ineligible(context, item) if item.kind == "DaemonSet" else {}
        words = [w for node in nodes for r in refused.get(node.name, ()) if r.plugin == TAINT for w in (r.words or r.texts)]
        if words:
            found[ObjectRef.of(item)] = tuple(dict.fromkeys(words))
    return found


def _lone(context: Context) -> str:
    """Without any sign of a GPU on any node, the only node that waiting pods could use is believed to have one; "" for none."""
    if any(looks_like_gpu_node(context, node) for node in context.snapshot.nodes):
        return ""
    if len(context.snapshot.nodes) > _FEW:
        return ""
    usable = [node.name for node in _workers(context) if unserved(context, [node.name])]
    usable = usable or [node.name for node in context.snapshot.nodes if unserved(context, [node.name])]
    return usable[0] if len(usable) == 1 else ""


def _wants_none(plugin: KubeObject) -> bool:
    status = plugin.raw.get("status")
    return isinstance(status, dict) and status.get("desiredNumberScheduled") == 0


def _workers(context: Context) -> list[Node]:
    return [node for node in context.snapshot.nodes if not any("control-plane" in taint.key for taint in node.taints)]


def _another_value(plugin: KubeObject, nodes: list[Node]) -> bool:
    """Whether the nodes carry the selected key with another value: that is `node-selector-mismatch`."""
    selector = template(plugin).get("nodeSelector")
    return isinstance(selector, dict) and any(
        key in node.labels and node.labels[key] != value for node in nodes for key, value in selector.items()
    )
