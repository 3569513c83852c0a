"""A MIG reconfiguration has stopped half-way: operands are paused, the state stays pending, or cards in use made it fail.

What
    `nvidia.com/mig.config.state` is pending (or rebooting) and the operator's `nvidia.com/gpu.deploy.*` labels say
    `paused-for-mig-change`: the MIG manager stopped the plugin and its companions and never started them again. Or the state is
    failed although the layout exists and suits the card: the cards were in use, or could not be reset.

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

Fires: cards in use, with a layout that the card can hold
    apiVersion: v1
    kind: Node
    metadata:
      name: gpu-1
      uid: n
      labels:
        nvidia.com/mig.config: all-3g.20gb
        nvidia.com/mig.config.state: failed
        nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB
        nvidia.com/gpu.present: "true"
    status: {capacity: {nvidia.com/gpu: 8}, allocatable: {nvidia.com/gpu: 8}}

Quiet: a layout that this card cannot hold is another rule's
    apiVersion: v1
    kind: Node
    metadata:
      name: gpu-1
      uid: n
      labels:
        nvidia.com/mig.config: all-1g.12gb
        nvidia.com/mig.config.state: failed
        nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB
        nvidia.com/gpu.present: "true"
    status: {capacity: {nvidia.com/gpu: 8}, allocatable: {nvidia.com/gpu: 8}}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.cluster.objects import Node, Pod
from ragstow.rules.context import Context
from ragstow.rules.engines import is_device
from ragstow.rules.grouping import by_node, evidence
from ragstow.rules.mig_changes import CONFIG, PAUSED, STATE, STUCK, is_stuck, paused, said
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import unserved


class MigReconfigStuck(Rule):
    """See the page above."""

    cause = STUCK
    severity = "critical"
    needs = frozenset({"snapshot", "logs"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each node that is stuck."""
        for node in context.snapshot.nodes:
            if is_stuck(context, node):
                yield self._finding(context, node)
        if not any(STATE in node.labels for node in context.snapshot.nodes):
            yield from self._told(context)

    def _told(self, context: Context) -> Iterator[Finding]:
        """What the MIG manager's log alone says, where no node tells the state of its change."""
        hits = [
            hit
            for hit in context.texts.of_cause(STUCK, strong=True)
            if ("mig-manager" in context.stack.roles(hit.text.pod) if hit.text.pod is not None else hit.text.about is None)
        ]
        for site, members in by_node(hits):
            yield self.finding(
                f"the MIG change on {site.words} did not come to its end: the cards are in use",
                f"The MIG manager says: {members[0].text.value.strip()[:300]}",
                Fix(
                    "End what uses the cards (pods, and programs of the host), and start the change again.",
                    command="kubectl get nodes -L nvidia.com/mig.config -L nvidia.com/mig.config.state",
                    disruption="pods that hold its GPUs must end first",
                    check="the state is success, and allocatable shows the slices",
                ),
                site.objects,
                evidence=evidence(members),
                severity="high",
                confidence="likely",
            )

    def _finding(self, context: Context, node: Node) -> Finding:
        stopped, state, hits = paused(node), node.labels.get(STATE), said(context, node, STUCK)
        holders = [] if stopped else _holders(context, node)
        layout = node.labels.get(CONFIG, "?")
        restore = " ".join(f"{key}=true" for key in stopped)
        again = f"kubectl -n gpu-operator delete pod -l app=nvidia-mig-manager --field-selector spec.nodeName={node.name}"
        if stopped:
            headline = f"the MIG change on node {node.name} is stuck ({state or 'no state'}): the GPU stack is paused and the node offers no GPU"
            why = f"Layout {layout} was asked for; {len(stopped)} components are still paused for the change. It does not go on by itself."
        else:
            headline = f"the MIG change on node {node.name} did not come to its end ({state}): layout {layout} is not in force"
            why = (
                "The layout exists; the MIG manager could not apply it. Cards must be idle to be cut, and it does not drain pods."
                + (f" {', '.join(pod.key for pod in holders[:4])} hold(s) GPUs of the node." if holders else "")
            )
        return self.finding(
            headline,
            why,
            Fix(
                "End what uses the cards, read the MIG manager's log, "
                + ("set the deploy labels back " if stopped else "")
                + "and start the change again.",
                command=f"kubectl label node {node.name} {restore} --overwrite && {again}" if stopped else again,
                disruption="restarts the GPU stack of the node" if stopped else "pods that hold its GPUs must end first",
                check=f"kubectl get node {node.name} -L {STATE}   # success, and allocatable shows the slices",
            ),
            (
                ObjectRef.of(node),
                *map(ObjectRef.of, context.stack.pods("mig-manager", node=node.name)),
                *map(ObjectRef.of, holders[:5]),
            ),
            evidence=(
                Evidence(state or "(absent)", ObjectRef.of(node), f"metadata.labels[{STATE}]"),
                *(Evidence(PAUSED, ObjectRef.of(node), f"metadata.labels[{key}]") for key in stopped[:3]),
                *evidence(hits),
            ),
            held=[key for group in unserved(context, [node.name]) for key in group.held],
            severity="critical" if stopped else "high",
            confidence="certain" if stopped or hits else "likely",
        )


def _holders(context: Context, node: Node) -> list[Pod]:
    """Pods that hold GPU devices of the node."""
    return [
        pod
        for pod in context.snapshot.pods
        if pod.node == node.name
        and not pod.finished
        and any(is_device(name) and count for name, count in context.requests(pod).items())
    ]
