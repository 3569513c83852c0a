"""The blast radius of a procedure: pods that lose a GPU, budgets, DaemonSets that restart, nodes that close, workloads.

A pure function of the procedure and the cluster, so that what is shown is what will be done. The pods' ways are played by
`plan.evictions`; nothing here asks a server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ragstow.cluster.objects import Node, Pod
from ragstow.cluster.owners import Owners
from ragstow.cluster.snapshot import Snapshot
from ragstow.inventory.model import Inventory
from ragstow.plan.change import holders
from ragstow.plan.evictions import BudgetEffect, Evicted, Evictions, evictions
from ragstow.plan.model import Plan, PluginInstall
from ragstow.render.actions import (
    Action,
    Cordon,
    EvictGpuPods,
    HelmUpgrade,
    MergePatch,
    Procedure,
    RestartDaemonSet,
    RestartPluginPod,
    Uncordon,
    WaitMigState,
    WaitNodeOffers,
)
from ragstow.render.nodes.mig import MANAGER_DAEMONSET
from ragstow.render.nodes.operator import GFD_DAEMONSET, PLUGIN_DAEMONSET

Change = Literal["new", "replaced", "scaled", "changed", "same", "deleted"]
"""What applying does to a workload: it is made; its pods are replaced; only their number changes; something that leaves the
pods alone; nothing; it goes with its pods."""

_PAUSED = "the MIG manager pauses it while it cuts"
_OPERANDS: Mapping[str, tuple[str, ...]] = {
    "devicePlugin": (PLUGIN_DAEMONSET, GFD_DAEMONSET),
    "mig": (PLUGIN_DAEMONSET, GFD_DAEMONSET, MANAGER_DAEMONSET),
    "migManager": (MANAGER_DAEMONSET,),
}
"""Part of a ClusterPolicy -> DaemonSets whose pods the operator makes anew when it changes."""


@dataclass(frozen=True, slots=True)
class Restarted:
    """A DaemonSet some of whose pods are made anew, why, and on which nodes."""

    daemon_set: str
    why: tuple[str, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Closed:
    """A node that takes no new pods for a while: what is waited for until it is opened again.

    `stays` says that it was closed before and so will be afterwards. `at_most_seconds` is when the run gives up: the sum of
    the waits' limits; None where those are not known.
    """

    node: str
    until: tuple[str, ...]
    stays: bool
    at_most_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Affected:
    """A workload that is applied, what that does, and its pods of now."""

    workload: str
    change: Change
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Impact:
    """All of it. Pods in the order in which nodes are emptied."""

    pods: tuple[Evicted, ...]
    budgets: tuple[BudgetEffect, ...]
    preempted: tuple[str, ...]
    stopped_at: str | None
    """The node at which pods that cannot leave would keep the run waiting until it times out."""
    daemon_sets: tuple[Restarted, ...]
    nodes: tuple[Closed, ...]
    workloads: tuple[Affected, ...]

    @property
    def disturbed(self) -> tuple[str, ...]:
        """Pods of others that lose a GPU, even for a moment."""
        return tuple(item.pod for item in self.pods if not item.own) + self.preempted


def impact(
    procedure: Procedure,
    plan: Plan,
    snapshot: Snapshot,
    inventory: Inventory,
    changes: Mapping[tuple[str, str, str], Change] | None = None,
    limit: Callable[[Action], float] | None = None,
) -> Impact:
    """The blast radius.

    Args:
        procedure: what will be done.
        plan: what it was made from.
        snapshot: the cluster as it is now.
        inventory: its GPUs, the service's own pods counted as holders.
        changes: (kind, namespace, name) -> what applying does to a workload, as a dry run or a comparison found.
        limit: seconds after which an action that waits gives up.
    """
    emptied = [action.node for action in procedure.actions if isinstance(action, EvictGpuPods)]
    layouts = {layout.node: layout for layout in plan.layouts}
    held = {node: holders(found) for node in emptied if (found := inventory.find(node)) is not None}
    gone = (
        evictions(
            snapshot,
            [layouts[node] for node in emptied if node in layouts],
            held,
            service=plan.service,
            namespace=plan.namespace,
            release=plan.cluster.kubernetes,
        )
        if any(held.values())
        else Evictions()
    )
    return Impact(
        gone.pods,
        gone.budgets,
        gone.preempted,
        gone.stopped_at,
        tuple(_restarted(procedure.actions, plan.cluster.plugin, snapshot)),
        tuple(_closed(procedure.actions, snapshot, limit)),
        tuple(_affected(changes or {}, snapshot)),
    )


def _restarted(actions: Iterable[Action], plugin: PluginInstall, snapshot: Snapshot) -> Iterator[Restarted]:
    whys: dict[tuple[str, str], dict[str, None]] = {}
    nodes: dict[tuple[str, str], set[str]] = {}
    for namespace, name, why, on in _restarts(actions, plugin):
        key = namespace, name
        whys.setdefault(key, {})[why] = None
        nodes.setdefault(key, set()).update(on if on is not None else _nodes_of(snapshot, namespace, name))
    for (namespace, name), found in whys.items():
        yield Restarted(f"{namespace}/{name}", tuple(found), tuple(sorted(nodes[namespace, name])))


def _restarts(actions: Iterable[Action], plugin: PluginInstall) -> Iterator[tuple[str, str, str, tuple[str, ...] | None]]:
    """(namespace, DaemonSet, why, nodes; None: all that it runs on)."""
    for action in actions:
        if isinstance(action, RestartDaemonSet):
            yield action.namespace, action.name, action.why, None
        elif isinstance(action, RestartPluginPod):
            yield action.namespace, action.daemonset, "it looks for slices anew", (action.node,)
        elif isinstance(action, HelmUpgrade):
            name = action.config_map.removesuffix("-configs")
            yield action.namespace, name, "helm upgrade", None
            if plugin.gfd:
                yield action.namespace, f"{name}-gpu-feature-discovery", "helm upgrade", None
        elif isinstance(action, MergePatch) and action.kind == "DaemonSet" and "template" in (action.patch.get("spec") or {}):
            yield action.namespace, action.name, action.what, None
        elif isinstance(action, MergePatch) and action.kind == "ClusterPolicy":
            for part in action.patch.get("spec") or {}:
                for name in _OPERANDS.get(part, ()):
                    yield plugin.namespace or "gpu-operator", _called(name, plugin), action.what, None
        elif isinstance(action, WaitMigState):
            for name in (PLUGIN_DAEMONSET, GFD_DAEMONSET):
                yield plugin.namespace or "gpu-operator", _called(name, plugin), _PAUSED, (action.node,)


def _called(name: str, plugin: PluginInstall) -> str:
    return (plugin.daemonset or name) if name == PLUGIN_DAEMONSET else name


def _nodes_of(snapshot: Snapshot, namespace: str, daemon_set: str) -> set[str]:
    return {
        pod.node
        for pod in snapshot.pods
        if pod.node is not None
        and pod.namespace == namespace
        and (owner := pod.controller) is not None
        and (owner.kind, owner.name) == ("DaemonSet", daemon_set)
    }


def _closed(actions: Iterable[Action], snapshot: Snapshot, limit: Callable[[Action], float] | None) -> Iterator[Closed]:
    waits: dict[str, list[Action]] = {}
    for action in actions:
        if isinstance(action, Cordon):
            waits[action.node] = []
        elif isinstance(action, EvictGpuPods | WaitMigState | WaitNodeOffers | RestartPluginPod) and action.node in waits:
            waits[action.node].append(action)
        elif isinstance(action, Uncordon) and action.node in waits:
            node = snapshot.get("Node", action.node)
            found = waits.pop(action.node)
            most = sum(map(limit, found)) if limit is not None else None
            stays = isinstance(node, Node) and node.unschedulable
            yield Closed(action.node, tuple(item.title for item in found), stays, most)


def _affected(changes: Mapping[tuple[str, str, str], Change], snapshot: Snapshot) -> Iterator[Affected]:
    owners = Owners(snapshot)
    pods: dict[str, list[Pod]] = {}
    for pod in snapshot.pods:
        if not pod.finished and pod.controller is not None:
            pods.setdefault(owners.workload(pod).ref, []).append(pod)
    for (kind, namespace, name), change in changes.items():
        workload = f"{kind} {namespace}/{name}"
        yield Affected(workload, change, tuple(pod.key for pod in pods.get(workload, ())))
