"""`ragstow plan`: sharing mode, card layout and placement of a whole service, with reasons and the proof."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragstow.cli.options import cluster_options, facts_option, output_option

if TYPE_CHECKING:
    from ragstow.cli.cluster import Cluster
    from ragstow.plan.model import Plan
    from ragstow.spec.model import Service

EXAMPLES = """\b
Examples:
  ragstow plan service.yaml --from cluster/            what fits where, and why so
  ragstow plan service.yaml --from cluster/ -o wide    with every reason and every assumption
  ragstow plan service.yaml --from c/ -o json > plan.json && ragstow render plan.json --out out/
"""


@click.command(epilog=EXAMPLES)
@click.argument("spec", type=click.Path(dir_okay=False, allow_dash=True))
@cluster_options
@facts_option
@output_option()
@click.option(
    "--solver",
    type=click.Choice(["exact", "greedy"]),
    default="exact",
    help="exact proves that no plan uses fewer cards; greedy is quick and says so.",
)
@click.option("--allow-disturb", is_flag=True, help="Nodes may be changed on which pods of others hold GPUs; they are listed.")
def command(
    spec: str,
    from_: str | None,
    namespace: str | None,  # noqa: ARG001 - a plan is of one service; the cluster options are the same everywhere
    all_namespaces: bool,  # noqa: ARG001
    release: str | None,
    assumed: tuple[str, ...],
    facts: str | None,
    output: str,
    solver: str,
    allow_disturb: bool,
) -> int:
    """Lay a service out on the GPUs of a cluster: sharing mode, cards, nodes, with a reason for each choice.

    Exit code 0 when it fits, 1 when it does not; then the ways out that were tried are listed.
    """
    from ragstow.cli.cluster import open_cluster

    cluster = open_cluster(from_, facts=facts, assumed=assumed, release=release, scheduling=True)
    made = plan_of(spec, cluster, assumed=assumed, release=release, solver=solver, allow_disturb=allow_disturb)
    if output in ("json", "yaml"):
        from ragstow.cli.output import emit

        emit(document(made, cluster), output)
    else:
        from ragstow.cli.live import typed
        from ragstow.cli.plan_text import lines

        where = from_ or f"cluster {cluster.snapshot.source.location}"
        flags = f"--from {from_}" if from_ else typed()
        for line in lines(made, cluster, spec=spec, where=where, flags=flags, wide=output == "wide"):
            click.echo(line)
    return 0 if made.feasible else 1


def plan_of(
    spec: str,
    cluster: Cluster,
    *,
    assumed: tuple[str, ...] = (),
    release: str | None = None,
    solver: str = "exact",
    allow_disturb: bool = False,
) -> Plan:
    """The plan of a service file on a cluster.

    Raises:
        InputError, InputErrors: the service is wrong, or facts do not know what it names.
    """
    import sys

    from ragstow.spec import load, load_text

    known = cluster.facts
    service = load_text(sys.stdin.read(), known, file="-") if spec == "-" else load(Path(spec), known)
    return plan_service(service, cluster, assumed=assumed, release=release, solver=solver, allow_disturb=allow_disturb)


def plan_service(
    service: Service,
    cluster: Cluster,
    *,
    assumed: tuple[str, ...] = (),
    release: str | None = None,
    solver: str = "exact",
    allow_disturb: bool = False,
    rehearsed: bool = True,
) -> Plan:
    """The plan of a service that was read already; `rehearsed`: with its rollout and the loss of its nodes played."""
    from ragstow.inventory.assume import parse
    from ragstow.plan.planner import plan
    from ragstow.render.rehearsal import rehearse
    from ragstow.spec import to_document

    made = plan(
        service,
        cluster.snapshot,
        cluster.facts,
        document=to_document(service),
        release=release,
        assumed=parse(assumed, cluster.snapshot, cluster.facts),
        solver="greedy" if solver == "greedy" else "exact",
        allow_disturb=allow_disturb,
    )
    return rehearse(service, made, cluster.snapshot, cluster.facts, cluster.inventory) if rehearsed else made


def document(made: Plan, cluster: Cluster) -> dict[str, Any]:
    """The `Plan` document (DESIGN 2, INTERFACE 3)."""
    from ragstow.cli import output

    return output.document("Plan", output.plain(made), source=cluster.snapshot.source)
