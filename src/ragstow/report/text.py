"""A verification as text for a person at three in the morning: the verdict, what failed and what to do; then the rest."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from ragstow.report.words import gib, grouped, passed_by_name, title, verdict
from ragstow.verification.model import Check, Verification

_SHOWN_OBJECTS = 4


def text(found: Verification, *, width: int = 110, wide: bool = False) -> str:
    """The report.

    Args:
        found: the verification.
        width: of the lines; commands and quoted output are never broken.
        wide: list every check that passed, with its evidence.
    """
    return "\n".join(line.rstrip() for line in _lines(found, width, wide)) + "\n"


def _lines(found: Verification, width: int, wide: bool) -> Iterator[str]:
    subject = found.subject
    yield f"{subject.namespace}/{subject.service} on {subject.cluster}: {verdict(found)}"
    digest = f", plan {subject.plan_digest[:16]}" if subject.plan_digest else ""
    yield f" by {subject.basis}{digest}; Kubernetes {subject.kubernetes}; {subject.started_at}"
    if found.failed:
        yield ""
        yield "FAILED"
        for check in found.failed:
            yield from _failed(check, width)
    if found.unknown:
        yield ""
        yield "COULD NOT SEE"
        for group in grouped(found.unknown):
            item = group.first
            shown = ", ".join(group.objects[:_SHOWN_OBJECTS])
            more = f" and {len(group.objects) - _SHOWN_OBJECTS} more" if len(group.objects) > _SHOWN_OBJECTS else ""
            yield f" {item.check}{' (needed)' if item.needed else ''}  {shown}{more}"
            yield from _wrapped("", item.missing, width)
            yield f"   $ {item.command}"
    if found.memory:
        yield ""
        yield from _memory(found)
    for remark in found.remarks:
        yield ""
        yield from _wrapped("note: ", remark, width, indent=" ")
    yield ""
    for name, checks in passed_by_name(found):
        if not wide:
            yield f" ok  {len(checks):>3} x {name:<18} {title(name)}"
            continue
        for check in checks:
            yield f" ok  {name}  {check.object}: {check.found}"
            for entry in check.evidence:
                yield f"      $ {entry.source}"
                yield f"        {entry.value}"


def _failed(check: Check, width: int) -> Iterator[str]:
    yield f" {check.name}  {check.object}{f' ({check.component})' if check.component else ''}"
    yield from _wrapped("expected  ", check.expected, width)
    yield from _wrapped("found     ", check.found, width)
    if check.hint:
        yield from _wrapped("do        ", check.hint, width)
    for number, entry in enumerate(check.evidence):
        yield f"   {'seen' if number == 0 else '    '}      $ {entry.source}"
        yield f"               {entry.value}"


def _wrapped(label: str, value: str, width: int, indent: str = "   ") -> Iterator[str]:
    after = indent + " " * len(label)
    yield from textwrap.wrap(
        value or "-",
        max(40, width),
        initial_indent=indent + label,
        subsequent_indent=after,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _memory(found: Verification) -> Iterator[str]:
    rows = [("component", "pod", "sized", "band", "measured", "of", "")]
    for item in found.memory:
        band = "-" if item.band is None else f"{gib(item.band[0])[:-4]}-{gib(item.band[1])}"
        beside = f"with {item.others} more" if item.others else ""
        rows.append(
            (
                item.component,
                item.pod.name,
                gib(item.predicted_bytes),
                band,
                gib(item.measured_bytes),
                gib(item.total_bytes),
                beside,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield " " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
