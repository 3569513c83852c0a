"""The `Simulation` document: a simulation in the names of INTERFACE 4, ready for JSON. Values only, no text for people."""

from __future__ import annotations

from typing import Any

from ragstow.errors import Reason
from ragstow.simulate.model import Disruption, KubeletAnswer, NearMiss, PodEntry, Rollout, Simulation
from ragstow.simulate.run import Request

Json = dict[str, Any]


def body(simulation: Simulation, request: Request) -> Json:
    """Everything of the document but apiVersion, kind and source."""
    return {
        "kubernetes": {"version": simulation.release, "origin": simulation.release_origin},
        "options": {
            "order": request.order,
            "preemption": "on" if request.preemption else "off",
            "sampling": request.sampling,
            "ties": request.ties,
        },
        "ok": simulation.ok,
        "pods": [pod(entry, scores=request.scores) for entry in simulation.pods],
        "final": dict(simulation.final),
        "unplaced": list(simulation.unplaced),
        "nearMisses": {key: _near_miss(miss) for key, miss in simulation.near_misses.items()},
        "displaced": [
            {
                "pod": item.pod,
                "by": item.by,
                "priority": item.priority,
                "recreated": item.recreated,
                "node": item.node,
                "message": item.message,
            }
            for item in simulation.displaced
        ],
        "loops": [
            {"workload": loop.workload, "node": loop.node, "reason": loop.reason, "message": loop.message, "text": loop.text}
            for loop in simulation.loops
        ],
        "rollouts": [_rollout(item) for item in simulation.rollouts],
        "disruptions": [_disruption(item) for item in simulation.disruptions],
        "warnings": [_reason(item) for item in simulation.warnings],
        "assumptions": list(simulation.assumptions),
    }


def pod(entry: PodEntry, *, scores: bool) -> Json:
    """One attempt. `rejected` and `scores` only where they were asked for."""
    made: Json = {
        "namespace": entry.namespace,
        "name": entry.name,
        "attempt": entry.number,
        "workload": entry.workload,
        "node": entry.node,
        "ties": list(entry.ties),
        "feasible": entry.feasible,
        "evaluated": entry.evaluated,
        "reasons": dict(entry.reasons),
        "message": entry.message,
        "preenqueue": entry.preenqueue,
        "prefilter": entry.prefilter,
        "nominatedNode": entry.nominated_node,
        "nominatedTies": list(entry.nominated_ties),
        "victims": list(entry.victims),
        "devices": dict(entry.devices),
        "extendedResourceClaim": dict(entry.extended) or None,
        "volumes": dict(entry.volumes),
        "kubelet": _kubelet(entry.kubelet),
        "cards": {
            resource: {"count": choice.count, "cards": list(choice.cards), "of": choice.of, "certain": choice.certain}
            for resource, choice in entry.cards.items()
        },
        "byName": entry.by_name,
        "refused": _reason(entry.refusal) if entry.refusal is not None else None,
        "words": [{**_reason(reason), "nodes": count} for reason, count in entry.words],
    }
    if scores:
        made["rejected"] = {
            node: {"plugin": said.plugin, "status": said.status, "reasons": list(said.reasons)}
            for node, said in (entry.rejected or {}).items()
        }
        made["scores"] = {node: dict(row) for node, row in (entry.scores or {}).items()}
        made["score"] = entry.score
    return made


def _reason(reason: Reason) -> Json:
    return {"code": reason.code, "text": reason.text, "hint": reason.hint}


def _kubelet(answer: KubeletAnswer | None) -> Json | None:
    if answer is None:
        return None
    return {
        "admitted": answer.admitted,
        "reason": answer.reason,
        "message": answer.message,
        "devices": {name: {r: list(ids) for r, ids in held.items()} for name, held in answer.devices.items()},
        "open": {
            name: {r: {"taken": list(pick.taken), "pool": list(pick.pool), "count": pick.count} for r, pick in picks.items()}
            for name, picks in answer.open.items()
        },
        "numa": {name: None if nodes is None else list(nodes) for name, nodes in answer.numa.items()},
        "assumed": list(answer.assumed),
    }


def _near_miss(miss: NearMiss) -> Json:
    return {
        "node": miss.node,
        "text": miss.text,
        "holders": list(miss.holders),
        "changes": [
            {
                "kind": change.kind,
                "text": change.text,
                "node": change.node,
                "disturbs": list(change.disturbs),
                "patch": change.patch,
                "uncordon": change.uncordon,
            }
            for change in miss.changes
        ],
    }


def _rollout(item: Rollout) -> Json:
    return {
        "workload": item.workload,
        "strategy": item.strategy,
        "maxSurge": item.surge,
        "maxUnavailable": item.unavailable,
        "replicas": item.replicas,
        "done": item.done,
        "leastReady": item.least_ready,
        "deadlock": item.deadlock,
        "remedy": item.remedy,
        "steps": [
            {"action": step.action, "pod": step.pod, "node": step.node, "ready": step.ready, "message": step.message}
            for step in item.steps
        ],
    }


def _disruption(item: Disruption) -> Json:
    return {
        "kind": item.kind,
        "node": item.node,
        "done": item.done,
        "moved": [
            {
                "pod": moved.pod,
                "successor": moved.successor,
                "outcome": moved.outcome,
                "node": moved.node,
                "message": moved.message,
            }
            for moved in item.moved
        ],
        "withoutReplica": list(item.without_replica),
    }
