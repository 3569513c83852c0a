"""A MIG layout was applied with success, and the device plugin still offers what there was before.

What
    On a node nvidia.com/mig.config.state is success, feature discovery counts slices of a profile (or the layout in the ConfigMap has it),
    and the node's capacity has fewer of them, under MIG strategy mixed.

Why
    The plugin looks at the cards when it starts. Where the MIG manager does not restart it (a layout applied by hand, a plugin outside the
    operator), the new slices are offered to nobody and the old ones fail at allocation.

Fix
    Restart the device plugin on the node.

References
    - NVIDIA GPU Operator: MIG manager; mig-parted deployments/container/reconfigure-mig.sh

Fires: seven slices by the labels, none offered
    apiVersion: v1
    kind: Node
    metadata:
      name: gpu-1
      uid: n
      labels: {nvidia.com/mig.strategy: mixed, nvidia.com/mig.config.state: success, nvidia.com/mig-1g.10gb.count: "7", nvidia.com/mig-1g.10gb.replicas: "1"}
    status: {capacity: {nvidia.com/gpu: 1}, allocatable: {nvidia.com/gpu: 1}}

Quiet: they are offered
    apiVersion: v1
    kind: Node
    metadata:
      name: gpu-1
      uid: n
      labels: {nvidia.com/mig.strategy: mixed, nvidia.com/mig.config.state: success, nvidia.com/mig-1g.10gb.count: "7", nvidia.com/mig-1g.10gb.replicas: "1"}
    status: {capacity: {nvidia.com/gpu: 0, nvidia.com/mig-1g.10gb: 7}, allocatable: {nvidia.com/gpu: 0, nvidia.com/mig-1g.10gb: 7}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragstow.cluster.objects import Node
from ragstow.rules.context import Context
from ragstow.rules.engines import is_device
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import unserved

_COUNT = re.compile(r"(?P<resource>nvidia\.com/mig-[\w.-]+?)\.count")
_STATE, _STRATEGY = "nvidia.com/mig.config.state", "nvidia.com/mig.strategy"


class MigLayoutNotOffered(Rule):
    """See the page above."""

    cause = "mig-config-invalid"
    severity = "high"
    needs = frozenset({"snapshot"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each node that offers fewer slices than its cards are cut into."""
        for node in context.snapshot.nodes:
            if node.labels.get(_STATE) != "success" or node.labels.get(_STRATEGY) != "mixed":
                continue
            short = {name: (cut, node.capacity.get(name, 0)) for name, cut in _cut(node) if node.capacity.get(name, 0) < cut}
            if not short or not any(amount and is_device(name) for name, amount in node.capacity.items()):
                continue
            plugins = context.stack.pods("device-plugin", node=node.name)
            ref, held = ObjectRef.of(node), [key for group in unserved(context, [node.name]) for key in group.held]
            what = ", ".join(f"{name}: {cut} cut, {offered} offered" for name, (cut, offered) in short.items())
            yield self.finding(
                f"node {node.name} does not offer the slices that its cards are cut into ({what})",
                "The MIG manager reports success, and feature discovery sees the slices; the device plugin has not looked at the cards since.",
                Fix(
                    "Restart the device plugin on the node.",
                    command=f"kubectl -n {plugins[0].namespace} delete pod {plugins[0].name}" if plugins else "",
                    disruption="restarts the device plugin; running pods keep their devices",
                    check=f"kubectl get node {node.name} -o jsonpath='{{.status.allocatable}}'",
                ),
                (ref, *map(ObjectRef.of, plugins)),
                evidence=(
                    Evidence("success", ref, f"metadata.labels[{_STATE}]"),
                    *(Evidence(str(cut), ref, f"metadata.labels[{name}.count]") for name, (cut, _) in short.items()),
                    *(Evidence(str(offered), ref, f"status.capacity[{name}]") for name, (_, offered) in short.items()),
                ),
                held=held,
                severity="high" if held else "medium",
                confidence="likely",
            )


def _cut(node: Node) -> Iterator[tuple[str, int]]:
    """Resource -> slices that feature discovery counts, times the shares of each."""
    for key, value in node.labels.items():
        found = _COUNT.fullmatch(key)
        if found and value.isdecimal():
            replicas = node.labels.get(f"{found['resource']}.replicas", "1")
            if replicas == "1":
                yield found["resource"], int(value)
