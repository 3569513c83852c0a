"""A plan's rehearsal in words, for the text of `plan` and for STEPS.md: (what it is about, what happens) line by line.

Reads `plan.simulation` as `rehearsal` writes it; a plan that was not rehearsed has no words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragstow.plan.model import Plan

Row = Mapping[str, Any]


def rehearsed(plan: Plan) -> list[tuple[str, str]]:
    """The rollout of all workloads, then what the loss of a node means, then each node."""
    played = plan.simulation or {}
    if "rollouts" not in played:
        return []
    return [*_rollouts(played["rollouts"]), *_nodes(plan, played["nodesLost"], played.get("nodesNotPlayed") or ())]


def promised(plan: Plan) -> bool:
    """Whether the service asks to survive the loss of a node."""
    placement: Mapping[str, Any] = (plan.spec.get("spec") or {}).get("placement") or {}
    return placement.get("survive") == "node"


def _rollouts(rows: Sequence[Row]) -> list[tuple[str, str]]:
    stuck = [row for row in rows if not row["done"]]
    through = [row for row in rows if row["done"]]
    found = []
    if through:
        serving = [f"{_name(row)} {row['leastReady']} of {row['replicas']}" for row in through if row["leastReady"]]
        silent = [_name(row) for row in through if not row["leastReady"]]
        parts = ["ok"] if not stuck else []
        if serving:
            parts.append(f"ready on the way at least: {', '.join(serving)}")
        if silent:
            parts.append(f"nothing serves while it runs: {', '.join(silent)} (the slot is given back before it is taken again)")
        found.append(("rollout", "; ".join(parts)))
    for row in stuck:
        fix = f"; set {row['remedy']}" if row["remedy"] else ""
        found.append((f"rollout of {_name(row)} STANDS STILL", f"{row['deadlock']}{fix}"))
    return found


def _name(row: Row) -> str:
    return str(row["component"] or row["workload"])


def _nodes(plan: Plan, rows: Sequence[Row], unplayed: Sequence[str]) -> list[tuple[str, str]]:
    if not rows:
        return []
    bad = [row for row in rows if not row["survives"]]
    if not bad:
        text = "every component keeps a replica or gets one elsewhere"
    else:
        gone = dict.fromkeys(item["component"] for row in bad for item in row["components"] if not item["running"])
        text = f"{', '.join(gone)} may be left without a replica"
    promise = " (promised: survive: node)" if promised(plan) else ""
    found = [("one node lost", text + promise)]
    found += [(f"{row['node']} lost", _loss(row)) for row in rows if row["components"]]
    if unplayed:
        found.append(("not played", f"the loss of {', '.join(unplayed)}"))
    return found


def _loss(row: Row) -> str:
    parts = [_component(item) for item in row["components"]]
    waiting = row["others"]["waiting"]
    if waiting:
        parts.append(f"{len(waiting)} pod{'s' if len(waiting) > 1 else ''} of others wait{'s' if len(waiting) == 1 else ''}")
    return "; ".join(parts)


def _component(item: Row) -> str:
    to = list(dict.fromkeys(str(moved["node"]) for moved in item["moved"]))
    parts = [f"{item['component']} {item['running']} of {item['replicas']}"]
    if to:
        parts.append(f"moves to {', '.join(to)}")
    if item["waiting"]:
        many = len(item["waiting"])
        parts.append(f"{many} wait{'s' if many == 1 else ''}")
    return ", ".join(parts)
