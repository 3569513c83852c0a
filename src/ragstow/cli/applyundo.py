"""`ragstow apply --undo`: shows which steps of the last run are taken back, asks, and takes them back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ragstow.cli.applywish import Wish, plan_of
from ragstow.errors import RagstowError

if TYPE_CHECKING:
    from ragstow.live.apply import Record

Json = dict[str, Any]


def undo(wish: Wish) -> int:
    """Take the last run of a service back.

    Raises:
        ApplyStopped: there is nothing to take back, or it cannot go on.
        RagstowError: as `ragstow.live.apply.undo`.
    """
    from ragstow.cli.apply import done
    from ragstow.cli.applyprogress import progress
    from ragstow.cli.applyready import named
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
        titles = [step.title for step in steps(record)]
        body = _body(record, service, namespace, client.transport.access.name, titles, wish)
        if not wish.json:
            _text(body, record)
        if wish.dry_run != "client":
            refuse_missing(client, record.procedure)
        if wish.dry_run:
            return _end(wish, body, "previewed", 0)
        if not wish.confirm(f"take back {len(titles)} steps on {client.transport.access.name}?"):
            return _end(wish, body, "declined", 1)
        try:
            with progress() as tell:
                outcome = apply.undo(client, service, namespace, options=wish.options(), progress=tell)
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


def _text(body: Json, record: Record) -> None:
    began = f"the run of {record.progress.started} by {record.progress.holder}"
    if record.progress.state == "undoing":
        began = f"the rest of an interrupted undo of {began}"
    click.echo(f"{body['service']} in namespace {body['namespace']}, cluster {body['cluster']}: takes back {began}")
    click.echo("")
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
