"""`diagnose -w`: the report, then what changes in it, until Ctrl-C."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ragstow.errors import ClusterError, TimeoutReached, UsageError

if TYPE_CHECKING:
    from ragstow.rules.context import Context
    from ragstow.rules.difference import Change
    from ragstow.rules.model import Finding, Report, Unknown

_LOOK_SECONDS = 30.0
"""Without any change the cluster is looked at again so often: some causes only show with time."""
_SHOWN = 3
_MARKS = {"new": "+", "gone": "-", "changed": "~"}


def follow(look: Callable[..., tuple[Context, Report]], output: str, head: Callable[[Context, Report], str]) -> int:
    """Print the report and then its changes; ends by an interrupt only.

    Args:
        look: reads and judges the cluster; with `quiet=True` it says nothing of what could not be read.
        output: text, wide, json (a document of kind FindingChange per line) or yaml (documents).
        head: the first line of the text.

    Raises:
        UsageError: the format has no place for changes.
        ClusterError, TimeoutReached: the first look failed; later ones are tried again.
    """
    from ragstow.cli import live
    from ragstow.cli.output import note
    from ragstow.live.changes import Changes
    from ragstow.rules.difference import differences, unexplained

    if output not in ("text", "wide", "json", "yaml"):
        raise UsageError("watch-format", f"-w has no -o {output}", hint="text, wide, json or yaml")
    with live.connected() as client:
        context, before = look()
        seen: dict[tuple[str, str], str] = {}
        if output in ("text", "wide"):
            _print_report(context, before, output, head(context, before))
            for finding in before.findings:
                seen[finding.rule, finding.headline] = context.now
        else:
            for change in differences(None, before):
                _print_document(change, context, output)
        changes = Changes(client)
        lost = ""
        try:
            while True:
                changes.wait(_LOOK_SECONDS)
                for right in changes.refused:
                    note(f"warning: the RBAC rule {right} is missing: looking every {_LOOK_SECONDS:g} s instead")
                changes.refused.clear()
                try:
                    context, after = look(quiet=True)
                except (ClusterError, TimeoutReached) as error:
                    if error.message != lost:
                        note(f"{_clock()}  not read: {error.message}; trying again")
                    lost = error.message
                    continue
                if lost:
                    note(f"{_clock()}  the cluster answers again")
                    lost = ""
                for change in differences(before, after):
                    if output in ("text", "wide"):
                        _print_line(change, seen, context.now)
                    else:
                        _print_document(change, context, output)
                if output in ("text", "wide"):
                    gone, new = unexplained(before, after)
                    for item in gone:
                        click.echo(f"{_clock()}  - open      {_about(item)}: no more")
                    for item in new:
                        said = item.missing if item.objects[0].name in item.missing else f"{_about(item)}: {item.missing}"
                        click.echo(f"{_clock()}  ? open      {said}\n{'':21}$ {item.command}")
                before = after
        finally:
            changes.close()


def _print_report(context: Context, report: Report, output: str, head: str) -> None:
    from ragstow.cli.findings import emit_findings

    emit_findings(report, output, head=head, source=context.snapshot.source, now=context.now)
    click.echo(f"\nwatching since {_clock()} (+ new, - gone, ~ changed, ? not explained; Ctrl-C ends)")


def _print_line(change: Change, seen: dict[tuple[str, str], str], now: str) -> None:
    finding = change.finding
    key = finding.rule, finding.headline
    text = f"{_clock()}  {_MARKS[change.change]} {finding.severity:<8}  {finding.cause}: {finding.headline}"
    if change.change == "gone":
        first = seen.pop(key, None)
        text += f" (seen since {first[11:19]})" if first else ""
    else:
        seen.setdefault(key, now)
        if finding.fix.words and change.change == "new":
            text += f"\n{'':21}fix: {finding.fix.words}"
    click.echo(text)


def _about(item: Unknown) -> str:
    shown = ", ".join(str(ref) for ref in item.objects[:_SHOWN])
    return shown if len(item.objects) <= _SHOWN else f"{shown} and {len(item.objects) - _SHOWN} more"


def _print_document(change: Change, context: Context, output: str) -> None:
    from ragstow.cli.output import document, emit

    made = document("FindingChange", _body(change, context), source=context.snapshot.source)
    if output == "json":
        click.echo(json.dumps(made, ensure_ascii=False))
    else:
        click.echo("---")
        emit(made, output)


def _body(change: Change, context: Context) -> dict[str, object]:
    from ragstow.rules.document import finding

    return {"time": context.now, "change": change.change, "finding": finding(_plain(change.finding))}


def _plain(finding: Finding) -> Finding:
    """What follows from it has changes of its own."""
    from dataclasses import replace

    return replace(finding, follows=())


def _clock() -> str:
    return datetime.now(UTC).strftime("%H:%M:%SZ")
