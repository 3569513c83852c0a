"""`ragstow apply --undo`: shows which steps of the last run are taken back, asks, and takes them back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ragstow.cli.applywish import Wish, plan_of
from ragstow.cli.output import plain
from ragstow.errors import RagstowError

if TYPE_CHECKING:
    from ragstow.live.apply import Record
    from ragstow.render.impact import Impact

Json = dict[str, Any]


def undo(wish: Wish) -> int:
    """Take the last run of a service back.

    Raises:
        ApplyStopped: there is nothing to take back, or it cannot go on.
        RagstowError: as `ragstow.live.apply.undo`.
    """
    from ragstow.cli.apply import done
    from ragstow.cli.applyprogress import progress
    from ragstow.cli.applyready import named, refuse_helm
    from ragstow.cli.live import connected
    from ragstow.live import apply
    from ragstow.live.apply.backward import steps
    from ragstow.live.preview.rights import refuse_missing

    with connected() as client:
        if wish.by_name:
            service, namespace = named(wish, client)
        else:
            plan = plan_of(wish.source)
            service, namespace = plan.service, plan.namespace
        record = apply.last(client, service, namespace)
        if record is None:
            raise apply.ApplyStopped(
                "nothing-to-undo",
                f"there is no record of a run of {namespace}/{service}",
                hint="-n NAMESPACE says where a service is that is named",
            )
        refuse_helm(record.procedure)
        titles = [step.title for step in steps(record)]
        impact = radius(record, service, namespace, wish)
        body = _body(record, service, namespace, client.transport.access.name, titles, wish)
        body["impact"] = {**plain(impact), "disturbed": plain(impact.disturbed)}
        if not wish.json:
            _text(body, record, impact)
        if impact.disturbed and not wish.allow_disturb and wish.dry_run != "client":
            raise apply.ApplyStopped(
                "undo-disturbs",
                f"{', '.join(impact.disturbed)} hold a GPU of nodes that are turned back, and would be evicted",
                hint="move them first, or agree to it with --allow-disturb; nothing was done",
            )
        if wish.dry_run != "client":
            refuse_missing(client, record.procedure, undo=True)
        if wish.dry_run:
            return _end(wish, body, "previewed", 0)
        if not wish.confirm(f"take back {len(titles)} steps on {client.transport.access.name}?"):
            return _end(wish, body, "declined", 1)
        try:
            with progress() as tell:
                options = replace(wish.options(), disturb=impact.disturbed)
                outcome = apply.undo(client, service, namespace, options=options, progress=tell)
        except RagstowError as error:
            states = {1: "stopped", 4: "timed-out", 130: "interrupted"}
            _end(wish, body, states.get(error.exit_code, "failed"), error.exit_code, error=error)
            raise
        if not wish.json:
            for line in done(outcome.state, outcome.changed, outcome.record, outcome.notes):
                click.echo(line)
        return _end(wish, body, outcome.state, 0, changed=outcome.changed, notes=outcome.notes)


def _body(record: Record, service: str, namespace: str, cluster: str, titles: list[str], wish: Wish) -> Json:
    return {
        "service": service,
        "namespace": namespace,
        "cluster": cluster,
        "dryRun": wish.dry_run or None,
        "digest": record.procedure.digest,
        "undoes": {"record": record.title, "started": record.progress.started, "holder": record.progress.holder},
        "steps": [{"number": number, "action": "Undo", "title": title} for number, title in enumerate(titles, 1)],
    }


def radius(record: Record, service: str, namespace: str, wish: Wish) -> Impact:
    """Whom an undo costs a GPU: pods of others on the nodes that it turns back. The service's own go before."""
    from ragstow.cli.cluster import open_cluster
    from ragstow.live.apply.backward import emptied
    from ragstow.plan.change import holders
    from ragstow.plan.evictions import Evictions, evictions
    from ragstow.plan.model import NodeLayout
    from ragstow.render.impact import Impact
    from ragstow.render.names import POOL, SERVICE

    before = emptied(record)
    gone = Evictions()
    if before:
        cluster = open_cluster(None, facts=wish.facts, assumed=wish.assumed, release=wish.release, scheduling=True)
        own = [pod for pod in cluster.snapshot.pods if pod.namespace == namespace and pod.labels.get(SERVICE) == service]
        snapshot, mine = cluster.snapshot.replace(remove=own), {pod.key for pod in own}
        layouts, held = [], {}
        for name, was in before.items():
            node, gpus = snapshot.get("Node", name), cluster.inventory.find(name)
            if node is None or gpus is None:
                continue
            now = {key: value for key, value in node.labels.items() if key.startswith(("nvidia.com/", "ragstow.dev/"))}
            now.pop(POOL, None)
            resources = {**dict.fromkeys(gpus.resources, 0), **(was.get("resources") or {})}
            layouts.append(NodeLayout(name, "", labels_after={**now, **(was.get("labels") or {})}, resources_after=resources))
            held[name] = [pod for pod in holders(gpus) if pod not in mine]
        gone = evictions(snapshot, layouts, held, service=service, namespace=namespace, release=cluster.release.version)
    return Impact(gone.pods, gone.budgets, gone.preempted, gone.stopped_at, (), (), ())


def _text(body: Json, record: Record, impact: Impact) -> None:
    from ragstow.cli import table
    from ragstow.cli.applytext import disturbed

    began = f"the run of {record.progress.started} by {record.progress.holder}"
    if record.progress.state == "undoing":
        began = f"the rest of an interrupted undo of {began}"
    click.echo(f"{body['service']} in namespace {body['namespace']}, cluster {body['cluster']}: takes back {began}")
    for line in ("", " who is disturbed", *disturbed(impact, table.width()), "", " steps"):
        click.echo(line)
    for step in body["steps"]:
        click.echo(f"  {step['number']:>3}. {step['title']}")


def _end(wish: Wish, body: Json, state: str, code: int, **how: Any) -> int:
    if wish.json:
        from ragstow.cli.applydocument import ended
        from ragstow.cli.output import document, emit

        emit(document("Apply", {**body, **ended(state, **how)}), wish.output)
    elif state == "declined":
        click.echo("nothing was done")
    return code
