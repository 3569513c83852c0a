"""Does a suggested change really help? It is carried out on the objects as `kubectl patch` and a person would, and played."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from ragstow.simulate.model import Change, NearMiss, Simulation
from simulations import Json, cluster, play

_MERGED_BY = {"containers": "name", "ports": "containerPort", "topologySpreadConstraints": "topologyKey"}
"""Lists that a strategic merge patch of a pod goes into, by the key that tells their entries apart."""


def patched(value: Any, patch: Any, field: str = "") -> Any:
    """A strategic merge patch carried out: null takes out, lists are replaced or merged by their key."""
    if isinstance(patch, dict) and isinstance(value, dict):
        made = dict(value)
        for key, item in patch.items():
            if item is None:
                made.pop(key, None)
            else:
                made[key] = patched(made.get(key), item, key)
        return made
    if isinstance(patch, list) and field in _MERGED_BY and isinstance(value, list):
        key = _MERGED_BY[field]
        changes = {item[key]: item for item in patch}
        return [patched(item, changes[item[key]]) if item.get(key) in changes else item for item in value]
    return _without_nulls(patch)


def _without_nulls(patch: Any) -> Any:
    if isinstance(patch, dict):
        return {key: _without_nulls(item) for key, item in patch.items() if item is not None}
    return [_without_nulls(item) for item in patch] if isinstance(patch, list) else patch


def carried_out(change: Change, given: Json, live: Sequence[Json]) -> tuple[Json, list[Json]]:
    """The objects after the change."""
    given, objects = copy.deepcopy(given), [copy.deepcopy(item) for item in live]
    template = given if given["kind"] == "Pod" else given["spec"]["template"]
    template["spec"] = patched(template["spec"], (change.patch or {}).get("spec", {}))
    gone = {f"{item['metadata'].get('namespace')}/{item['metadata']['name']}" for item in objects if item["kind"] == "Pod"}
    assert set(change.disturbs) <= gone
    left = [
        item
        for item in objects
        if item["kind"] != "Pod" or f"{item['metadata']['namespace']}/{item['metadata']['name']}" not in change.disturbs
    ]
    names = {key.partition("/")[2] for key in change.disturbs}
    for item in left:
        if item["kind"] == "Node" and change.uncordon and item["metadata"]["name"] == change.node:
            item["spec"].pop("unschedulable", None)
            taints = item["spec"].get("taints") or []
            item["spec"]["taints"] = [taint for taint in taints if taint["key"] != "node.kubernetes.io/unschedulable"]
        if item["kind"] == "ResourceClaim" and item.get("status"):
            users = [user for user in item["status"].get("reservedFor", []) if user["name"] not in names]
            item["status"] = {**item["status"], "reservedFor": users} if users else {}
    return given, left


def near(given: Json, *live: Json, **flags: Any) -> NearMiss:
    """The near miss of the first pod that fits nowhere; every change in it was carried out and holds."""
    answer = play(cluster(*live), given, preemption=False, **flags)
    key = answer.unplaced[0]
    found = answer.near_misses[key]
    for change in found.changes:
        holds(change, given, live, key)
    return found


def holds(change: Change, given: Json, live: Sequence[Json], key: str) -> Simulation:
    """Assert that the pod lands after the change, on the node that the change names."""
    flags: Json = {}
    objects: list[Json] = list(live)
    if change.kind == "add-node":
        node = next(item for item in live if item["kind"] == "Node" and item["metadata"]["name"] == change.node)
        added = copy.deepcopy(node)
        added["metadata"] = {**added["metadata"], "name": "added", "uid": "added"}
        added["metadata"]["labels"]["kubernetes.io/hostname"] = "added"
        if " in zone " in change.text:
            added["metadata"]["labels"]["topology.kubernetes.io/zone"] = change.text.rpartition(" ")[2]
        objects.append(added)
    else:
        given, objects = carried_out(change, given, live)
    answer = play(cluster(*objects), given, preemption=False, **flags)
    on = answer.final.get(key)
    assert on == ("added" if change.kind == "add-node" else change.node), (change, on, answer.pods[-1].message)
    return answer
