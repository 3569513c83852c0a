"""What `diagnose` and `lint` share: the level that fails, and findings in every format."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ragstow.rules.model import Report, Severity

_LEVELS = ("critical", "high", "medium", "low", "info")


def fail_on_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--fail-on LEVEL."""
    return click.option(
        "--fail-on", type=click.Choice(_LEVELS), help="Exit 1 from this severity up (default: medium).", default=None
    )(command)


def failed(report: Report, level: Severity) -> bool:
    """Whether the exit code is 1."""
    from ragstow.rules.run import worst

    return worst(report.findings, level)


def emit_findings(
    report: Report,
    output: str,
    *,
    head: str | None,
    source: Any,
    now: str = "",
    level: Severity = "medium",
    suppressed: tuple[Any, ...] = (),
    files: tuple[str, ...] = (),
    compact: bool = False,
) -> None:
    """Print a report.

    Args:
        report: the findings.
        output: text, wide, json, yaml, sarif or junit.
        head: the first line of text.
        source: where the cluster came from, for JSON.
        now: RFC 3339, for ages in text.
        level: the severity from which a finding is a failure (JUnit).
        suppressed: findings that annotations suppress, with their reasons (SARIF shows them as such).
        files: what was read, so that JUnit shows clean files too.
        compact: text in lines that begin with file and line, as compilers write.
    """
    from ragstow.cli import output as out

    if output in ("json", "yaml"):
        from ragstow.rules.document import body

        out.emit(out.document("Findings", body(report), source=source), output)
    elif output == "sarif":
        from ragstow import __version__
        from ragstow.rules.sarif import sarif

        out.emit(sarif(report, suppressed, version=__version__), "json")
    elif output == "junit":
        from ragstow.rules.junit import junit

        click.echo(junit(report, level, files), nl=False)
    else:
        from ragstow.cli import table
        from ragstow.cli.findings_text import show

        show(report, head or "", now=now, room=table.width(), wide=output == "wide", compact=compact)
