"""`ragstow verify`: proves in the running cluster that a service got what was planned and works."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragstow.cli.live import live_options
from ragstow.cli.options import facts_option, output_option
from ragstow.errors import UsageError

if TYPE_CHECKING:
    from ragstow.cli.verifytarget import Wanted
    from ragstow.cluster.snapshot import Snapshot, Source
    from ragstow.facts import Facts
    from ragstow.live.client import ApiClient
    from ragstow.verification.judge import Scene
    from ragstow.verification.model import Outcome, Verification

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


@dataclass(frozen=True, slots=True)
class How:
    """What is asked, as the options say."""

    exec_seconds: float
    request_seconds: float
    logs: bool
    endpoints: bool
    round_trip: bool
    store: bool
    key: str | None
    health: Mapping[str, str]
    cap_test: bool
    cap_image: str | None


@click.command(epilog=EXAMPLES)
@click.argument("target", metavar="[PLAN|FOLDER|SERVICE]", required=False)
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
    how = How(
        exec_seconds=exec_timeout,
        request_seconds=answer_timeout,
        logs=not no_logs,
        endpoints=not no_endpoints,
        round_trip=not no_round_trip,
        store=not no_store,
        key=_key(api_key_env),
        health=_paths(health_paths),
        cap_test=cap_test,
        cap_image=cap_image,
    )
    with live.connected() as client:
        found, source = _verified(client, known, target, namespace, how)
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
    client: ApiClient, known: Facts, target: str | None, namespace: str | None, how: How
) -> tuple[Verification, Source]:
    from dataclasses import replace

    from ragstow.cli.cluster import warn
    from ragstow.cli.verifytarget import of_cluster, of_path, with_record
    from ragstow.cluster.read import in_name_order
    from ragstow.live.read import read
    from ragstow.verification.model import Subject, joined

    wanted = of_path(target) if target is not None and (target == "-" or Path(target).exists()) else None
    if wanted is None and target is not None and target.endswith((".json", ".yaml", ".yml", "/")):
        raise UsageError(
            "path-missing", f"{target}: no such file or folder", hint="ragstow plan service.yaml -o json > plan.json"
        )
    if wanted is not None and namespace not in (None, wanted.namespace):
        raise UsageError("namespace-other", f"{target} is of namespace {wanted.namespace}, not {namespace}")
    taken = read(client)
    snapshot = taken.snapshot()
    snapshot = replace(snapshot, objects=in_name_order(snapshot.objects))
    warn(snapshot.problems)
    wanted = with_record(client, wanted) if wanted is not None else of_cluster(client, snapshot, target, namespace)
    subject = Subject(
        service=wanted.service,
        namespace=wanted.namespace,
        basis=wanted.basis,
        plan_digest=wanted.plan.digest if wanted.plan is not None else None,
        cluster=f"context {taken.context} ({taken.server})",
        kubernetes=taken.version.removeprefix("v"),
        started_at=taken.taken_at,
    )
    return joined(subject, _outcomes(client, snapshot, known, wanted, how)), snapshot.source


def _outcomes(client: ApiClient, snapshot: Snapshot, known: Facts, wanted: Wanted, how: How) -> tuple[Outcome, ...]:
    from ragstow.inventory.build import inventory
    from ragstow.live.verify.gather import Limits, gather
    from ragstow.verification.judge import judge

    limits = Limits(exec_seconds=how.exec_seconds, logs=how.logs, kubelet=how.logs)
    gpus = inventory(snapshot, known)
    scene = gather(client, snapshot, gpus, known, wanted.service, wanted.namespace, wanted.plan, limits)
    found = judge(scene)
    if how.endpoints:
        found = (*found, _endpoints(client, snapshot, known, wanted, how))
    return (*found, *_caps(client, scene, how)) if how.cap_test else found


def _caps(client: ApiClient, scene: Scene, how: How) -> tuple[Outcome, ...]:
    import secrets

    from ragstow.live.verify.captest import run_tests
    from ragstow.verification.captest import cap_tests, judge

    tests, said = cap_tests(scene.targets, scene.service, scene.facts, secrets.token_hex(3), how.cap_image)
    return said, judge(run_tests(client, tests, scene.service, scene.namespace))


def _endpoints(client: ApiClient, snapshot: Snapshot, known: Facts, wanted: Wanted, how: How) -> Outcome:
    from ragstow.live.endpoints.check import Options, check_endpoints
    from ragstow.live.endpoints.targets import wanted as endpoints_of
    from ragstow.spec import normalise

    service = normalise(wanted.plan.spec, known) if wanted.plan is not None else None
    asked = endpoints_of(
        snapshot.pods, known, name=wanted.service, namespace=wanted.namespace, service=service, health=how.health
    )
    names = [target.component for target in asked.targets]
    for component in how.health:
        if component not in names:
            listed = ", ".join(names) or "none"
            raise UsageError("health-component", f"--health {component}: no such component", hint=f"components: {listed}")
    return check_endpoints(client, asked, Options(how.request_seconds, how.key, round_trip=how.round_trip, store=how.store))


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
