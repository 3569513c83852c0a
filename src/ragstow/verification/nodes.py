"""The nodes under the service: ready, every device healthy, GPU resources and labels as planned."""

from __future__ import annotations

from collections.abc import Sequence

from ragstow.cluster.objects import Node
from ragstow.inventory.model import Inventory
from ragstow.plan.model import NodeLayout, Plan
from ragstow.rules.engines import is_device
from ragstow.verification.model import Check, Evidence, ObjectRef, Outcome

_LAYOUT = (".product", ".count", ".replicas", ".sharing-strategy", "/mig.strategy", "/mig.config")
"""Ends of the labels that say how cards are cut and shared. Others (memory of slices, versions, time stamps) depend on the
driver and say nothing about the layout; what matters of them has a check of its own."""


def check_nodes(nodes: Sequence[Node], plan: Plan | None, inventory: Inventory) -> Outcome:
    """The checks of every node that the service's GPU pods are on or that the plan configured."""
    layouts = {layout.node: layout for layout in plan.layouts} if plan is not None else {}
    checks: list[Check] = []
    for node in nodes:
        ref = ObjectRef.of(node)
        checks.append(_ready(node, ref))
        checks += _healthy(node, ref)
        layout = layouts.get(node.name)
        if layout is not None:
            checks += _offered(node, ref, layout)
            checks += _labels(node, ref, layout)
            checks += _sharing(node, ref, layout, inventory)
    return Outcome(tuple(checks))


def missing_nodes(plan: Plan | None, nodes: Sequence[Node]) -> Outcome:
    """Nodes that the plan configured and that are no longer there."""
    here = {node.name for node in nodes}
    gone = [layout.node for layout in plan.layouts if layout.node not in here] if plan is not None else []
    return Outcome(
        tuple(
            Check(
                "node-ready",
                ObjectRef("Node", "", name),
                "in the cluster",
                "gone",
                False,
                (Evidence(f"kubectl get node {name}", "not found"),),
                "the plan was made for another cluster, or the node was removed: plan again",
            )
            for name in gone
        )
    )


def _ready(node: Node, ref: ObjectRef) -> Check:
    conditions = node.status.get("conditions") or ()
    ready = next((item for item in conditions if isinstance(item, dict) and item.get("type") == "Ready"), {})
    said = {True: "ready", False: "not ready", None: "unknown"}[node.ready]
    value = f"Ready={ready.get('status', 'missing')} {ready.get('reason') or ''}".strip()
    hint = "" if node.ready else f"kubectl describe node {node.name}"
    evidence = (Evidence(f"kubectl get node {node.name}", value),)
    return Check("node-ready", ref, "ready", said, node.ready is True, evidence, hint)


def _healthy(node: Node, ref: ObjectRef) -> list[Check]:
    """Capacity counts healthy and unhealthy devices, allocatable only healthy ones (kubelet devicemanager)."""
    made = []
    for name in sorted(resource for resource in node.capacity if is_device(resource)):
        total, usable = node.capacity[name], node.allocatable.get(name, 0)
        if total == 0:
            continue  # a name that the plugin offered once and no longer does
        right = usable == total
        made.append(
            Check(
                "node-devices",
                ref,
                f"{total} healthy {name}",
                f"{usable} of {total}",
                right,
                (Evidence(f"kubectl get node {node.name} -o yaml", f"status.capacity {total}, status.allocatable {usable}"),),
                ""
                if right
                else "the device plugin calls devices unhealthy: its log names them (Xid); after a reset restart its pod",
            )
        )
    return made


def _offered(node: Node, ref: ObjectRef, layout: NodeLayout) -> list[Check]:
    made = []
    for name, wanted in sorted(layout.resources_after.items()):
        found = node.allocatable.get(name, 0)
        right = found == wanted
        made.append(
            Check(
                "node-allocatable",
                ref,
                f"{name}: {wanted}",
                f"{name}: {found}",
                right,
                (Evidence(f"kubectl get node {node.name} -o yaml", f"status.allocatable[{name}]: {found}"),),
                ""
                if right
                else "the node is not cut as planned: device-plugin config and MIG state of the node, log of the plugin",
            )
        )
    return made


def _labels(node: Node, ref: ObjectRef, layout: NodeLayout) -> list[Check]:
    after = {key: value for key, value in layout.labels_after.items() if key.endswith(_LAYOUT)}
    wanted = {**after, **layout.labels}
    if not wanted:
        return []
    wrong = {key: node.labels.get(key) for key, value in sorted(wanted.items()) if node.labels.get(key) != value}
    said = ", ".join(f"{key}={value if value is not None else '(absent)'}" for key, value in wrong.items())
    expected = ", ".join(f"{key}={wanted[key]}" for key in wrong) if wrong else f"{len(wanted)} labels as planned"
    return [
        Check(
            "node-labels",
            ref,
            expected,
            said or f"{len(wanted)} labels as planned",
            not wrong,
            (Evidence(f"kubectl get node {node.name} --show-labels", said or "all equal"),),
            "" if not wrong else "labels of GPU feature discovery follow the layout: is it as planned, and does GFD run there?",
        )
    ]


def _sharing(node: Node, ref: ObjectRef, layout: NodeLayout, inventory: Inventory) -> list[Check]:
    gpus = inventory.find(node.name)
    if gpus is None or layout.sharing in ("none", "unknown"):
        return []
    right = gpus.sharing == layout.sharing
    state = node.labels.get("nvidia.com/mig.config.state")
    evidence = [Evidence(f"ragstow inspect ({node.name})", f"sharing: {gpus.sharing}")]
    if state is not None:
        evidence.append(Evidence(f"kubectl get node {node.name} --show-labels", f"nvidia.com/mig.config.state={state}"))
    hint = "" if right else "the node is shared in another way than planned: was its configuration changed by somebody else?"
    made = [Check("node-sharing", ref, layout.sharing, gpus.sharing, right, tuple(evidence), hint)]
    if state is not None and layout.mig is not None:
        done = state == "success"
        made.append(
            Check(
                "node-mig-state",
                ref,
                "success",
                state,
                done,
                (Evidence(f"kubectl get node {node.name} --show-labels", f"nvidia.com/mig.config.state={state}"),),
                "" if done else f"the MIG manager did not finish: its log, and the GPU pods that it cannot stop on {node.name}",
            )
        )
    return made
