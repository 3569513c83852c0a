"""A plan, a folder of `render`, or a service planned on the spot, as what `simulate` places: its objects, on nodes as the plan
leaves them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragstow.cli.output import API_VERSION, note
from ragstow.errors import InputError, Place

if TYPE_CHECKING:
    from ragstow.cli.cluster import Cluster
    from ragstow.cluster.objects import KubeObject
    from ragstow.plan.model import Plan
    from ragstow.spec.model import Service


@dataclass(frozen=True, slots=True)
class Planned:
    """A Plan or RagService document and the file it came from; `objects` as they stand in a folder, None: as rendered."""

    document: Mapping[str, Any]
    file: str
    objects: tuple[Mapping[str, Any], ...] | None = None


def found_folder(path: str, facts: str | None) -> Planned | None:
    """What a folder of `render` holds, edited objects included; None where it is any other folder, or one without its plan."""
    from ragstow.cli.applysource import read_source
    from ragstow.cli.folder import made_by
    from ragstow.cli.planfile import NAME
    from ragstow.facts import load

    folder = Path(path)
    if not folder.is_dir() or made_by(folder) != "render" or not (folder / NAME).is_file():
        return None
    source = read_source(path, load(Path(facts) if facts is not None else None))
    held = source.folder
    return Planned(source.document, str(folder / NAME), None if held is None else (*held.nodes, *held.workloads))


def found(text: str, file: str) -> Planned | None:
    """The plan or service in a file; None where it holds manifests."""
    from ragstow import kubeyaml

    if API_VERSION not in text:
        return None
    values = [document.value for document in kubeyaml.load_all(text, file=file)]
    ours = [item for item in values if isinstance(item, dict) and item.get("kind") in ("Plan", "RagService")]
    if not ours:
        return None
    if len(values) > 1:
        raise InputError("simulate-many", "a plan or a service has a file of its own", place=Place(file))
    return Planned(ours[0], file)


def applied(
    planned: Planned, cluster: Cluster, assumed: tuple[str, ...]
) -> tuple[Cluster, tuple[KubeObject, ...], tuple[str, ...]]:
    """The cluster with the plan's changes of nodes done, the objects that it renders to, and what that assumes.

    Args:
        planned: the plan or service.
        cluster: where.
        assumed: --assume, as typed.

    Raises:
        InputError: the plan cannot be read, or is one for another cluster.
        Exit: the service does not fit (code 1).
    """
    from ragstow.plan.planner import snapshot_after
    from ragstow.render import render
    from ragstow.simulate.workload import made

    service, plan = _service_and_plan(planned, cluster, assumed)
    if not plan.feasible:
        note(f"{plan.namespace}/{plan.service} does not fit, so there is nothing to place (ragstow plan says more)")
        for reason in plan.reasons:
            note(f"  {reason}")
        raise click.exceptions.Exit(1)
    missing = [layout.node for layout in plan.layouts if layout.changes and cluster.snapshot.get("Node", layout.node) is None]
    if missing:
        raise InputError("plan-other-cluster", f"the plan changes {', '.join(missing)}, which this cluster does not have")
    changed = [layout.node for layout in plan.layouts if layout.changes]
    notes = [f"the plan's changes of {', '.join(changed)} are taken as done"] if changed else []
    snapshot = snapshot_after(cluster.snapshot, plan.layouts)
    rendered = render(service, plan, cluster.facts).objects if planned.objects is None else planned.objects
    objects = tuple(made(item) for item in rendered)
    # What the inventory knows of the nodes that the plan changes is what they were before.
    kept = replace(cluster.inventory, nodes=tuple(node for node in cluster.inventory.nodes if node.name not in changed))
    return replace(cluster, snapshot=snapshot, inventory=kept), objects, tuple(notes)


def _service_and_plan(planned: Planned, cluster: Cluster, assumed: tuple[str, ...]) -> tuple[Service, Plan]:
    from ragstow.spec import load, normalise

    if planned.document.get("kind") == "Plan":
        from ragstow.plan.load import load_plan

        plan = load_plan(planned.document, file=planned.file)
        return normalise(plan.spec, cluster.facts), plan
    from ragstow.cli.plan import plan_service

    on_disk = Path(planned.file)
    service = load(on_disk, cluster.facts) if on_disk.is_file() else normalise(planned.document, cluster.facts)
    return service, plan_service(service, cluster, assumed=assumed, release=cluster.release.version, rehearsed=False)
