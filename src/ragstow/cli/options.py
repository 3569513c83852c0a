"""Options that commands share; the same flag means the same thing everywhere (INTERFACE 1, kubectl's habits)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ragstow.cli.live import live_options

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def output_option(*more: str) -> Decorator:
    """-o/--output with text, wide, json, yaml and what the command adds."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "wide", "json", "yaml", *more]),
        default="text",
        help="Format of the answer.",
    )


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The cluster to read: --from for a saved one, kubectl's flags for a live one; -n and -A for what is shown."""
    for option in (
        live_options,
        click.option(
            "--assume", "assumed", multiple=True, metavar="NODE=PRODUCT[:CARDS]", help="Name cards that no label names."
        ),
        click.option("--release", metavar="X.Y[.Z]", help="Kubernetes release to decide as (default: the cluster's)."),
        click.option("-A", "--all-namespaces", is_flag=True, help="Show all namespaces."),
        click.option(
            "-n", "--namespace", metavar="NAME", help="Show only this namespace; what is read is always the whole cluster."
        ),
        click.option(
            "--from",
            "from_",
            metavar="PATH",
            help="Saved cluster instead of a live one: folder, file, .tar(.gz), .zip or - (kubectl get ... -o json|yaml).",
        ),
    ):
        command = option(command)
    return command


def facts_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--facts DIR lays a user's facts over ours; RAGSTOW_FACTS is read here and nowhere else."""
    return click.option(
        "--facts", envvar="RAGSTOW_FACTS", type=click.Path(file_okay=False), help="Folder of your own facts, laid over ours."
    )(command)
