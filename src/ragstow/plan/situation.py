"""What is there, as the planner sees it: the cluster without the service's own pods, its GPUs, and how they are served.

The service's own pods count as free (INTERFACE 3), so they and their claims are taken out before anything is counted; what
they hold is remembered, so that planning again gives the same answer. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ragstow.cluster import dra
from ragstow.cluster.demand import pod_demand
from ragstow.cluster.objects import KubeObject, Node, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.facts import Facts
from ragstow.inventory.build import inventory
from ragstow.inventory.identity import Assumption
from ragstow.inventory.model import Inventory, NodeGpus
from ragstow.plan.install import plugin_install, runtime_class_needed
from ragstow.plan.model import PluginInstall

SERVICE_LABEL = "ragstow.dev/service"
COMPONENT_LABEL = "ragstow.dev/component"
POOL_LABEL = "ragstow.dev/pool"


@dataclass(frozen=True)
class Situation:
    """A cluster for one service. `own` are the service's pods and `own_claims` their claims, which `snapshot` and
    `inventory` no longer hold."""

    service: str
    namespace: str
    snapshot: Snapshot
    facts: Facts
    assumed: tuple[Assumption, ...] = ()
    allow_disturb: bool = False
    own: tuple[Pod, ...] = ()
    own_claims: tuple[KubeObject, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """What a what-if changed, one sentence each."""
    memo: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)
    """Answers about nodes (`alike`), shared by all what-ifs."""

    @cached_property
    def inventory(self) -> Inventory:
        """The GPUs, counted without the service's own pods."""
        return inventory(self.snapshot, self.facts, assumed=self.assumed)

    @cached_property
    def install(self) -> PluginInstall:
        """How the device plugin was installed."""
        return plugin_install(self.snapshot, self.inventory, self.facts)

    @cached_property
    def runtime_class(self) -> str | None:
        """The RuntimeClass that GPU pods need here."""
        return runtime_class_needed(self.snapshot, self.install, self.facts)

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """Nodes by name, in the order of names."""
        return {node.name: node for node in sorted(self.snapshot.nodes, key=lambda node: node.name)}

    @cached_property
    def gpus(self) -> Mapping[str, NodeGpus]:
        """GPUs by node name."""
        return {node.name: node for node in self.inventory.nodes}

    @cached_property
    def pods_on(self) -> Mapping[str, tuple[Pod, ...]]:
        """Pods of others that take room on each node."""
        found: dict[str, list[Pod]] = {}
        for pod in self.snapshot.pods:
            if pod.node is not None and not pod.finished:
                found.setdefault(pod.node, []).append(pod)
        return {name: tuple(pods) for name, pods in found.items()}

    def room(self, node: Node) -> tuple[int, int, int]:
        """What is left on a node: CPU in millicores, memory in bytes, pods."""
        pods = self.pods_on.get(node.name, ())
        left = [
            node.allocatable.get(resource, 0) - sum(pod_demand(pod, resource) for pod in pods) for resource in ("cpu", "memory")
        ]
        return max(left[0], 0), max(left[1], 0), max(node.allocatable.get("pods", 110) - len(pods), 0)

    def with_snapshot(self, snapshot: Snapshot, note: str) -> Situation:
        """The same question on another cluster (a what-if)."""
        return replace(self, snapshot=snapshot, notes=(*self.notes, note))


def situation(
    snapshot: Snapshot,
    facts: Facts,
    *,
    service: str,
    namespace: str,
    assumed: Sequence[Assumption] = (),
    allow_disturb: bool = False,
) -> Situation:
    """The cluster as it is for a service.

    Args:
        snapshot: the whole cluster.
        facts: cards, clouds, MIG geometry, programs.
        service: name of the RagService.
        namespace: its namespace.
        assumed: cards that the user names because no label does.
        allow_disturb: whether nodes may be changed on which pods of others hold GPUs.
    """
    own = tuple(pod for pod in snapshot.pods if pod.namespace == namespace and pod.labels.get(SERVICE_LABEL) == service)
    claims = _own_claims(snapshot, service, namespace, {pod.key for pod in own})
    gone: list[KubeObject] = [*own, *claims]
    return Situation(
        service, namespace, snapshot.replace(remove=gone), facts, tuple(assumed), allow_disturb, own, tuple(claims)
    )


def _own_claims(snapshot: Snapshot, service: str, namespace: str, own: set[str]) -> list[KubeObject]:
    return [
        claim.object
        for claim in dra.claims(snapshot)
        if claim.object.namespace == namespace
        and (
            claim.object.labels.get(SERVICE_LABEL) == service
            or (claim.pods and set(claim.pods) <= own)
            or any(f"{namespace}/{owner.name}" in own for owner in claim.object.owners)
        )
    ]
