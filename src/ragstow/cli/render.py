"""`ragstow render`: a plan as manifests, in a folder or as one stream."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ragstow.cli.options import cluster_options, facts_option
from ragstow.cli.output import note
from ragstow.errors import UsageError

EXAMPLES = """\b
Examples:
  ragstow plan service.yaml --from cluster/ -o json > plan.json
  ragstow render plan.json --out out/                      exactly that plan
  ragstow render service.yaml --from cluster/ --out out/   plan and render in one go
  ragstow render plan.json -o yaml | kubectl apply -f -    the objects alone
"""


@click.command(epilog=EXAMPLES)
@click.argument("source", metavar="SPEC|PLAN", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--out", metavar="DIR", help="Folder to write: STEPS.md, workloads/ and, where nodes change, nodes/.")
@click.option("--force", is_flag=True, help="Write to a folder that is not empty and not ragstow's; its other files stay.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "yaml", "json"]), default="text", help="yaml or json: the objects on stdout."
)
@cluster_options
@facts_option
def command(source: str, out: str | None, force: bool, output: str, facts: str | None, **cluster: Any) -> int:
    """Kubernetes manifests, node configuration and steps from a service description or from a plan."""
    if out is None and output == "text":
        raise UsageError("render-where", "nothing says where to", hint="--out DIR writes a folder, -o yaml prints the objects")
    from ragstow.facts import load as load_facts
    from ragstow.render import render

    known = load_facts(Path(facts) if facts else None)
    service, plan, document = _service_and_plan(source, known, facts, cluster)
    if not plan.feasible:
        note(f"{plan.namespace}/{plan.service} does not fit, so there is nothing to render")
        for reason in plan.reasons:
            note(f"  {reason}")
        return 1
    made = render(service, plan, known)
    if output != "text":
        _print(made.objects, output)
        for line in made.by_hand:
            note(f"note: {line}")
    if out is not None:
        from ragstow.cli.folder import write_folder
        from ragstow.cli.planfile import NAME, written

        files = {NAME: written(document), **{file.path: file.text for file in made.files}}
        write_folder(Path(out), files, command="render", force=force)
        note(f"wrote {len(files)} files to {out}; go on with {Path(out) / 'STEPS.md'}, or: ragstow apply {out}")
    return 0


def _service_and_plan(
    source: str, known: Any, facts: str | None, cluster: Mapping[str, Any]
) -> tuple[Any, Any, Mapping[str, Any]]:
    """The service and its plan, read from a plan or planned now, and the plan's document."""
    from ragstow.cli import live
    from ragstow.cli.planfile import find_plan, read_text
    from ragstow.spec import load, load_text, normalise

    text = read_text(source)
    file = None if source == "-" else source
    document = find_plan(text, file)
    if document is None:
        from ragstow.cli.cluster import open_cluster
        from ragstow.cli.plan import document as plan_document
        from ragstow.cli.plan import plan_service

        service = load_text(text, known, file="-") if file is None else load(Path(file), known)
        assumed, release = tuple(cluster["assumed"]), cluster["release"]
        opened = open_cluster(cluster["from_"], facts=facts, assumed=assumed, release=release, scheduling=True)
        made = plan_service(service, opened, assumed=assumed, release=release)
        return service, made, plan_document(made, opened)
    if cluster.get("from_") or live.given():
        raise UsageError(
            "render-two-clusters",
            "a plan already names its cluster, so another one says nothing here",
            hint="leave it out, or give the service instead of the plan",
        )
    from ragstow.plan.load import load_plan

    plan = load_plan(document, file=file)
    return normalise(plan.spec, known), plan, document


def _print(objects: tuple[dict[str, Any], ...], output: str) -> None:
    if output == "yaml":
        from ragstow.render.yamltext import stream

        click.echo(stream(objects), nl=False)
    else:
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}, indent=2, ensure_ascii=False))
