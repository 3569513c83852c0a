"""What a plan's own manifests do on the cluster: a rolling update of every workload, and the loss of each node they use.

The manifests are the ones that `render` writes, so that strategies, budgets and claims are those that will be applied; the
simulation places, rolls and moves them on the cluster as the plan leaves it. Pods of others that are Pending stay out, as they
do in the plan. The answer goes into the plan's `simulation`; nothing is decided again here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragstow.cluster.objects import KubeObject, Pod
from ragstow.cluster.release import Release
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import Reason
from ragstow.facts import Facts
from ragstow.inventory.model import Inventory
from ragstow.plan.model import Plan
from ragstow.plan.planner import snapshot_after
from ragstow.render.layout import workload_objects
from ragstow.render.names import COMPONENT, SERVICE
from ragstow.render.rehearsalwords import promised
from ragstow.simulate.model import Disruption, Rollout, Simulation
from ragstow.simulate.run import Request, simulate
from ragstow.simulate.workload import made
from ragstow.spec.model import Service

Json = dict[str, Any]

_MOST_NODES = 16
_MOST_OBJECTS = 200_000
"""Nodes whose loss is played, and objects read for that: each loss goes through all pods of the cluster."""


def rehearse(service: Service, plan: Plan, snapshot: Snapshot, facts: Facts, inventory: Inventory | None = None) -> Plan:
    """The plan with its rollout and the loss of each node it uses played, in `simulation`.

    A plan whose own manifests leave a pod without a node, or break the promise to survive the loss of a node, is not feasible
    any more, and says which pod.

    Args:
        service: the normalised service.
        plan: of this service; one that does not fit is given back as it is.
        snapshot: the whole cluster that it was made for.
        facts: cards, engines, clouds.
        inventory: what is known of the nodes' plugins; nodes that the plan changes are left out of it.
    """
    if not plan.feasible:
        return plan
    changed = {layout.node for layout in plan.layouts if layout.changes}
    objects = [made(item) for item in workload_objects(service, plan, facts)]
    own = [pod for pod in snapshot.pods if _is_own(pod, service) and pod.node is not None and not pod.finished]
    used = list(dict.fromkeys([*(item.node for item in plan.placements if item.node), *(str(pod.node) for pod in own)]))
    affordable = max(1, min(_MOST_NODES, _MOST_OBJECTS // (len(snapshot.pods) + len(snapshot.nodes))))
    answer = simulate(
        snapshot_after(snapshot, plan.layouts),
        objects,
        Request(
            release=Release(plan.cluster.kubernetes, plan.cluster.kubernetes_origin),
            preemption=False,
            only_files=True,
            inventory=_unchanged(inventory, changed),
            rollout=True,
            fail_alone=tuple(used[:affordable]),
        ),
        facts,
    )
    components = _components(service, objects, snapshot, answer)
    running = {key: node for key, node in answer.final.items() if key in components}
    running |= {pod.key: str(pod.node) for pod in own}
    unplaced = set(answer.unplaced)
    stuck = list({entry.key: entry for entry in answer.pods if entry.key in unplaced}.values())
    lost = [_lost(item, components, running) for item in answer.disruptions]
    against = [Reason("scheduler", f"{entry.key}: {entry.message}") for entry in stuck]
    if not against and promised(plan):
        against = [reason for row in lost for reason in _broken(row)]
    played: Json = {
        "unplaced": [{"pod": entry.key, "component": components.get(entry.key), "message": entry.message} for entry in stuck],
        "rollouts": [_rollout(item, components) for item in answer.rollouts],
        "nodesLost": lost,
        "nodesNotPlayed": used[affordable:],
    }
    return replace(
        plan,
        feasible=not against,
        reasons=(*plan.reasons, *against),
        simulation={**(plan.simulation or {}), **played},
    )


def _broken(row: Json) -> list[Reason]:
    """Components that a lost node leaves without a replica."""
    return [
        Reason(
            "node-lost",
            f"{item['component']}: when {row['node']} is lost, no replica of it runs: {item['waiting'][0]['message']}",
            "a second node with room for it, or a volume that other nodes can use",
        )
        for item in row["components"]
        if not item["running"] and item["waiting"]
    ]


def _unchanged(inventory: Inventory | None, changed: set[str]) -> Inventory | None:
    """What the inventory knows of nodes that the plan changes is what they were before."""
    if inventory is None:
        return None
    return replace(inventory, nodes=tuple(node for node in inventory.nodes if node.name not in changed))


def _is_own(pod: Pod, service: Service) -> bool:
    return pod.namespace == service.namespace and pod.labels.get(SERVICE) == service.name and COMPONENT in pod.labels


def _components(service: Service, objects: Sequence[KubeObject], snapshot: Snapshot, answer: Simulation) -> Mapping[str, str]:
    """Pod key or workload -> component: of pods that arrive, and of those that run already."""
    found = {item.ref: item.labels[COMPONENT] for item in objects if COMPONENT in item.labels}
    for entry in answer.pods:
        if entry.workload in found:
            found[entry.key] = found[entry.workload]
    for pod in snapshot.pods:
        if _is_own(pod, service):
            found[pod.key] = pod.labels[COMPONENT]
    return found


def _rollout(item: Rollout, components: Mapping[str, str]) -> Json:
    return {
        "component": components.get(item.workload),
        "workload": item.workload,
        "strategy": item.strategy,
        "maxSurge": item.surge,
        "maxUnavailable": item.unavailable,
        "replicas": item.replicas,
        "done": item.done,
        "leastReady": item.least_ready,
        "deadlock": item.deadlock,
        "remedy": item.remedy,
    }


def _lost(item: Disruption, components: Mapping[str, str], running: Mapping[str, str]) -> Json:
    """A lost node: what is left of each component that had a pod there, and what becomes of the pods of others."""
    own = [moved for moved in item.moved if moved.pod in components]
    touched = list(dict.fromkeys(components[moved.pod] for moved in own))
    rows = []
    for component in touched:
        here = [moved for moved in own if components[moved.pod] == component]
        replicas = sum(1 for key in running if components[key] == component)
        came = [moved for moved in here if moved.outcome == "moved"]
        rows.append(
            {
                "component": component,
                "replicas": replicas,
                "running": replicas - len(here) + len(came),
                "moved": [{"pod": moved.pod, "node": moved.node} for moved in came],
                "waiting": [{"pod": moved.pod, "message": moved.message} for moved in here if moved.outcome == "pending"],
            }
        )
    others = [moved for moved in item.moved if moved.pod not in components and moved.successor is not None]
    return {
        "node": item.node,
        "survives": all(row["running"] for row in rows),
        "components": rows,
        "others": {
            "moved": sum(1 for moved in others if moved.outcome == "moved"),
            "waiting": [moved.pod for moved in others if moved.outcome == "pending"],
        },
    }
