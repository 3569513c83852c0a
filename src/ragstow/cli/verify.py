"""`ragstow verify`: proves in the running cluster that a service got what was planned and works."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragstow.cli.live import live_options
from ragstow.cli.options import facts_option, output_option
from ragstow.errors import UsageError

if TYPE_CHECKING:
    from ragstow.cluster.snapshot import Source
    from ragstow.facts import Facts
    from ragstow.live.client import ApiClient
    from ragstow.live.verify.run import Scope
    from ragstow.verification.model import Verification

_SECONDS = click.FloatRange(min=1)

EXAMPLES = """\b
Examples:
  ragstow verify plan.json                     pods, cards, drivers, memory and endpoints against the plan
  ragstow verify                               the one service of the cluster, by the record of its last apply
  ragstow verify rag/support -o wide           with every check that passed and its evidence
  ragstow verify plan.json --no-endpoints      only what nvidia-smi, nodes and logs say
  ragstow verify plan.json --cap-test          also whether MIG or MPS stops a pod at its memory cap
  ragstow verify plan.json --out report/       text, JSON, JUnit and HTML as acceptance evidence
"""


@click.command(epilog=EXAMPLES)
@click.argument("target", metavar="[PLAN|FOLDER|SERVICE]", required=False, type=click.Path(allow_dash=True))
@live_options
@click.option("-n", "--namespace", metavar="NAME", help="Namespace of the service.")
@facts_option
@output_option("junit", "html")
@click.option("--out", metavar="DIR", help="Folder for the report in every format.")
@click.option("--force", is_flag=True, help="Write to a folder that is not empty and not ragstow's; its other files stay.")
@click.option("--exec-timeout", type=_SECONDS, default=30.0, metavar="SECONDS", help="For one command in a pod (30).")
@click.option("--answer-timeout", type=_SECONDS, default=60.0, metavar="SECONDS", help="For one request to an endpoint (60).")
@click.option("--cap-test", is_flag=True, help="Also try in a throw-away pod whether the memory cap of MIG and MPS holds.")
@click.option("--cap-image", metavar="IMAGE", help="Image with python3 for that pod (default: one of the service's own).")
@click.option("--no-endpoints", is_flag=True, help="Do not ask health, embeddings, ranking and completions.")
@click.option("--no-round-trip", is_flag=True, help="Do not store and ask two documents through the whole service.")
@click.option("--no-store", is_flag=True, help="Keep nothing in vector stores, not even for a moment.")
@click.option("--no-logs", is_flag=True, help="Do not read logs of the GPU stack and of kubelets.")
@click.option(
    "--health",
    "health_paths",
    multiple=True,
    metavar="COMPONENT=/PATH",
    help="Path for the health of a component; may be repeated.",
)
@click.option("--api-key-env", metavar="NAME", help="Environment variable that holds the API key of the service's servers.")
def command(
    target: str | None,
    namespace: str | None,
    facts: str | None,
    output: str,
    out: str | None,
    force: bool,
    exec_timeout: float,
    answer_timeout: float,
    cap_test: bool,
    cap_image: str | None,
    no_endpoints: bool,
    no_round_trip: bool,
    no_store: bool,
    no_logs: bool,
    health_paths: tuple[str, ...],
    api_key_env: str | None,
) -> int:
    """Looks into every pod of a service and says whether it has the card, slice, memory and driver that were planned, and asks
    its endpoints.

    Without a plan the record of the last apply is taken, else labels. What could not be seen is listed and never counts as
    passed. Exit code 1: a check failed, or one that is needed could not be made; 3: because a right is missing.
    """
    from ragstow.cli import live
    from ragstow.cli.folder import refuse
    from ragstow.facts import load

    if output == "html":
        _need_jinja()
    if out is not None:
        refuse(Path(out), force=force)
    known = load(Path(facts) if facts is not None else None)
    health, key = _paths(health_paths), _key(api_key_env)
    with live.connected() as client:
        from ragstow.live.verify.run import Scope

        scope = Scope(
            exec_seconds=exec_timeout,
            request_seconds=answer_timeout,
            logs=not no_logs,
            endpoints=not no_endpoints,
            round_trip=not no_round_trip,
            store=not no_store,
            key=key,
            health=health,
            cap_test=cap_test,
            cap_image=cap_image,
        )
        found, source = _verified(client, known, target, namespace, scope)
    _emit(found, source, output)
    if out is not None:
        _write(found, source, Path(out), force)
    if found.passed:
        return 0
    return 3 if not found.failed and any(item.forbidden for item in found.missing) else 1


def _key(name: str | None) -> str | None:
    if name is None:
        return None
    if not os.environ.get(name):
        raise UsageError("key-missing", f"--api-key-env {name}: that environment variable is empty or not set")
    return os.environ[name]


def _paths(texts: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not name or not equals or not path.startswith("/"):
            raise UsageError("health-invalid", f"--health {text}: no path of a component", hint="--health gateway=/healthz")
        found[name] = path
    return found


def _verified(
    client: ApiClient, known: Facts, target: str | None, namespace: str | None, scope: Scope
) -> tuple[Verification, Source]:
    from dataclasses import replace

    from ragstow.cli.cluster import warn
    from ragstow.cli.verifytarget import of_cluster, of_path, with_record
    from ragstow.cluster.read import in_name_order
    from ragstow.live.verify.run import take, verify_service

    asked = of_path(target) if target is not None and (target == "-" or Path(target).exists()) else None
    if asked is None and target is not None and target.endswith((".json", ".yaml", ".yml", "/")):
        raise UsageError(
            "path-missing", f"{target}: no such file or folder", hint="ragstow plan service.yaml -o json > plan.json"
        )
    if asked is not None and namespace not in (None, asked.namespace):
        raise UsageError("namespace-other", f"{target} is of namespace {asked.namespace}, not {namespace}")
    taken = take(client)
    snapshot = replace(taken.snapshot, objects=in_name_order(taken.snapshot.objects))
    warn(snapshot.problems)
    asked = with_record(client, asked) if asked is not None else of_cluster(client, snapshot, target, namespace)
    return verify_service(client, asked, known, taken=replace(taken, snapshot=snapshot), scope=scope), snapshot.source


def _emit(found: Verification, source: Source, output: str) -> None:
    from ragstow.cli import output as out
    from ragstow.cli import table

    if output in ("json", "yaml"):
        out.emit(_document(found, source), output)
    elif output == "junit":
        from ragstow.report.junit import junit

        click.echo(junit(found), nl=False)
    elif output == "html":
        click.echo(_html(found), nl=False)
    else:
        from ragstow.report.text import text

        click.echo(text(found, width=table.width(), wide=output == "wide"), nl=False)


def _write(found: Verification, source: Source, folder: Path, force: bool) -> None:
    import json

    from ragstow.cli.folder import write_folder
    from ragstow.cli.output import note
    from ragstow.report.junit import junit
    from ragstow.report.text import text

    files = {
        "verification.txt": text(found, wide=True),
        "verification.json": json.dumps(_document(found, source), indent=2, ensure_ascii=False) + "\n",
        "verification.xml": junit(found),
    }
    try:
        files["verification.html"] = _html(found)
    except ModuleNotFoundError:
        note("note: no HTML report, which needs the extra 'report': pip install 'ragstow[report]'")
    write_folder(folder, files, command="verify", force=force)
    note(f"wrote {len(files)} files to {folder}")


def _document(found: Verification, source: Source) -> dict[str, object]:
    from ragstow.cli import output as out
    from ragstow.verification.document import body

    return out.document("Verification", body(found), source=source)


def _html(found: Verification) -> str:
    from ragstow import __version__
    from ragstow.report.html import html

    return html(found, version=__version__)


def _need_jinja() -> None:
    from importlib.util import find_spec

    if find_spec("jinja2") is None:
        raise UsageError("extra-missing", "HTML needs the extra 'report'", hint="pip install 'ragstow[report]'")
