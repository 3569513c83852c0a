"""`ragstow diagnose`: what is wrong, since when, what to do, and how to see that it worked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragstow.cli.findings import emit_findings, fail_on_option, failed
from ragstow.cli.options import cluster_options, facts_option, output_option
from ragstow.errors import UsageError

if TYPE_CHECKING:
    from ragstow.rules.context import Context
    from ragstow.rules.model import Report, Severity

EXAMPLES = """\b
Examples:
  ragstow diagnose --from cluster/                   the whole cluster
  ragstow diagnose rag/llm-0 --from cluster/         one pod (also: deployment/llm -n rag, node/gpu-1)
  ragstow diagnose --from cluster.json --logs logs/  with logs: vllm.txt, <pod>.log, dmesg-<node>.txt, ...
  ragstow diagnose --from cluster/ -o sarif > diagnose.sarif
  ragstow diagnose                                   a live cluster: logs and nvidia-smi of troubled pods too
  ragstow diagnose -w                                and then what changes, until Ctrl-C
"""


@click.command(epilog=EXAMPLES)
@click.argument("target", metavar="[POD]", required=False)
@cluster_options
@facts_option
@output_option("sarif", "junit")
@click.option(
    "--logs",
    multiple=True,
    metavar="DIR|FILE",
    help="Logs to read beside those in logs/ of the saved cluster; may be repeated.",
)
@click.option("--now", metavar="TIME", help="The moment to judge from, RFC 3339 (default: the newest time in the data).")
@click.option("-w", "--watch", is_flag=True, help="Live: go on and print what changes; with -o json a document per change.")
@click.option("--no-probes", is_flag=True, help="Live: read no logs and run no nvidia-smi, so that a capture answers the same.")
@fail_on_option
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever is found.")
def command(
    target: str | None,
    from_: str | None,
    namespace: str | None,
    all_namespaces: bool,
    release: str | None,
    assumed: tuple[str, ...],
    facts: str | None,
    output: str,
    logs: tuple[str, ...],
    now: str | None,
    watch: bool,
    no_probes: bool,
    fail_on: Severity | None,
    exit_zero: bool,
) -> int:
    """Says what is wrong in a cluster, or with one pod, workload or node: cause, evidence and fix, root causes first.

    POD is name, namespace/name or kind/name. Of a live cluster logs and nvidia-smi of the pods in question are read too, where
    that is allowed. Exit code 1: something of severity medium or above was found.
    """
    from ragstow.cli.config import load_config

    settings = load_config().section("diagnose")
    level = fail_on or settings.fail_on or "medium"
    only = None if all_namespaces else namespace

    def look(*, quiet: bool = False) -> tuple[Context, Report]:
        context = _open(from_, facts, assumed, release, logs, now, quiet=quiet)
        if from_ is None and not no_probes:
            return _probed(context, target, only, release)
        return context, _judged(context, target, only)

    if watch:
        from ragstow.cli.diagnose_watch import follow

        if from_ is not None or now is not None:
            raise UsageError(
                "watch-live", "-w is for live clusters: a saved one does not change", hint="leave --from and --now out"
            )
        return follow(look, output, lambda context, report: _head(context, report, target, only))
    context, report = look()
    head = None if output not in ("text", "wide") else _head(context, report, target, only)
    emit_findings(report, output, head=head, source=context.snapshot.source, now=context.now, level=level)
    return 1 if failed(report, level) and not exit_zero else 0


def _probed(context: Context, target: str | None, namespace: str | None, release: str | None) -> tuple[Context, Report]:
    """The same with logs and nvidia-smi of the pods in question."""
    from ragstow.cli import live
    from ragstow.cli.diagnosis import make_context
    from ragstow.cli.output import note
    from ragstow.live.probes import look
    from ragstow.rules import scope

    refs = scope.target(context, target, namespace) if target is not None else ()
    named = {f"{ref.namespace}/{ref.name}" for ref in refs if ref.kind == "Pod"}
    with live.connected() as client:
        seen = look(client, context.snapshot, context.facts.stack, named)
    for line in dict.fromkeys(seen.notes):
        note(f"note: {line}")
    if seen.texts:
        snapshot = replace(context.snapshot, attachments={**context.snapshot.attachments, **seen.texts})
        context = make_context(snapshot, context.facts, found=context.inventory, release=release, now=context.now)
    report = _judged(context, target, namespace)
    return context, replace(report, unknown=(*report.unknown, *seen.unknown))


def _open(
    from_: str | None,
    facts: str | None,
    assumed: tuple[str, ...],
    release: str | None,
    logs: tuple[str, ...],
    now: str | None,
    *,
    quiet: bool,
) -> Context:
    from ragstow.cli.cluster import open_cluster
    from ragstow.cli.diagnosis import make_context
    from ragstow.rules.times import parse

    if now is not None and parse(now) is None:
        raise UsageError("now-invalid", f"--now {now} is no time", hint="RFC 3339, for example 2026-01-31T04:05:06Z")
    cluster = open_cluster(from_, facts=facts, assumed=assumed, release=release, quiet=quiet, nodeless=True)
    snapshot = cluster.snapshot
    if logs:
        from ragstow.cli.logs import with_logs

        snapshot = with_logs(snapshot, [Path(item) for item in logs])
    return make_context(snapshot, cluster.facts, found=cluster.inventory, release=cluster.release.version, now=now)


def _judged(context: Context, target: str | None, namespace: str | None) -> Report:
    from ragstow.rules import scope
    from ragstow.rules.run import diagnose

    refs = scope.target(context, target, namespace) if target is not None else ()
    report = diagnose(context)
    if refs:
        return scope.concerning(report, refs)
    return report if namespace is None else scope.in_namespace(report, namespace)


def _head(context: Context, report: Report, target: str | None, namespace: str | None) -> str:
    from ragstow.cli.findings_text import summary

    where = f" for {target}" if target else f" in namespace {namespace}" if namespace else ""
    text = summary(report)
    riddles = sum(len(item.objects) for item in report.unknown)
    if not report.findings:
        snapshot = context.snapshot
        text = f"nothing wrong found{where} ({len(snapshot.nodes)} nodes, {len(snapshot.pods)} pods)"
        if not snapshot.nodes:
            text = f"no nodes in the data, so little can be said{where} ({len(snapshot.pods)} pods): see below"
        elif not snapshot.pods:
            text = f"no pods in the data, so little can be said{where} ({len(snapshot.nodes)} nodes): see below"
        return f"no known cause found{where}, but not all is well: see below" if riddles else text
    return text + where
