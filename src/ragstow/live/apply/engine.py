"""Carries a procedure out, finishes one that was interrupted, takes one back. The room's only entry."""

from __future__ import annotations

import getpass
import json
import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from ragstow.live.apply import backward, nodes
from ragstow.live.apply import namespace as namespaces
from ragstow.live.apply.before import before
from ragstow.live.apply.codec import digest
from ragstow.live.apply.context import Run
from ragstow.live.apply.forward import carry_out
from ragstow.live.apply.lease import Lease
from ragstow.live.apply.model import ApplyStopped, Interrupted, Options, Outcome, Progress, Step
from ragstow.live.apply.patience import Patience
from ragstow.live.apply.prepare import refuse_impossible, refuse_secrets
from ragstow.live.apply.record import CHANGED, PENDING, RECORD, STARTED, UNCHANGED, UNDONE, Journal, Record
from ragstow.live.client import ApiClient
from ragstow.live.failures import Forbidden
from ragstow.render.actions import (
    Cordon,
    Procedure,
    SetLabels,
    Uncordon,
    WaitMigState,
    WaitNodeOffers,
)
from ragstow.render.names import SERVICE


def run(
    client: ApiClient,
    procedure: Procedure,
    *,
    plan: bytes | None = None,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Carry a procedure out; go on where an earlier run of the same one stopped.

    Args:
        client: the API server.
        procedure: what `ragstow.render.procedure` makes, with `with_leftovers` where objects of an earlier plan shall go.
        plan: the plan's text, kept in the record so that the run can be finished without its file.
        options: see `Options`.
        progress: told of every action.

    Raises:
        ApplyStopped: it cannot go on (held lease, unfinished run of another plan, a pod refused, MIG failed, by hand, ...).
        TimeoutReached: a wait took too long.
        Interrupted: Ctrl-C.
        ClusterError: a right is missing, or the API server stays away.
        InputError: the procedure holds a Secret, or is too large for a record.
    """
    refuse_secrets(procedure)
    with _session(client, procedure.service, procedure.namespace, options, progress) as (going, journal):
        return _forward(going, journal, procedure, plan)


def resume(
    client: ApiClient, service: str, namespace: str, *, options: Options | None = None, progress: Progress | None = None
) -> Outcome:
    """Finish the interrupted run of a service from its record alone; errors as `run`."""
    with _session(client, service, namespace, options, progress) as (going, journal):
        record = journal.latest()
        if record is None or record.progress.state != "applying":
            raise ApplyStopped("nothing-to-resume", f"no run of {namespace}/{service} was interrupted")
        return _forward(going, journal, record.procedure, record.plan)


def undo(
    client: ApiClient, service: str, namespace: str, *, options: Options | None = None, progress: Progress | None = None
) -> Outcome:
    """Take the last run of a service back: its workloads, then the nodes, then their configuration.

    Args:
        client: the API server.
        service, namespace: whose run.
        options: see `Options`.
        progress: told of every step.

    Raises:
        ApplyStopped: there is nothing to undo, or it cannot go on.
        TimeoutReached, Interrupted, ClusterError: as `run`; the next undo goes on.
    """
    with _session(client, service, namespace, options, progress) as (going, journal):
        record = journal.latest()
        if record is None:
            raise ApplyStopped("nothing-to-undo", f"there is no record of a run of {namespace}/{service}")
        return _backward(going, journal, record)


def last(client: ApiClient, service: str, namespace: str) -> Record | None:
    """The record of the last run of a service; None where there is none, or its namespace is not there."""
    return Journal(client, Patience(), service, namespace, "").latest()


def unfinished(client: ApiClient) -> tuple[tuple[str, str, str], ...]:
    """Namespace, service and state ("applying", "undoing") of all runs that have not come to their end, going on or not.

    Nothing where ConfigMaps of the whole cluster may not be listed.
    """
    found = client.resources().plural("", "configmaps")
    if found is None:
        return ()
    try:
        items = list(client.list(found, labels=RECORD))
    except Forbidden:
        return ()
    made = []
    for item in items:
        meta = item["metadata"]
        try:
            state = str(json.loads(item["data"]["progress"])["state"])
        except (KeyError, TypeError, ValueError):
            continue
        if state != "applied":
            made.append((str(meta["namespace"]), str((meta.get("labels") or {}).get(SERVICE) or ""), state))
    return tuple(sorted(made))


@contextmanager
def _session(
    client: ApiClient, service: str, namespace: str, options: Options | None, progress: Progress | None
) -> Iterator[tuple[Run, Journal]]:
    """A run under the lease; Ctrl-C becomes an error that says how to go on."""
    chosen, tell = options or Options(), progress or _silent
    holder = f"{_user()}@{socket.gethostname()}/{os.getpid()}-{uuid.uuid4().hex[:8]}"
    ask = Patience()
    notes: list[str] = []

    def said(text: str) -> None:
        notes.append(text)
        tell(Step("note", 0, 0, "lease", text))

    going: Run | None = None
    try:
        with Lease(client, holder, chosen.lease_seconds, said) as lease:
            going = Run(client, ask, chosen, lease, tell, service, namespace, notes=notes)
            yield going, Journal(client, ask, service, namespace, holder)
    except KeyboardInterrupt:
        where = f" at {going.title} ({going.number} of {going.total})" if going is not None and going.title else ""
        how = going.hint() if going is not None else ""
        raise Interrupted("interrupted", f"interrupted{where}; nothing is half written", hint=how) from None


def _forward(going: Run, journal: Journal, procedure: Procedure, plan: bytes | None) -> Outcome:
    record = _resumed(journal.latest() if namespaces.is_there(going) else None, procedure, going)
    if record is None:
        refuse_impossible(going, procedure)
        made = namespaces.make(going)
        latest = journal.latest()
        number = latest.number + 1 if latest is not None else 1
        started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        record = journal.begin(number, procedure, plan, started, namespace_made=made)
    elif record.done:
        going.note(f"goes on where the run of {record.progress.started} stopped: {record.done} of its actions are done")
    going.total = len(procedure.actions)
    for index, action in enumerate(procedure.actions):
        letter = record.progress.states[index]
        if letter not in (PENDING, STARTED):
            continue
        going.lease.check()
        going.number, going.title = index + 1, action.title
        if letter == PENDING and isinstance(action, Cordon) and _pass_over(going, journal, record, index):
            continue
        if record.progress.states[index] not in (PENDING, STARTED):
            continue
        going.tell("start")
        if letter == PENDING:
            journal.start(record, index, before(going, action))
        changed = carry_out(going, record, index, again=letter == STARTED) or letter == STARTED
        journal.mark(record, index, CHANGED if changed else UNCHANGED)
        going.tell("done", "" if changed or _is_wait(action) else "already so")
    changed_count = record.progress.states.count(CHANGED)
    if not changed_count:
        journal.forget(record)
        namespaces.remove(going, record)
        return Outcome("unchanged", "", 0, tuple(going.notes))
    journal.turn(record, "applied")
    return Outcome("applied", record.title, changed_count, tuple(going.notes))


def _resumed(latest: Record | None, procedure: Procedure, going: Run) -> Record | None:
    """The unfinished record of this very procedure; None where a new one is to be made.

    Raises:
        ApplyStopped: another run, or an undo, is unfinished.
    """
    if latest is None or not latest.unfinished:
        return None
    if latest.progress.state == "undoing":
        raise ApplyStopped(
            "undo-unfinished",
            f"an undo of {going.namespace}/{going.service} was interrupted (record {latest.title})",
            hint=f"finish it first: ragstow apply --undo -n {going.namespace} {going.service}{going.typed}",
        )
    if digest(latest.procedure) != digest(procedure):
        raise ApplyStopped(
            "run-unfinished",
            f"a run of another plan of {going.namespace}/{going.service}, begun {latest.progress.started}, was interrupted "
            f"after {latest.done} of {len(latest.procedure.actions)} actions (record {latest.title})",
            hint="finish it with `ragstow apply` of that plan or `ragstow apply --resume`, or take it back with --undo",
        )
    return latest


def _pass_over(going: Run, journal: Journal, record: Record, index: int) -> bool:
    """Whether a node is all that the procedure makes of it already; its actions are then marked so, and its pods stay."""
    actions = record.procedure.actions
    cordon = actions[index]
    assert isinstance(cordon, Cordon)
    end = next(
        position
        for position in range(index, len(actions))
        if isinstance(actions[position], Uncordon) and getattr(actions[position], "node", "") == cordon.node
    )
    node = nodes.must_be(going, cordon.node)
    labels = nodes.labels_of(node)
    for action in actions[index:end]:
        match action:
            case SetLabels():
                if any(labels.get(key) != value for key, value in action.labels.items()):
                    return False
            case WaitMigState():
                if labels.get(nodes.MIG_STATE) != "success":
                    return False
            case WaitNodeOffers():
                wanted = {name: count for name, count in sorted(action.resources.items()) if count}
                if nodes.offers(node) != wanted or any(labels.get(key) != value for key, value in action.labels.items()):
                    return False
    for position in range(index, end + 1):
        going.number, going.title = position + 1, actions[position].title
        going.tell("done", "already so")
    journal.mark_all(record, range(index, end + 1), UNCHANGED)
    return True


def _backward(going: Run, journal: Journal, record: Record) -> Outcome:
    if record.progress.state != "undoing":
        journal.turn(record, "undoing")
    going.undoing = True
    todo = backward.steps(record)
    going.total = len(todo)
    for number, step in enumerate(todo, 1):
        going.lease.check()
        going.number, going.title = number, step.title
        going.tell("start")
        step.work(going)
        journal.mark(record, step.index, UNDONE)
        going.tell("done")
    backward.wait_restored(going, record)
    going.title = "clean up"
    journal.forget(record)
    namespaces.remove(going, record)
    return Outcome("undone", "", len(todo), tuple(going.notes))


def _is_wait(action: object) -> bool:
    return type(action).__name__.startswith("Wait")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _silent(_: Step) -> None:
    pass
