"""The MIG strategy of the device plugin does not fit how the cards of a node are cut.

What
    Strategy single meets cards with different profiles, cut and uncut cards together, or a MIG card without instances; strategy none
    meets cut cards. The plugin panics, or GPU feature discovery labels the product `…-MIG-INVALID` with count 0.

Why
    Under single every card of a node must carry the same single profile. Otherwise the node offers nothing, or slices that
    cannot be used. Under the GPU Operator ClusterPolicy's `mig.strategy` beats the plugin's own file.

Fix
    Use strategy mixed (resources are then called nvidia.com/mig-<profile>), or cut all cards alike.

References
    - NVIDIA device plugin: MIG strategies none, single, mixed

Fires: the plugin panics
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/mig.strategy: single, nvidia.com/gpu.product: NVIDIA-A30}}
    status: {capacity: {nvidia.com/gpu: 0}, allocatable: {nvidia.com/gpu: 0}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: plugin-a, namespace: gpu-operator, uid: p}
    spec: {nodeName: gpu-1, containers: [{name: nvidia-device-plugin, image: k8s-device-plugin}]}
    status:
      phase: Running
      containerStatuses: [{name: nvidia-device-plugin, ready: false, restartCount: 5, state: {waiting: {reason: CrashLoopBackOff}}}]
    ---
    kind: Log
    name: nvidia-device-plugin.txt
    text: |
      panic: more than one MIG device type present on node

Fires: GFD says that the layout is invalid
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/mig.strategy: single, nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB-MIG-INVALID, nvidia.com/gpu.count: "0"}}
    status: {capacity: {nvidia.com/gpu: 0}, allocatable: {nvidia.com/gpu: 0}}

Quiet: strategy mixed with several profiles
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n, labels: {nvidia.com/mig.strategy: mixed, nvidia.com/gpu.product: NVIDIA-A30, nvidia.com/mig-1g.6gb.count: "2"}}
    status: {capacity: {nvidia.com/gpu: 0, nvidia.com/mig-1g.6gb: 2}, allocatable: {nvidia.com/gpu: 0, nvidia.com/mig-1g.6gb: 2}}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.cluster.objects import Node
from ragstow.rules.context import Context
from ragstow.rules.grouping import by_node, evidence, sure
from ragstow.rules.mig_changes import CONFIG, STATE
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import FIT, unserved, waiting

_SLICE, _UNCUT = "nvidia.com/mig-", "all-disabled"
_PRODUCT, _STRATEGY = "nvidia.com/gpu.product", "nvidia.com/mig.strategy"


class MigStrategyMismatch(Rule):
    """See the page above."""

    cause = "mig-strategy-mismatch"
    severity = "high"
    needs = frozenset({"snapshot", "logs"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each node that says so, in a log or by its labels."""
        said: set[str] = set()
        policies = context.snapshot.of("ClusterPolicy", "nvidia.com")
        for site, hits in by_node(context.texts.of_cause(self.cause)):
            said.add(site.node or "")
            yield self.finding(
                f"the device plugin on {site.words} cannot serve how its cards are cut",
                f"It says: {hits[0].text.value.strip()}",
                _fix(site.node),
                (*site.objects, *map(ObjectRef.of, policies)),
                evidence=(*evidence(hits), *_labels(context, site.node)),
                held=(*site.pods, *_held(context, site.node)),
                confidence=sure(hits),
            )
        for node in context.snapshot.nodes:
            if node.labels.get(_PRODUCT, "").endswith("-MIG-INVALID") and node.name not in said:
                yield self.finding(
                    f"the cards of node {node.name} are not cut alike, as MIG strategy single needs",
                    "GPU feature discovery calls the layout invalid; the node offers no GPU.",
                    _fix(node.name),
                    (ObjectRef.of(node), *map(ObjectRef.of, policies)),
                    evidence=_labels(context, node.name),
                    held=_held(context, node.name),
                )
        yield from self._not_looked_at(context)

    def _not_looked_at(self, context: Context) -> Iterator[Finding]:
        """Nodes that are cut while their plugin's strategy is none, and pods that wait for the slices."""
        for node in context.snapshot.nodes:
            offers = [name for name, use in context.inventory.node(node.name).resources.items() if use.capacity]
            cut = node.labels.get(CONFIG, "") not in ("", _UNCUT) and node.labels.get(STATE) == "success"
            if not cut or any(_SLICE in name for name in offers) or _strategy(context, node) != "none":
                continue
            groups = [
                group
                for group in waiting(context)
                if group.only(node, FIT) and any(_SLICE in name for name in group.wants) and not group.offering
            ]
            if groups:
                yield self.finding(
                    f"node {node.name} is cut as {node.labels[CONFIG]}, and MIG strategy none offers no slice of it",
                    f"Under strategy none the plugin passes slices over and offers {', '.join(offers) or 'nothing'}; "
                    f"{sum(len(group.pods) for group in groups)} pod(s) wait for slices.",
                    _fix(node.name),
                    (ObjectRef.of(node), *map(ObjectRef.of, context.snapshot.of("ClusterPolicy", "nvidia.com"))),
                    evidence=(
                        *(Evidence(node.labels[key], ObjectRef.of(node), f"metadata.labels[{key}]") for key in (CONFIG, STATE)),
                        *(entry for group in groups for entry in group.evidence[:1]),
                    ),
                    held=[key for group in groups for key in group.held],
                )


def _strategy(context: Context, node: Node) -> str:
    """The strategy that the node's plugin is told; "" where nothing tells."""
    config = context.inventory.node(node.name).config
    if config is None:
        return ""
    flags = (config.config or {}).get("flags") or {}
    return str(config.overrides.get("migStrategy") or flags.get("migStrategy") or "")


def _held(context: Context, node: str | None) -> list[str]:
    return [key for group in unserved(context, [node] if node else ()) for key in group.held]


def _labels(context: Context, name: str | None) -> tuple[Evidence, ...]:
    node = context.snapshot.get("Node", name or "")
    if node is None:
        return ()
    return tuple(
        Evidence(node.labels[key], ObjectRef.of(node), f"metadata.labels[{key}]")
        for key in (_STRATEGY, _PRODUCT)
        if key in node.labels
    )


def _fix(node: str | None) -> Fix:
    return Fix(
        "Use MIG strategy mixed (under the operator: ClusterPolicy spec.mig.strategy), or cut every card of the node into the same "
        "single profile.",
        command='kubectl patch clusterpolicies.nvidia.com/cluster-policy --type merge -p \'{"spec":{"mig":{"strategy":"mixed"}}}\'',
        disruption="restarts plugin and feature discovery; resource names change to nvidia.com/mig-<profile>",
        check=f"kubectl get node {node or '<node>'} -o jsonpath='{{.status.allocatable}}'",
    )
