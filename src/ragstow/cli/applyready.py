"""From the flags to what `apply` shows and does: the plan that holds now, its procedure, and the view of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ragstow.cli.applyplan import Held, hold
from ragstow.cli.applysource import Source, from_document, read_source
from ragstow.cli.applyview import View, not_ready, problems_of, radius, secrets_needed
from ragstow.cli.applywish import Wish
from ragstow.cli.cluster import Cluster, open_cluster
from ragstow.errors import UsageError
from ragstow.live.preview.model import ObjectPreview
from ragstow.plan.model import Plan
from ragstow.render.actions import Action, HelmUpgrade, Procedure

if TYPE_CHECKING:
    from ragstow.live.apply import Record
    from ragstow.live.client import ApiClient


@dataclass(frozen=True, slots=True)
class Ready:
    """All that is needed to ask and then to go on."""

    cluster: Cluster
    plan: Plan
    procedure: Procedure
    text: bytes
    """The plan, for the record."""
    resumed: bool
    view: View


@dataclass(frozen=True, slots=True)
class NoFit:
    """The service does not fit the cluster of now; `changed`: it did when the plan was made."""

    plan: Plan
    cluster: Cluster
    changed: bool


@dataclass(frozen=True, slots=True)
class _Todo:
    """What is to be done, before it was looked at."""

    source: Source
    procedure: Procedure
    left: Procedure
    """What of it is still to be done."""
    held: Held
    resumed: str = ""
    problems: tuple[str, ...] = field(default=())


def saved(wish: Wish) -> Ready | NoFit:
    """For --from: nothing is asked of any server."""
    source = read_source(wish.source, wish.load_facts())
    cluster = open_cluster(wish.from_, facts=wish.facts, assumed=wish.assumed, release=wish.release, scheduling=True)
    todo = _new(wish, source, cluster)
    return todo if isinstance(todo, NoFit) else _ready(wish, cluster, todo, None)


def ready(wish: Wish, client: ApiClient) -> Ready | NoFit:
    """For a live cluster.

    Raises:
        ApplyStopped: another run, or an undo, is unfinished; or there is nothing to resume.
        RagstowError: the input, the rights or the way to the server.
    """
    from ragstow.live.apply import last, leftovers, with_leftovers
    from ragstow.live.apply.prepare import refuse_secrets

    facts = wish.load_facts()
    source = None if wish.by_name else read_source(wish.source, facts)
    if source is not None and wish.namespace not in (None, source.plan.namespace):
        raise UsageError(
            "apply-namespace",
            f"-n {wish.namespace}: the plan is for namespace {source.plan.namespace}",
            hint="a service's namespace stands in its description; plan again to move it",
        )
    cluster = open_cluster(None, facts=wish.facts, assumed=wish.assumed, release=wish.release, scheduling=True)
    service, namespace = (source.plan.service, source.plan.namespace) if source is not None else named(wish, client)
    record = last(client, service, namespace)
    _warn_of_others(client, service, namespace)
    if (record is not None and record.unfinished) or wish.resume or source is None:
        return _ready(wish, cluster, _begun(wish, source, record, service, namespace), client)
    todo = _new(wish, source, cluster)
    if isinstance(todo, NoFit):
        return todo
    refuse_secrets(todo.procedure)
    procedure = with_leftovers(todo.procedure, leftovers(client, todo.procedure))
    return _ready(wish, cluster, replace(todo, procedure=procedure, left=procedure), client)


def _warn_of_others(client: ApiClient, service: str, namespace: str) -> None:
    """Runs of other services that stopped on the way: their nodes may be closed, and it is for them to open these."""
    from ragstow.cli.live import typed
    from ragstow.cli.output import note
    from ragstow.live.apply.engine import unfinished

    flags = f" {typed()}".rstrip()
    for where, name, state in unfinished(client):
        if (where, name) == (namespace, service):
            continue
        what, how = ("an undo", "--undo") if state == "undoing" else ("a run", "--resume")
        note(
            f"warning: {what} of {where}/{name} has not come to its end, so nodes may be closed and half changed; "
            f"if nobody is at it: ragstow apply {how} -n {where} {name}{flags}"
        )


def named(wish: Wish, client: ApiClient) -> tuple[str, str]:
    """The service that is named: its name and namespace."""
    return wish.source, wish.namespace or client.transport.access.namespace


def _new(wish: Wish, source: Source, cluster: Cluster) -> _Todo | NoFit:
    held = hold(source, cluster, assumed=wish.assumed, release=wish.release, allow_disturb=wish.allow_disturb)
    if not held.source.plan.feasible:
        return NoFit(held.source.plan, cluster, changed=source.plan.feasible)
    procedure = held.source.procedure(cluster.facts)
    return _Todo(held.source, procedure, procedure, held)


def _begun(wish: Wish, source: Source | None, record: Record | None, service: str, namespace: str) -> _Todo:
    """What is left of an interrupted run. Its own half work changed the cluster, so the digest is not looked at.

    Raises:
        ApplyStopped: it is an undo, or of another service description; or there is no such run.
    """
    from ragstow.live.apply import ApplyStopped
    from ragstow.live.apply.record import PENDING, STARTED

    flags = f" {wish.options().typed}".rstrip()
    if record is None or not record.unfinished:
        raise ApplyStopped(
            "nothing-to-resume",
            f"no run of {namespace}/{service} was interrupted",
            hint="ragstow apply PLAN begins one; -n NAMESPACE says where a service is that is named",
        )
    if record.progress.state == "undoing":
        raise ApplyStopped(
            "undo-unfinished",
            f"an undo of {namespace}/{service} was interrupted (record {record.title})",
            hint=f"finish it first: ragstow apply --undo -n {namespace} {service}{flags}",
        )
    found = from_document(record.title, json.loads(record.plan or b"{}"), wish.load_facts())
    if source is not None and source.plan.spec != found.plan.spec:
        raise ApplyStopped(
            "run-unfinished",
            f"a run of another plan of {namespace}/{service}, begun {record.progress.started}, was interrupted after "
            f"{record.done} of {len(record.procedure.actions)} actions (record {record.title})",
            hint=f"finish it first: ragstow apply --resume -n {namespace} {service}{flags}; or take it back with --undo",
        )
    left = [
        action
        for action, letter in zip(record.procedure.actions, record.progress.states, strict=True)
        if letter in (PENDING, STARTED)
    ]
    said = (
        f"the run of {record.progress.started} by {record.progress.holder} was interrupted: {record.done} of "
        f"{len(record.procedure.actions)} steps are done; the others follow"
    )
    trimmed = replace(record.procedure, actions=tuple(left), configuration=0, workloads=0)
    return _Todo(found, record.procedure, trimmed, Held(found), said)


def _ready(wish: Wish, cluster: Cluster, todo: _Todo, client: ApiClient | None) -> Ready:
    snapshot, plan = cluster.snapshot, todo.source.plan
    previews, problems, notes = _looked_at(wish, cluster, todo, client)
    impact = radius(todo.left, plan, snapshot, cluster.inventory, previews, _limit(wish))
    view = View(
        service=plan.service,
        namespace=plan.namespace,
        cluster=client.transport.access.name if client is not None else str(wish.from_),
        dry_run=wish.dry_run,
        digest=plan.digest,
        replanned=todo.held.replanned,
        resumed=todo.resumed,
        differences=todo.held.differences,
        rendered=todo.held.rendered,
        edited=todo.source.edited,
        impact=impact,
        changes=previews,
        steps=todo.left.actions,
        problems=(*problems, *problems_of(previews, force_conflicts=wish.force_conflicts)),
        notes=notes,
    )
    if view.nothing_to_do:
        view = replace(view, notes=(*view.notes, *not_ready(snapshot, todo.procedure)))
    else:
        view = replace(view, notes=(*view.notes, *secrets_needed(todo.left)))
    text = json.dumps(todo.source.document, ensure_ascii=False).encode()
    return Ready(cluster, plan, todo.procedure, text, bool(todo.resumed), view)


def _looked_at(
    wish: Wish, cluster: Cluster, todo: _Todo, client: ApiClient | None
) -> tuple[tuple[ObjectPreview, ...], list[str], tuple[str, ...]]:
    """Previews, what apply could not do by itself, and what is worth knowing."""
    from ragstow.live.preview.offline import compare

    problems: list[str] = []
    if client is not None:
        from ragstow.live.apply import needs_helm, needs_person

        problems += [
            f"this needs a person: {item.what}. {item.text}\n" + "\n".join(item.commands)
            for item in needs_person(client, todo.left)
        ]
        helm = needs_helm(client, todo.left)
        refuse_helm(todo.left)
        if helm is not None:
            problems.append(
                f"the device plugin's chart needs new values and `helm` is not on PATH. Run this in the folder of `ragstow "
                f"render`, then apply again\n{helm.command}"
            )
    if client is None or wish.dry_run == "client":
        return compare(cluster.snapshot, todo.left), problems, ()
    from ragstow.live.preview import preview
    from ragstow.live.preview.rights import refuse_missing

    there = cluster.snapshot.get("Namespace", todo.source.plan.namespace) is not None
    refuse_missing(client, todo.left, namespace_there=there)
    notes = () if there else (f"namespace {todo.source.plan.namespace} is not there yet and will be made",)
    return preview(client, todo.left), problems, notes


def refuse_helm(procedure: Procedure) -> None:
    """Refuse flags that helm does not have, where it is needed: it would go to another cluster, or as another user.

    Raises:
        UsageError: there are such flags.
    """
    from ragstow.cli.live import helm_flags

    if helm_flags() is None and any(isinstance(action, HelmUpgrade) for action in procedure.actions):
        raise UsageError(
            "apply-helm-flags",
            "helm is needed, and it cannot be pointed at a cluster by --cluster or --user",
            hint="use a context of the kubeconfig: --context",
        )


def _limit(wish: Wish) -> Callable[[Action], float]:
    from ragstow.live.apply.prepare import limit_seconds

    options = wish.options()

    def limit(action: Action) -> float:
        return limit_seconds(action, options)

    return limit
