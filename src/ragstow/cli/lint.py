"""`ragstow lint`: GPU mistakes in manifests, alone or against the cluster they are meant for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragstow.cli.findings import emit_findings, fail_on_option, failed
from ragstow.cli.options import cluster_options, facts_option, output_option
from ragstow.errors import InputError, Place, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragstow.cli.manifest_files import Manifests
    from ragstow.rules.manifests import LintContext
    from ragstow.rules.model import Severity
    from ragstow.rules.rule import Rule
    from ragstow.rules.run import LintReport

EXAMPLES = """\b
Examples:
  ragstow lint -f deploy/                        a folder of manifests
  helm template rag chart/ | ragstow lint -f -   what a chart makes
  ragstow lint -f deploy/ --from cluster/        against what the cluster really offers
  ragstow lint -f deploy/ --write-baseline lint-baseline.yaml, then: --baseline lint-baseline.yaml
"""


@click.command(epilog=EXAMPLES)
@click.option("-f", "--filename", "paths", multiple=True, metavar="PATH", help="File, folder or - (stdin); may be repeated.")
@cluster_options
@facts_option
@output_option("sarif", "junit")
@click.option("--rule", "rules", multiple=True, metavar="RULE", help="Only this rule; may be repeated.")
@click.option("--ignore", multiple=True, metavar="RULE", help="Leave this rule out; may be repeated.")
@click.option("--baseline", metavar="FILE", help="Hide the findings that this file knows.")
@click.option("--write-baseline", metavar="FILE", help="Write today's findings to this file and exit 0.")
@fail_on_option
def command(
    paths: tuple[str, ...],
    from_: str | None,
    namespace: str | None,
    all_namespaces: bool,
    release: str | None,
    assumed: tuple[str, ...],
    facts: str | None,
    output: str,
    rules: tuple[str, ...],
    ignore: tuple[str, ...],
    baseline: str | None,
    write_baseline: str | None,
    fail_on: Severity | None,
) -> int:
    """Finds GPU mistakes in manifests. Exit code 1: something of severity medium or above was found.

    A finding is suppressed by an annotation on the object or its pod template, with a reason:
    ignore.ragstow.dev/RULE: "why".
    """
    from ragstow.cli.cluster import warn
    from ragstow.cli.config import load_config
    from ragstow.cli.manifest_files import read_manifests
    from ragstow.rules.run import lint

    if not paths:
        raise UsageError("no-manifests", "which manifests?", hint="-f FILE|FOLDER|-")
    if "-" in paths and from_ == "-":
        raise UsageError("stdin-twice", "-f and --from cannot both read standard input")
    settings = load_config().section("lint")
    chosen = _chosen(rules or settings.rules, (*ignore, *settings.ignore))
    level = fail_on or settings.fail_on or "medium"
    read = read_manifests(paths)
    warn(read.problems)
    context = _context(read, from_, facts, assumed, release)
    answer = lint(context, chosen)
    if namespace is not None and not all_namespaces:
        answer = _of_namespace(answer, namespace)
    if write_baseline is not None:
        _write(answer, Path(write_baseline))
        return 0
    known_in = Path(baseline) if baseline is not None else settings.baseline
    answer, old = _without_old(answer, known_in) if known_in is not None else (answer, 0)
    head = None if output not in ("text", "wide") else _head(answer, read, old)
    source = context.cluster.snapshot.source if context.cluster is not None else None
    emit_findings(
        answer.report,
        output,
        head=head,
        source=source,
        level=level,
        suppressed=answer.suppressed,
        files=tuple(read.files),
        compact=output == "text",
    )
    return 1 if failed(answer.report, level) else 0


def _chosen(only: Sequence[str], without: Sequence[str]) -> list[Rule]:
    import difflib

    from ragstow.rules.registry import get, names

    for name in (*only, *without):
        if name not in names():
            near = difflib.get_close_matches(name, names(), 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else "ragstow explain lists the rules"
            raise UsageError("rule-unknown", f"there is no rule {name!r}", hint=hint)
    return [get(name) for name in names() if (not only or name in only) and name not in without]


def _context(
    read: Manifests, from_: str | None, facts: str | None, assumed: tuple[str, ...], release: str | None
) -> LintContext:
    from ragstow.cli import live
    from ragstow.rules.manifests import LintContext

    manifests = tuple(read.manifests)
    if from_ is None and not live.given():
        from ragstow.facts import load

        return LintContext(manifests, load(Path(facts) if facts is not None else None))
    from ragstow.cli.cluster import open_cluster
    from ragstow.cli.diagnosis import make_context

    cluster = open_cluster(from_, facts=facts, assumed=assumed, release=release)
    context = make_context(cluster.snapshot, cluster.facts, found=cluster.inventory, release=cluster.release.version)
    return LintContext(manifests, cluster.facts, context)


def _of_namespace(answer: LintReport, namespace: str) -> LintReport:
    from dataclasses import replace

    from ragstow.rules.scope import in_namespace

    return replace(answer, report=in_namespace(answer.report, namespace))


def _write(answer: LintReport, path: Path) -> None:
    import yaml

    from ragstow.cli.output import API_VERSION, note
    from ragstow.rules.baseline import KIND, body

    made = {"apiVersion": API_VERSION, "kind": KIND, **body(answer.report.findings)}
    try:
        path.write_text(yaml.safe_dump(made, sort_keys=False, allow_unicode=True, width=120), encoding="utf-8")
    except OSError as error:
        raise InputError("baseline-unwritable", f"cannot be written: {error.strerror}", place=Place(str(path))) from None
    note(f"wrote {len(answer.report.findings)} finding(s) to {path}")


def _without_old(answer: LintReport, path: Path) -> tuple[LintReport, int]:
    from dataclasses import replace

    from ragstow import kubeyaml
    from ragstow.rules.baseline import only_new, read

    try:
        documents = kubeyaml.load_all(path.read_bytes(), file=str(path))
    except OSError as error:
        raise InputError("baseline-missing", f"cannot be read: {error.strerror}", place=Place(str(path))) from None
    report, old = only_new(answer.report, read(documents[0].value if documents else None, str(path)))
    return replace(answer, report=report), old


def _head(answer: LintReport, read: Manifests, old: int) -> str:
    from ragstow.cli.findings_text import counted, summary

    hidden = [f"{len(answer.suppressed)} suppressed"] if answer.suppressed else []
    hidden += [f"{old} in the baseline"] if old else []
    more = f" ({', '.join(hidden)})" if hidden else ""
    where = f"{counted(len(read.manifests), 'object')} of {counted(len(read.files), 'file')}"
    return f"{summary(answer.report)} in {where}{more}"
