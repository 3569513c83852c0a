"""`ragstow inspect`: which GPUs there are, how they are shared, who holds them, what is free."""

from __future__ import annotations

from typing import Any

import click

from ragstow.cli.cluster import Cluster, open_cluster
from ragstow.cli.options import cluster_options, facts_option, output_option

EXAMPLES = """\b
Examples:
  ragstow inspect --from cluster/             one line a node
  ragstow inspect --from cluster.tgz -o wide  with cards, holders and the plugin configuration in force
  ragstow inspect --from c/ --by pod -n rag   who holds what, of one namespace
  kubectl get nodes,pods,ds,cm -A -o json | ragstow inspect --from -
"""


@click.command(epilog=EXAMPLES)
@cluster_options
@facts_option
@output_option()
@click.option(
    "--by", type=click.Choice(["node", "card", "pod", "resource"]), default="node", help="One line for each of these."
)
def command(
    from_: str | None,
    namespace: str | None,
    all_namespaces: bool,
    release: str | None,
    assumed: tuple[str, ...],
    facts: str | None,
    output: str,
    by: str,
) -> None:
    """Shows which GPUs there are, how they are shared, who holds them and what is free.

    A number such as 2-4 is a range: which card a share or a MIG slice sits on is the kubelet's choice and not in the API.
    """
    cluster = open_cluster(from_, facts=facts, assumed=assumed, release=release)
    only = None if all_namespaces else namespace
    if output in ("json", "yaml"):
        from ragstow.cli.output import emit

        emit(document(cluster, only), output)
        return
    for line in text(cluster, only, by=by, wide=output == "wide"):
        click.echo(line)


def text(cluster: Cluster, namespace: str | None, *, by: str, wide: bool) -> list[str]:
    """The lines for people."""
    from ragstow.cli import inspecttext as words
    from ragstow.cli import output, table

    def shown(pod: str) -> bool:
        return namespace is None or pod.startswith(f"{namespace}/")

    found, room = cluster.inventory, table.width()
    view = words.VIEWS.get(by)
    body = words.nodes(found, room, shown, wide=wide) if view is None else view(found, room, shown)
    notes = words.footnotes(found, room)
    basis = f"Kubernetes {cluster.release.version}, by {cluster.release.origin}"
    first = [click.style(line, bold=True) if output.coloured() else line for line in words.summary(found, room)]
    return [*first, "", *body, *([""] if notes else []), *notes, *(["", basis] if wide else [])]


def document(cluster: Cluster, namespace: str | None) -> dict[str, Any]:
    """The `Inventory` document; of other namespaces than the one asked for, holders are left out and their numbers stay."""
    from ragstow.cli import output
    from ragstow.inventory.document import body, of_namespace

    made = body(cluster.inventory if namespace is None else of_namespace(cluster.inventory, namespace))
    release = {"version": cluster.release.version, "origin": cluster.release.origin}
    return output.document("Inventory", {"kubernetes": release, **made}, source=cluster.snapshot.source)
