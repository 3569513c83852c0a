"""All that was seen of a service, judged: the one place that joins the checks of pods, nodes and the stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragstow.cluster.objects import Node, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.facts import Facts
from ragstow.inventory.model import Inventory
from ragstow.plan.model import Plan
from ragstow.render.names import SERVICE
from ragstow.verification.drivers import HostDriver, check_cuda, check_driver
from ragstow.verification.memory import check_memory
from ragstow.verification.model import ObjectRef, Outcome
from ragstow.verification.neighbours import check_neighbours
from ragstow.verification.nodes import check_nodes, missing_nodes
from ragstow.verification.pods import check_pod
from ragstow.verification.seen import Look
from ragstow.verification.stack import Log, check_logs, check_stack
from ragstow.verification.targets import Target
from ragstow.verification.workloads import check_workloads


@dataclass(frozen=True)
class Scene:
    """Everything that is needed for a verdict, read and asked beforehand.

    `pods` are the service's, `targets` those of them with a GPU, `looks` what was seen in each ("namespace/name"), `hosts` the
    driver of each node, `stack` the pods of the GPU stack with what they are, `nodes` the nodes that matter.
    """

    service: str
    namespace: str
    plan: Plan | None
    snapshot: Snapshot
    inventory: Inventory
    facts: Facts
    pods: tuple[Pod, ...]
    targets: tuple[Target, ...]
    nodes: tuple[Node, ...]
    stack: tuple[tuple[Pod, str], ...]
    looks: Mapping[str, Look] = field(default_factory=dict)
    hosts: Mapping[str, HostDriver] = field(default_factory=dict)
    stack_logs: tuple[Log, ...] = ()
    pod_logs: tuple[Log, ...] = ()
    kubelet_logs: tuple[Log, ...] = ()


def judge(scene: Scene) -> tuple[Outcome, ...]:
    """The outcomes in the order in which a person reads them: pods, inside the pods, together, nodes, stack."""
    service = ObjectRef("RagService", scene.namespace, scene.service)
    nodes = {node.name: node for node in scene.nodes}
    seen = [(target, scene.looks[target.pod.key]) for target in scene.targets if target.pod.key in scene.looks]
    together, apart = _promises(scene.plan)
    outcomes = [check_workloads(scene.pods, scene.plan, service, {node.name: node for node in scene.snapshot.nodes})]
    for target, look in seen:
        outcomes.append(check_pod(target, look, scene.facts))
        if look.reading.cards:
            node = nodes.get(target.pod.node or "")
            outcomes.append(check_driver(target, look, node, scene.hosts.get(target.pod.node or "")))
            outcomes.append(check_cuda(target, look, scene.facts))
    replicas = {row.name: row.replicas for row in scene.plan.components} if scene.plan is not None else {}
    return (
        *outcomes,
        check_memory(seen, _holders(scene)),
        check_neighbours(seen, service, together, apart, replicas),
        missing_nodes(scene.plan, scene.nodes),
        check_nodes(scene.nodes, scene.plan, scene.inventory),
        check_stack(scene.stack, scene.plan, scene.snapshot, scene.facts, gpu_nodes(scene.targets)),
        check_logs(scene.pod_logs, scene.facts, "pod-log"),
        check_logs(scene.stack_logs, scene.facts, "stack-log"),
        check_logs(scene.kubelet_logs, scene.facts, "kubelet-log"),
    )


def gpu_nodes(targets: Sequence[Target]) -> tuple[str, ...]:
    """The nodes on which the service uses GPUs."""
    return tuple(sorted({target.pod.node for target in targets if target.pod.node}))


def nodes_of(snapshot: Snapshot, plan: Plan | None, targets: Sequence[Target]) -> tuple[Node, ...]:
    """The nodes that matter: those of the GPU pods, and those that the plan configured."""
    names = {*gpu_nodes(targets), *(layout.node for layout in plan.layouts)} if plan is not None else set(gpu_nodes(targets))
    return tuple(node for node in snapshot.nodes if node.name in names)


def _promises(plan: Plan | None) -> tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]]:
    """`together` and `apart` of the normalised spec in the plan."""
    spec: Any = plan.spec.get("spec") if plan is not None else None
    placement: Any = spec.get("placement") if isinstance(spec, Mapping) else None
    if plan is None or not isinstance(placement, Mapping):
        return (), ()
    with_gpu = {row.name for row in plan.components if row.slot.mode != "none"}

    def kept(groups: Sequence[Sequence[str]]) -> list[list[str]]:
        """Without members that have no GPU: who sits on no card shares none."""
        cut = [(len(group), [name for name in group if name in with_gpu]) for group in groups]
        return [members for before, members in cut if members and (len(members) > 1 or before == 1)]

    return kept(placement.get("together") or ()), kept(placement.get("apart") or ())


def _holders(scene: Scene) -> Mapping[str, Sequence[str]]:
    """Node -> pods of others that hold a share of the resource that our pods there hold."""
    found: dict[str, list[str]] = {}
    ours = {pod.key for pod in scene.pods}
    for target in scene.targets:
        gpus = scene.inventory.find(target.pod.node)
        use = gpus.resources.get(target.resource or "") if gpus is not None else None
        if use is not None and target.pod.node is not None:
            found[target.pod.node] = sorted(name for name in use.holders if name not in ours)
    return found


def services(snapshot: Snapshot) -> tuple[tuple[str, str], ...]:
    """(namespace, service) of every service that has pods in the cluster."""
    found = {(pod.namespace, pod.labels[SERVICE]) for pod in snapshot.pods if SERVICE in pod.labels and not pod.finished}
    return tuple(sorted(found))
