"""Whether a plan still holds on the cluster of now: the digest, planning again where it changed, and what differs then."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ragstow.cli.applysource import Source
from ragstow.cli.cluster import Cluster
from ragstow.errors import InputError
from ragstow.inventory.assume import parse
from ragstow.live.preview.fields import changes, shown
from ragstow.live.preview.model import FieldChange
from ragstow.plan.difference import Difference, differences
from ragstow.plan.digest import digest
from ragstow.plan.situation import situation
from ragstow.render import Procedure
from ragstow.render.actions import ApplyObject


@dataclass(frozen=True, slots=True)
class Rendered:
    """An object that the newer plan renders otherwise: new (`before` None), gone (`after` None) or with other fields."""

    ref: str
    what: str
    fields: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Held:
    """The plan to carry out. `replanned` says that the cluster changed since the plan was made, and so it was planned again;
    `differences` and `rendered` are what that changed."""

    source: Source
    replanned: bool = False
    differences: tuple[Difference, ...] = ()
    rendered: tuple[Rendered, ...] = ()


def hold(source: Source, cluster: Cluster, *, assumed: tuple[str, ...], release: str | None, allow_disturb: bool) -> Held:
    """The given plan where the cluster is as it was, else a new one for the same service.

    Args:
        source: what was given.
        cluster: the cluster of now.
        assumed, release: as for `plan`.
        allow_disturb: whether pods of others may be disturbed; they may where the given plan does so.

    Raises:
        InputError: the folder has edited objects, and the new plan renders them otherwise.
    """
    old = source.plan
    now = situation(
        cluster.snapshot,
        cluster.facts,
        service=old.service,
        namespace=old.namespace,
        assumed=parse(assumed, cluster.snapshot, cluster.facts),
    )
    if digest(now) == old.digest:
        return Held(source)
    from ragstow.cli.plan import document, plan_service

    disturb = allow_disturb or any(layout.disturbs for layout in old.layouts)
    new = plan_service(
        source.service, cluster, assumed=assumed, release=release, solver=_solver(old.solver), allow_disturb=disturb
    )
    made = replace(source, plan=new, document=document(new, cluster))
    if not new.feasible:
        return Held(made, replanned=True)
    if not old.feasible:
        return Held(made, True, differences(old, new))
    before, after = (replace(item, folder=None).procedure(cluster.facts) for item in (source, made))
    objects = tuple(_rendered(before, after, old.namespace))
    if source.edited and objects:
        listed = ", ".join(item.ref for item in objects)
        raise InputError(
            "apply-edited-outdated",
            f"the cluster changed since {source.path} was rendered, and the plan of now has other objects ({listed}), while "
            f"the folder holds edited ones ({', '.join(source.edited)})",
            hint="plan and render again into another folder, and make the edits there",
        )
    return Held(made, True, differences(old, new), objects)


def _solver(name: str) -> str:
    return "greedy" if name == "greedy" else "exact"


def _rendered(old: Procedure, new: Procedure, namespace: str) -> list[Rendered]:
    """The service's own objects that differ; node configuration is compared as layouts."""
    sides = [_own(procedure, namespace) for procedure in (old, new)]
    found: list[Rendered] = []
    for ref in (*sides[0], *(ref for ref in sides[1] if ref not in sides[0])):
        before, after = sides[0].get(ref), sides[1].get(ref)
        if before is None or after is None:
            found.append(Rendered(ref, "new" if before is None else "gone"))
        elif fields := tuple(changes(before, after)):
            found.append(Rendered(ref, "changed", fields))
    return found


def _own(procedure: Procedure, namespace: str) -> dict[str, Mapping[str, Any]]:
    made: dict[str, Mapping[str, Any]] = {}
    for action in procedure.actions[procedure.workloads :]:
        if isinstance(action, ApplyObject):
            meta = action.manifest["metadata"]
            ref = f"{action.manifest['kind']} {meta.get('namespace') or namespace}/{meta['name']}"
            made[ref] = shown(json.loads(json.dumps(action.manifest))) or {}
    return made
