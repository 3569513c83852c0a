"""A node drained or lost: who is evicted, where successors go, what a disruption budget holds back.

Drain is `kubectl drain --ignore-daemonsets --delete-emptydir-data --force`: the node is cordoned, pods are evicted as far as
budgets allow, again and again while successors become ready. Fail: the node and its pods are gone at once. Controllers make
successors from the same spec; a pod without a controller is lost, one of a DaemonSet or static stays or dies with its node.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ragstow.cluster.objects import KubeObject, Node, Pod
from ragstow.cluster.owners import Owners
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import UsageError
from ragstow.simulate.arrivals import Arrival
from ragstow.simulate.budgets import Ready, budgets_of, holding
from ragstow.simulate.claims import copied_claims
from ragstow.simulate.model import Disruption, Moved
from ragstow.simulate.play import Play
from ragstow.simulate.workload import made, recreated

_CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A drain or failure that can be played: the cluster with the node cordoned or without it, and who has to move.

    `leaving` are (pod, its successor or None); `staying` belong to the node. Order: as the pods were read.
    """

    kind: Literal["drain", "fail"]
    node: str
    snapshot: Snapshot
    leaving: tuple[tuple[Pod, Arrival | None], ...]
    staying: tuple[Pod, ...]


def prepare(snapshot: Snapshot, kind: Literal["drain", "fail"], name: str, *, only: Container[str] | None = None) -> Prepared:
    """Cordon (drain) or remove (fail) a node and make the successors of its pods, which are not placed yet.

    Args:
        snapshot: the cluster.
        kind: what happens to the node.
        name: the node.
        only: pods ("namespace/name") that a drain is about; the node's others are left where they are. Default: all.

    Raises:
        UsageError: there is no such node.
    """
    node = snapshot.get("Node", name)
    if not isinstance(node, Node):
        names = ", ".join(item.name for item in snapshot.nodes[:5])
        raise UsageError("no-such-node", f"--{kind} {name}: there is no such node", hint=f"one of {names}" if names else "")
    taken = {pod.key for pod in snapshot.pods}
    leaving: list[tuple[Pod, Arrival | None]] = []
    staying: list[Pod] = []
    fresh: list[KubeObject] = []
    for pod in snapshot.pods:
        if pod.node != name or pod.finished or (only is not None and pod.key not in only):
            continue
        owner = pod.controller
        if "kubernetes.io/config.mirror" in pod.annotations or (owner is not None and owner.kind in ("DaemonSet", "Node")):
            staying.append(pod)
            continue
        if owner is None:
            leaving.append((pod, None))
            continue
        again, claims = copied_claims(snapshot, pod, recreated(pod.raw, _successor_name(pod, taken)))
        fresh += claims
        successor = made(again)
        assert isinstance(successor, Pod)
        leaving.append((pod, Arrival(successor)))
    if kind == "fail":
        slices = [
            item
            for item in snapshot.of("ResourceSlice", "resource.k8s.io")
            if (item.raw.get("spec") or {}).get("nodeName") == name
        ]
        changed = snapshot.replace(put=fresh, remove=[node, *slices, *(pod for pod, _ in leaving), *staying])
    else:
        changed = snapshot.replace(put=[_cordoned(node), *fresh])
    return Prepared(kind, name, changed, tuple(leaving), tuple(staying))


def _successor_name(pod: Pod, taken: set[str]) -> str:
    """A StatefulSet's pod keeps its name; others get one that is free."""
    if pod.controller is not None and pod.controller.kind == "StatefulSet":
        return pod.name
    number = 1
    while f"{pod.namespace}/{pod.name}-again{'' if number == 1 else number}" in taken:
        number += 1
    name = f"{pod.name}-again{'' if number == 1 else number}"
    taken.add(f"{pod.namespace}/{name}")
    return name


def _cordoned(node: Node) -> KubeObject:
    spec = dict(node.raw.get("spec") or {})
    taints = [taint for taint in spec.get("taints") or () if taint.get("key") != _CORDON["key"]]
    return made({**node.raw, "spec": {**spec, "unschedulable": True, "taints": [*taints, _CORDON]}})


def play_disruption(play: Play, prepared: Prepared) -> Disruption:
    """Play it on a cluster that was made from `prepared.snapshot`."""
    shown = len(play.entries)
    budgets = budgets_of(prepared.snapshot)
    moved: dict[str, Moved] = {}
    waiting = list(prepared.leaving)
    ready = Ready(info.pod for info, _ in play.engine.world.placed)
    if prepared.kind == "fail":
        # All are made again at once: the scheduler takes them by priority.
        for pod, successor in sorted(waiting, key=lambda one: -one[0].priority):
            moved[pod.key] = _succeed(play, pod, successor, ready)
        waiting = []
    while waiting:
        left: list[tuple[Pod, Arrival | None]] = []
        for pod, successor in waiting:
            held_by = holding(budgets, pod, ready)
            if held_by:
                left.append((pod, successor))
                names = ", ".join(held_by)
                moved[pod.key] = Moved(pod.key, None, "blocked", None, f"PodDisruptionBudget {names} allows no disruption")
                continue
            play.remove(pod.key)
            ready.gone(pod)
            moved[pod.key] = _succeed(play, pod, successor, ready)
        _retry(play, prepared.leaving, moved, ready)
        if len(left) == len(waiting):
            break
        waiting = left
    del play.entries[shown:]
    listed = [moved[pod.key] for pod, _ in prepared.leaving]
    listed += [Moved(pod.key, None, "lost" if prepared.kind == "fail" else "stays", None) for pod in prepared.staying]
    done = not any(item.outcome == "blocked" for item in listed)
    return Disruption(prepared.kind, prepared.node, done, tuple(listed), _without_replica(play, prepared, moved))


def _succeed(play: Play, pod: Pod, successor: Arrival | None, ready: Ready) -> Moved:
    if successor is None:
        return Moved(pod.key, None, "lost", None, "no controller makes it again")
    node = play.arrive(successor.pod, successor)
    if node is None:
        return Moved(pod.key, successor.pod.key, "pending", None, play.entries[-1].message)
    ready.placed(successor.pod)
    return Moved(pod.key, successor.pod.key, "moved", node)


def _retry(play: Play, leaving: Sequence[tuple[Pod, Arrival | None]], moved: dict[str, Moved], ready: Ready) -> None:
    """Pending successors try again: something may have become free."""
    for pod, successor in leaving:
        known = moved.get(pod.key)
        if successor is not None and known is not None and known.outcome == "pending":
            moved[pod.key] = _succeed(play, pod, successor, ready)


def _without_replica(play: Play, prepared: Prepared, moved: Mapping[str, Moved]) -> tuple[str, ...]:
    """Workloads that had a pod on the node and have no running one left anywhere."""
    owners = Owners(prepared.snapshot)
    touched = {owners.workload(pod).ref for pod, successor in prepared.leaving if successor is not None}
    alive = {owners.workload(info.pod).ref for info, node in play.engine.world.placed if node.name != prepared.node}
    blocked = {owners.workload(pod).ref for pod, _ in prepared.leaving if moved[pod.key].outcome == "blocked"}
    return tuple(sorted(touched - alive - blocked))
