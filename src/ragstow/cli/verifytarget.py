"""What `verify` is about: a plan file, a rendered folder, a service by name, or the one service of the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ragstow.cli.planfile import NAME
from ragstow.errors import InputError, Place
from ragstow.verification.model import Asked

if TYPE_CHECKING:
    from ragstow.cluster.snapshot import Snapshot
    from ragstow.live.client import Client


def of_path(text: str) -> Asked:
    """A plan file ("-": stdin), or a folder that `render` wrote.

    Raises:
        InputError, InputErrors: neither is there, or it cannot be read.
    """
    path = Path(text)
    if text == "-":
        return _of_plan(text, "the plan on stdin")
    if path.is_dir():
        inside = path / NAME
        return _of_plan(str(inside), f"the plan in {path}") if inside.exists() else _of_manifests(path)
    return _of_plan(text, f"plan file {path}")


def _of_plan(source: str, basis: str) -> Asked:
    from ragstow.cli.planfile import find_plan, read_text
    from ragstow.plan.load import load_plan

    document = find_plan(read_text(source), None if source == "-" else source)
    if document is None:
        raise InputError(
            "verify-no-plan",
            "this is no plan",
            place=Place(source),
            hint="ragstow plan service.yaml -o json > plan.json; or name the service: ragstow verify NAMESPACE/SERVICE",
        )
    plan = load_plan(document, file=source)
    if not plan.feasible:
        raise InputError("verify-infeasible", "the plan does not fit, so there is nothing to verify", place=Place(source))
    return Asked(plan.service, plan.namespace, plan, basis)


def _of_manifests(path: Path) -> Asked:
    """A folder without a plan: whose objects are in it?"""
    from ragstow.cli.manifest_files import read_manifests
    from ragstow.render.names import SERVICE

    named = {
        (item.object.namespace, item.object.labels[SERVICE])
        for item in read_manifests([str(path)]).manifests
        if SERVICE in item.object.labels
    }
    if len(named) != 1:
        found = ", ".join(f"{namespace}/{name}" for namespace, name in sorted(named)) or "none"
        raise InputError(
            "verify-no-service", f"objects of one service are expected here, found: {found}", place=Place(str(path))
        )
    ((namespace, service),) = named
    return Asked(service, namespace, None, f"folder {path}")


def of_cluster(client: Client, snapshot: Snapshot, name: str | None, namespace: str | None) -> Asked:
    """A service by name ("service" or "namespace/service"), or the only one that there is.

    Raises:
        InputError: there is no such service, or there are several.
    """
    from ragstow.verification.judge import services

    before, slash, after = (name or "").partition("/")
    wanted, place = (after, before) if slash else (before, namespace)
    there = services(snapshot)
    found = [pair for pair in there if (not wanted or pair[1] == wanted) and (place is None or pair[0] == place)]
    if len(found) == 1:
        return with_record(client, Asked(found[0][1], found[0][0], None, ""))
    if not found and wanted and place:
        # No pod of it runs, but it may have been applied.
        return with_record(client, Asked(wanted, place, None, ""))
    listed = ", ".join(f"{ns}/{service}" for ns, service in found or there) or "none"
    if found:
        raise InputError(
            "verify-ambiguous", f"several services are here: {listed}", hint="name one: ragstow verify NAMESPACE/SERVICE"
        )
    said = f"no pod of service {name}" if name else "no pod of a service"
    raise InputError(
        "verify-no-service", f"{said} in the cluster (services with pods: {listed})", hint="ragstow apply plan.json"
    )


def with_record(client: Client, wanted: Asked) -> Asked:
    """The plan of the last apply, where the cluster has a record of it; else expectations rest on labels, and say so."""
    from ragstow.live.verify.record import recorded_plan

    if wanted.plan is not None:
        return wanted
    record = recorded_plan(client, wanted.service, wanted.namespace)
    if record.plan is not None:
        return Asked(wanted.service, wanted.namespace, record.plan, f"the plan of record {wanted.namespace}/{record.name}")
    start = f"{wanted.basis}, " if wanted.basis else ""
    return Asked(wanted.service, wanted.namespace, None, f"{start}labels only, with fewer checks ({record.why})")
