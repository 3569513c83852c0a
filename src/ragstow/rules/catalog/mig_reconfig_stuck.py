"""A MIG reconfiguration has stopped half-way: operands are paused, the state stays pending.

What
    `nvidia.com/mig.config.state` is pending (or rebooting) and the operator's `nvidia.com/gpu.deploy.*` labels say
    `paused-for-mig-change`: the MIG manager stopped the plugin and its companions and never started them again.

Why
    The node offers no GPU at all, and nothing on it will change by itself: the manager waits for pods that do not end, could not
    reset cards that are in use, or died in between.

Fix
    End what uses the cards, see the MIG manager's log, set the deploy labels back to true and start the change again (delete the
    MIG manager's pod, or set the label anew).

References
    - NVIDIA GPU Operator: MIG manager; deployments/container/reconfigure-mig.sh of mig-parted

Fires: everything is paused
    apiVersion: v1
    kind: Node
    metadata:
      name: gpu-1
      uid: n
      labels:
        nvidia.com/mig.config: all-3g.20gb
        nvidia.com/mig.config.state: pending
        nvidia.com/gpu.deploy.device-plugin: paused-for-mig-change
        nvidia.com/gpu.present: "true"
    status: {capacity: {nvidia.com/gpu: 0}, allocatable: {nvidia.com/gpu: 0}}

Quiet: it has succeeded
    apiVersion: v1
    kind: Node
    metadata:
      name: gpu-1
      uid: n
      labels:
        nvidia.com/mig.config: all-3g.20gb
        nvidia.com/mig.config.state: success
        nvidia.com/gpu.deploy.device-plugin: "true"
        nvidia.com/gpu.present: "true"
    status: {capacity: {nvidia.com/mig-3g.20gb: 2}, allocatable: {nvidia.com/mig-3g.20gb: 2}}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.rules.context import Context
from ragstow.rules.grouping import evidence
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import unserved

_STATE, _CONFIG, _DEPLOY, _PAUSED = (
    "nvidia.com/mig.config.state",
    "nvidia.com/mig.config",
    "nvidia.com/gpu.deploy.",
    "paused-for-mig-change",
)


class MigReconfigStuck(Rule):
    """See the page above."""

    cause = "mig-reconfig-stuck"
    severity = "critical"
    needs = frozenset({"snapshot", "logs"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each node that is stuck."""
        for node in context.snapshot.nodes:
            paused = sorted(key for key, value in node.labels.items() if key.startswith(_DEPLOY) and value == _PAUSED)
            state = node.labels.get(_STATE)
            if not paused or state == "success":
                continue
            hits = [
                hit for hit in context.texts.of_cause(self.cause) if hit.text.node is None or hit.text.node.name == node.name
            ]
            held = [key for group in unserved(context, [node.name]) for key in group.held]
            restore = " ".join(f"{key}=true" for key in paused)
            yield self.finding(
                f"the MIG change on node {node.name} is stuck ({state or 'no state'}): the GPU stack is paused and the node offers no GPU",
                f"Layout {node.labels.get(_CONFIG, '?')} was asked for; {len(paused)} components are still paused for the change. It does not go "
                "on by itself.",
                Fix(
                    "End what uses the cards, read the MIG manager's log, set the deploy labels back and start the change again.",
                    command=f"kubectl label node {node.name} {restore} --overwrite && kubectl -n gpu-operator delete pod -l app=nvidia-mig-manager "
                    f"--field-selector spec.nodeName={node.name}",
                    disruption="restarts the GPU stack of the node",
                    check=f"kubectl get node {node.name} -L {_STATE}   # success, and allocatable shows the slices",
                ),
                (ObjectRef.of(node), *map(ObjectRef.of, context.stack.pods("mig-manager", node=node.name))),
                evidence=(
                    Evidence(state or "(absent)", ObjectRef.of(node), f"metadata.labels[{_STATE}]"),
                    *(Evidence(_PAUSED, ObjectRef.of(node), f"metadata.labels[{key}]") for key in paused[:3]),
                    *evidence(hits),
                ),
                held=held,
            )
