"""`ragstow apply`: shows what a plan changes and whom it disturbs, asks, and carries it out; finishes or takes back a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ragstow.cli.applywish import Wish, seconds
from ragstow.cli.live import live_options
from ragstow.cli.options import facts_option, output_option

if TYPE_CHECKING:
    from ragstow.cli.applyready import NoFit, Ready
    from ragstow.errors import RagstowError
    from ragstow.live.client import ApiClient

EXAMPLES = """\b
Examples:
  ragstow apply plan.json --dry-run=server   what would change and whom it disturbs; nothing is done
  ragstow apply plan.json                    the same, then asks, then does it
  ragstow apply out/ --yes                   a folder of `ragstow render`, edited objects too, without asking
  ragstow apply plan.json                    after an interruption: goes on where it stopped
  ragstow apply --resume -n rag support      the same without the plan at hand
  ragstow apply --undo -n rag support        takes the last run back: workloads, nodes, configuration
"""


@click.command(epilog=EXAMPLES)
@click.argument("source", metavar="PLAN|FOLDER|NAME", type=click.Path(allow_dash=True))
@click.option("-y", "--yes", is_flag=True, help="Do not ask; needed where there is no terminal.")
@click.option(
    "--dry-run",
    type=click.Choice(["client", "server"]),
    help="Only look. client: reads and compares; server: the API server tries every object and keeps none.",
)
@click.option("--undo", is_flag=True, help="Take the last run of the service back.")
@click.option("--resume", is_flag=True, help="Finish the interrupted run of the service from its record.")
@click.option(
    "--timeout",
    "timeout_seconds",
    callback=seconds,
    metavar="DURATION",
    help="For each wait, as 90s or 10m, instead of its own.",
)
@click.option("--force-conflicts", is_flag=True, help="Take over fields that other managers own.")
@click.option(
    "--delete-claims", is_flag=True, help="With --undo: also delete the volume claims of StatefulSets, and their data."
)
@click.option("--allow-disturb", is_flag=True, help="Where it is planned again or undone: pods of others may lose a GPU.")
@click.option("-n", "--namespace", metavar="NAME", help="Namespace of a service that is named (default: the context's).")
@click.option("--from", "from_", metavar="PATH", help="With --dry-run=client: a saved cluster instead of a live one.")
@click.option("--assume", "assumed", multiple=True, metavar="NODE=PRODUCT[:CARDS]", help="Name cards that no label names.")
@click.option("--release", metavar="X.Y[.Z]", help="Kubernetes release to plan again as (default: the cluster's).")
@live_options
@facts_option
@output_option()
def command(dry_run: str | None, **flags: Any) -> int:
    """Carry a plan out on a live cluster, or finish or take back a run.

    PLAN is what `ragstow plan -o json` prints, FOLDER what `ragstow render --out` writes. Where the cluster has changed since,
    it is planned again and the difference is shown. Exit code 0: applied, or nothing to do; 1: refused, does not fit, or
    another run is going on; 4: a wait took too long, and the same command goes on from there.
    """
    wish = Wish(dry_run=dry_run or "", **flags)
    wish.check()
    if wish.undo:
        from ragstow.cli.applyundo import undo

        return undo(wish)
    if wish.from_ is not None:
        from ragstow.cli.applyready import saved

        return _show(wish, saved(wish), None)
    from ragstow.cli.applyready import ready
    from ragstow.cli.live import connected

    with connected() as client:
        return _show(wish, ready(wish, client), client)


def _show(wish: Wish, found: Ready | NoFit, client: ApiClient | None) -> int:
    """Show it; where something is to be done and may be, do it."""
    from ragstow.cli.applyready import NoFit

    if isinstance(found, NoFit):
        return _no_fit(wish, found)
    view = found.view
    asks = not (wish.yes or wish.dry_run or view.problems or view.nothing_to_do)
    if not wish.json or asks:
        from ragstow.cli.applytext import lines

        for line in lines(view, wide=wish.output == "wide"):
            # Whoever is asked sees what about, also where the answer is a document.
            click.echo(line, err=wish.json)
    answer = _Answer(wish, found)
    if view.problems:
        return answer.end("refused", 1)
    if view.nothing_to_do and not found.resumed:
        return answer.end("nothing-to-do", 0)
    if wish.dry_run or client is None:
        return answer.end("previewed", 0)
    if not wish.confirm(f"carry out {len(view.steps)} steps on {view.cluster}?"):
        if not wish.json:
            click.echo("nothing was done")
        return answer.end("declined", 1)
    return _carry_out(wish, found, client, answer)


def _carry_out(wish: Wish, found: Ready, client: ApiClient, answer: _Answer) -> int:
    from ragstow.cli.applyprogress import progress
    from ragstow.errors import RagstowError
    from ragstow.live.apply import resume, run

    try:
        with progress() as tell:
            if found.resumed:
                outcome = resume(client, found.plan.service, found.plan.namespace, options=wish.options(), progress=tell)
            else:
                outcome = run(client, found.procedure, plan=found.text, options=wish.options(), progress=tell)
    except RagstowError as error:
        answer.failed(error)
        raise
    if not wish.json:
        for line in done(outcome.state, outcome.changed, outcome.record, outcome.notes):
            click.echo(line)
        if outcome.record:
            flags = f" {wish.options().typed}".rstrip()
            click.echo(f" take it back: ragstow apply --undo -n {found.plan.namespace} {found.plan.service}{flags}")
            named = f"{found.plan.namespace}/{found.plan.service}"
            click.echo(f" prove it:     ragstow verify {named if wish.by_name else wish.source}{flags}")
    return answer.end(outcome.state, 0, record=outcome.record, changed=outcome.changed, notes=outcome.notes)


def done(state: str, changed: int, record: str, notes: Sequence[str]) -> list[str]:
    """How a run ended, for people."""
    made = [
        f"{state}: {changed} step{'s' if changed != 1 else ''} changed something" + (f"; record {record}" if record else "")
    ]
    return [*made, *(f" note: {text}" for text in notes)]


def _no_fit(wish: Wish, found: NoFit) -> int:
    if wish.json:
        from ragstow.cli.output import document, emit

        plan = found.plan
        body = {"service": plan.service, "namespace": plan.namespace, "state": "infeasible", "reasons": plan.reasons}
        emit(document("Apply", {**body, "alternatives": plan.alternatives}, source=found.cluster.snapshot.source), wish.output)
    else:
        from ragstow.cli.applytext import refused

        for line in refused(found.plan, changed=found.changed):
            click.echo(line)
    return 1


class _Answer:
    """The document of this run, printed once at its end."""

    def __init__(self, wish: Wish, found: Ready) -> None:
        self._wish = wish
        self._found = found

    def end(self, state: str, code: int, **how: Any) -> int:
        """Print the document where one is wanted; the exit code."""
        if self._wish.json:
            from ragstow.cli.applydocument import ended, shown
            from ragstow.cli.output import document, emit

            body = {**shown(self._found.view), **ended(state, **how)}
            emit(document("Apply", body, source=self._found.cluster.snapshot.source), self._wish.output)
        return code

    def failed(self, error: RagstowError) -> None:
        """The document of a run that did not get to its end."""
        states = {1: "stopped", 4: "timed-out", 130: "interrupted"}
        self.end(states.get(error.exit_code, "failed"), error.exit_code, error=error)
