"""Findings for a person at 3 a.m.: what, since when, how many pods; what changed; what to do now and how to see that it worked;
then the evidence, what follows, and what could not be seen. Commands stand on a line of their own, never wrapped.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import click

from ragstow.rules.fixes import paste, pattern
from ragstow.rules.model import SEVERITIES, Evidence, Finding, Report, Unknown
from ragstow.rules.times import ago

_LABEL = 11
_FEW = 5
_FEW_EVIDENCE = 4
_FEW_DETAILS = 6
_COLOURS = {"critical": "red", "high": "red", "medium": "yellow", "low": "cyan", "info": "cyan"}

Style = Callable[..., str]


def plain(text: str, **_: object) -> str:
    """No colour."""
    return text


def summary(report: Report) -> str:
    """One line: how many findings of which severity, and how many pods they hold."""
    if not report.findings:
        return "nothing found"
    counts = Counter(finding.severity for finding in report.findings)
    parts = [f"{counts[severity]} {severity}" for severity in SEVERITIES if counts[severity]]
    held = {pod for finding in report.findings for pod in finding.held}
    said = f"{counted(len(report.findings), 'finding')}: {', '.join(parts)}"
    return f"{said}; {counted(len(held), 'pod')} held" if held else said


def lines(report: Report, *, now: str, room: int, wide: bool = False, style: Style = plain) -> list[str]:
    """Everything below the summary.

    Args:
        report: what to print.
        now: RFC 3339, for "how long ago"; "" where time plays no part.
        room: width in characters.
        wide: all evidence and objects, and what was looked at.
        style: `click.style`, or `plain`.
    """
    made: list[str] = []
    for finding in report.findings:
        made.extend(["", *_finding(finding, now, room, wide, style)])
    if report.unknown:
        made.extend(["", style("could not see", bold=True)])
        for item in report.unknown:
            made.extend(_unknown(item, room, wide))
    if wide and report.looked_at:
        made.extend(["", *_part("looked at", ", ".join(report.looked_at), room)])
    return made


def _finding(finding: Finding, now: str, room: int, wide: bool, style: Style) -> Iterable[str]:
    mark = style(finding.severity.upper(), fg=_COLOURS[finding.severity], bold=True)
    head = textwrap.wrap(finding.headline, max(20, room - len(finding.severity) - 2)) or [""]
    yield f"{mark}  {style(head[0], bold=True)}"
    for line in head[1:]:
        yield " " * (len(finding.severity) + 2) + style(line, bold=True)
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file or ""
    yield from _part("", ", ".join(part for part in (place, finding.rule, _sure(finding), _since(finding, now)) if part), room)
    if finding.held:
        yield from _part("holds", _few(finding.held, len(finding.held) if wide else _FEW), room)
    for text in finding.changed:
        yield from _part("changed", text, room)
    yield from _part("do", finding.fix.words, room)
    command = paste(finding.fix)
    if command:
        yield f"{' ' * _LABEL}$ {command}"
    if pattern(finding.fix):
        yield f"{'such as'.ljust(_LABEL)}{pattern(finding.fix)}"
    if finding.fix.disruption not in ("", "none"):
        yield from _part("disturbs", finding.fix.disruption, room)
    if finding.fix.check:
        yield f"{'worked if'.ljust(_LABEL)}{finding.fix.check}"
    yield from _part("because", finding.explanation, room)
    shown = finding.evidence if wide else finding.evidence[:_FEW_EVIDENCE]
    label = "evidence"
    for entry in shown:
        yield from _part(label, _evidence(entry), room)
        label = ""
    if len(finding.evidence) > len(shown):
        yield f"{' ' * _LABEL}and {len(finding.evidence) - len(shown)} more (-o wide)"
    if wide:
        yield from _part("objects", ", ".join(map(str, finding.objects)), room)
    for other in finding.follows:
        yield from _part("follows", f"{other.headline} ({other.rule})", room)


def _sure(finding: Finding) -> str:
    return finding.confidence if finding.confidence != "certain" else ""


def _since(finding: Finding, now: str) -> str:
    if not finding.since:
        return ""
    long = ago(finding.since, now)
    return f"since {finding.since}" + (f" ({long})" if long else "")


def _evidence(entry: Evidence) -> str:
    if entry.file:
        where = f"{entry.file}:{entry.line}" if entry.line else entry.file
    else:
        where = " ".join(part for part in (str(entry.object) if entry.object else "", entry.field) if part)
    return f"{where}: {entry.value.strip()}" if where else entry.value.strip()


def _unknown(item: Unknown, room: int, wide: bool) -> Iterable[str]:
    yield from _part("", item.missing, room, label=2)
    shown = item.detail if wide else item.detail[:_FEW_DETAILS]
    for line in shown:
        yield from textwrap.wrap(
            line, room, initial_indent="    ", subsequent_indent="      ", break_long_words=False, break_on_hyphens=False
        )
    if len(item.detail) > len(shown):
        yield f"    and {len(item.detail) - len(shown)} more (-o wide)"
    if item.command:
        yield f"    $ {item.command}"


def _part(name: str, text: str, room: int, label: int = _LABEL, indent: int = 0) -> list[str]:
    """A labelled text, wrapped; the label only on its first line."""
    if not text:
        return []
    return [
        line
        for number, part in enumerate(text.splitlines())
        for line in textwrap.wrap(
            part,
            max(room, label + 20),
            initial_indent=" " * indent + (name if number == 0 else "").ljust(label - indent),
            subsequent_indent=" " * label,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]


def _few(items: Sequence[str], most: int) -> str:
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more (-o wide or json)"


def counted(number: int, word: str) -> str:
    """ "1 file", "2 files"."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def compact_lines(report: Report, room: int, style: Style = plain) -> list[str]:
    """A finding in a few lines that begin with its file and line, as editors and logs of pipelines know them."""
    made: list[str] = []
    for finding in report.findings:
        place = f"{finding.file}:{finding.line}: " if finding.file else ""
        severity = style(finding.severity, fg=_COLOURS[finding.severity], bold=True)
        made.append(f"{place}{severity}: {finding.headline} [{finding.rule}]")
        made.extend(_part("fix", finding.fix.words, room, label=8, indent=4))
        made.extend(f"    follows: {other.headline} [{other.rule}]" for other in finding.follows)
    for item in report.unknown:
        made.extend(_part("could not see", item.missing, room, label=15))
        made.extend([f"    $ {item.command}"] if item.command else [])
    return made


def show(report: Report, head: str, *, now: str, room: int, wide: bool, compact: bool = False) -> None:
    """Print the summary and all below it; colour only on a terminal."""
    from ragstow.cli.output import coloured

    style: Style = click.style if coloured() else plain
    click.echo(style(head, bold=True))
    body = compact_lines(report, room, style) if compact else lines(report, now=now, room=room, wide=wide, style=style)
    for line in body:
        click.echo(line)
