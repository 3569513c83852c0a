"""Every GPU slot that a pod could use is held by other pods.

What
    A Pending pod whose request fits a node's whole supply, while all nodes that offer the resource are full: more is asked for than
    there is. The finding says who holds the slots.

Why
    A whole card is held whether it is used or not; four small models that each ask for `nvidia.com/gpu: 1` need four slots.

Fix
    Free a slot (stop or move a holder), add cards, or share: MIG slices, MPS or time-slicing give more slots. `ragstow plan`
    works out which, and `ragstow inspect -o wide` shows who holds what.

References
    - Kubernetes: extended resources cannot be overcommitted

Fires: one card, held; one pod waits
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: holder, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Running}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec: {containers: [{name: vllm, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}

Quiet: the holder has finished
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-1, uid: n}
    status: {capacity: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}, allocatable: {cpu: 8, memory: 32Gi, pods: 110, nvidia.com/gpu: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: holder, namespace: rag, uid: a}
    spec: {nodeName: gpu-1, containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Succeeded}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: llm-0, namespace: rag, uid: b}
    spec: {nodeName: gpu-1, containers: [{name: vllm, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}
    status: {phase: Running}
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.cluster.dra import claims
from ragstow.inventory.model import NodeGpus
from ragstow.rules.claims import claim_groups, unclaimed
from ragstow.rules.context import Context
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.rule import Rule
from ragstow.rules.waiting import FIT, Waiting, out_of_service, waiting


class GpuExhausted(Rule):
    """See the page above."""

    cause = "gpu-exhausted"
    severity = "high"
    needs = frozenset({"snapshot", "events"})

    def diagnose(self, context: Context) -> Iterator[Finding]:
        """One finding for each GPU resource that has run out, with every workload that waits for it."""
        yield from self._claims(context)
        by_resource: dict[str, list[tuple[Waiting, tuple[NodeGpus, ...]]]] = {}
        for group in waiting(context):
            full = _full(group)
            if full:
                by_resource.setdefault(next(iter(group.wants)), []).append((group, full))
        for resource, members in by_resource.items():
            nodes = {node.name: node for _, full in members for node in full}
            total = sum(node.resources[resource].allocatable for node in nodes.values())
            holders = [
                f"{pod} ({count})" for node in nodes.values() for pod, count in sorted(node.resources[resource].holders.items())
            ]
            pods = [key for group, _ in members for key in group.held]
            yield self.finding(
                f"all {total} {resource} that fit are held: {len(pods)} pod(s) wait",
                f"{len(nodes)} node(s) offer {resource}, and all of it is taken by {', '.join(holders[:8])}"
                + (f" and {len(holders) - 8} more" if len(holders) > 8 else "")
                + ". Each waiting pod would fit an empty node."
                + _idle(context, [group for group, _ in members]),
                Fix(
                    f"Free or add {resource}, or make more slots of the cards that are there (MIG, MPS, time-slicing).",
                    command="ragstow inspect -o wide   # who holds what",
                    check="the pod gets a node",
                ),
                (*(group.workload for group, _ in members), *(ObjectRef("Node", "", name) for name in list(nodes)[:10])),
                evidence=(
                    *(entry for group, _ in members for entry in group.evidence[:1]),
                    *(
                        Evidence(
                            f"allocatable {node.resources[resource].allocatable}, free {node.resources[resource].free}",
                            ObjectRef("Node", "", node.name),
                            f"status.allocatable[{resource}]",
                        )
                        for node in list(nodes.values())[:3]
                    ),
                ),
                held=pods,
                since=min((group.since for group, _ in members if group.since), default=None),
            )

    def _claims(self, context: Context) -> Iterator[Finding]:
        """Workloads whose claims devices exist for, all of them held by others."""
        with_claims = {id(group.waiting): group for group in claim_groups(context)}
        for group in waiting(context):
            if not group.by_default_scheduler or group.verdict.feasible or id(group) not in with_claims:
                continue
            empty = unclaimed(context, group)
            able = [
                name
                for name in (empty.feasible if empty is not None else ())
                if {refusal.plugin for refusal in group.verdict.refused.get(name, ())} <= {"DynamicResources", FIT}
            ]
            if not able:
                continue
            held = [claim for claim in claims(context.snapshot) if any(device.pool in able for device in claim.devices)]
            holders = sorted({pod for claim in held for pod in claim.pods})
            made = with_claims[id(group)]
            own = [
                item
                for name in made.claims
                if (item := context.snapshot.get("ResourceClaim", name, group.pod.namespace, "resource.k8s.io"))
            ]
            yield self.finding(
                f"all devices that would satisfy {group.workload} are held: {len(group.pods)} pod(s) wait",
                f"{', '.join(able[:5])} publish(es) such devices, and claims of {', '.join(holders[:8]) or 'other pods'} hold them. Each waiting "
                "pod would fit if they were free.",
                Fix(
                    "End one of the holders, add a node with such devices, share a claim among pods, or relax the selectors.",
                    command="kubectl get resourceclaims -A   # who holds what",
                    check="the claim is allocated, the pod gets a node",
                ),
                (
                    *group.objects,
                    *map(ObjectRef.of, own),
                    *(ObjectRef("DeviceClass", "", name) for name in made.classes),
                    *(ObjectRef("Node", "", name) for name in able[:10]),
                ),
                evidence=(
                    *group.evidence,
                    *(
                        Evidence(
                            ", ".join(device.device for device in claim.devices),
                            ObjectRef.of(claim.object),
                            "status.allocation",
                        )
                        for claim in held[:3]
                    ),
                ),
                held=group.held,
                since=group.since,
            )


def _idle(context: Context, groups: list[Waiting]) -> str:
    """Free slots of nodes that are out of service: the way out that is nearest."""
    words = dict.fromkeys(
        f"{node.name} (free {use.free})"
        for group in groups
        for node in out_of_service(context, group)
        for name in group.wants
        if (use := context.inventory.node(node.name).resources.get(name)) is not None
    )
    return f" Out of service (cordoned or not ready), and would take it: {', '.join(list(words)[:5])}." if words else ""


def _full(group: Waiting) -> tuple[NodeGpus, ...]:
    """Nodes that would do if they were empty and are refused for lack of GPUs only; () if any of them has room."""
    if not group.wants or not group.by_default_scheduler or group.verdict.feasible:
        return ()
    nodes = tuple(node for node in group.offering if group.only(node, FIT))
    able = tuple(
        node for node in nodes if all(node.resources[name].allocatable >= count for name, count in group.wants.items())
    )
    lacking = all(any(node.resources[name].free < count for name, count in group.wants.items()) for node in able)
    return able if able and lacking else ()
