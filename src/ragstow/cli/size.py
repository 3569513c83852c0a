"""`ragstow size`: what each component of a service takes of a card, term by term."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ragstow.cli.options import cluster_options, facts_option, output_option
from ragstow.cli.output import document, emit, note, plain
from ragstow.errors import InputError, UsageError
from ragstow.facts import Facts, load
from ragstow.sizing import ComponentSizing, Slot, size, slot_of
from ragstow.spec import load as load_service
from ragstow.spec.model import Service

_MIB = 2**20


@click.command("size")
@click.argument("spec", type=click.Path(dir_okay=False))
@click.option(
    "--gpu", "products", multiple=True, metavar="PRODUCT", help="Product label, also of a MIG slice; may be repeated."
)
@click.option("--component", "only", metavar="NAME", help="Only this component.")
@cluster_options
@facts_option
@output_option()
def command(
    spec: str,
    products: tuple[str, ...],
    only: str | None,
    from_: str | None,
    assumed: tuple[str, ...],
    release: str | None,
    namespace: str | None,  # noqa: ARG001 - the cluster options are the same everywhere
    all_namespaces: bool,  # noqa: ARG001
    facts: str | None,
    output: str,
) -> None:
    """Say how much GPU memory each component takes, term by term, with source and error band.

    With --gpu on those products, with --from on those of the cluster, else on every product of the facts, a row each.

    \b
    Examples:
      ragstow size service.yaml --gpu NVIDIA-L4
      ragstow size service.yaml --from cluster/
      ragstow size service.yaml --component llm -o json
    """
    known = load(Path(facts) if facts is not None else None)
    service = load_service(Path(spec), known)
    chosen = [item for item in service.components if only in (None, item.name)]
    if not chosen:
        names = ", ".join(item.name for item in service.components)
        raise UsageError("no-component", f"{service.name} has no component {only}", hint=f"components: {names}")
    slots = list(_slots(products, from_, assumed, release, known))
    answers = [answer for item in chosen for slot in slots if (answer := size(item, slot, known)) is not None]
    for line in service.notes:
        note(f"note: {line}")
    if output in ("json", "yaml"):
        emit(sizing_document(service, answers, _source(from_)), output)
        return
    from ragstow.cli.size_text import one_card, table, without_gpu

    for item in chosen:
        rows = [answer for answer in answers if answer.name == item.name]
        if not rows:
            click.echo(without_gpu(item))
        elif len(slots) == 1:
            click.echo(one_card(item, rows[0]))
        else:
            click.echo(table(item, rows, wide=output == "wide"))


def sizing_document(service: Service, answers: list[ComponentSizing], source: Any = None) -> dict[str, Any]:
    """The `Sizing` document (INTERFACE 4): one entry for each component and product."""
    components = [{**plain(answer), "fits": answer.fits} for answer in answers]
    return document("Sizing", {"service": service.name, "components": components}, source=source)


def slot_named(label: str, facts: Facts) -> Slot:
    """The slot that a product label means: a card, or one of its MIG slices (`<product>-MIG-<profile>`).

    Raises:
        InputError: the facts know no such product or profile.
    """
    from ragstow.facts.gpus import split_product

    gpu = facts.gpus.find(label)
    if gpu is None:
        import difflib

        near = difflib.get_close_matches(label, [row.product for row in facts.gpus.rows], 1, 0.5)
        hint = f"did you mean {near[0]}?" if near else "the value of the node label nvidia.com/gpu.product"
        raise InputError("gpu-unknown", f"product {label!r} is not in the facts", hint=hint)
    profile = split_product(label).profile
    if profile is None:
        return slot_of(gpu, facts)
    geometry = facts.mig.of(gpu)
    found = geometry.profile(profile) if geometry is not None else None
    if geometry is None or found is None:
        known = ", ".join(item.name for item in geometry.profiles) if geometry is not None else "none"
        raise InputError("gpu-unknown", f"{gpu.product} has no MIG profile {profile}", hint=f"profiles: {known}")
    return Slot(found.memory.mib * _MIB, f"{gpu.product}-MIG-{found.label}", gpu.cc)


def _slots(
    products: tuple[str, ...], from_: str | None, assumed: tuple[str, ...], release: str | None, facts: Facts
) -> Iterator[Slot]:
    if products and from_ is not None:
        raise UsageError("gpu-and-from", "--gpu and --from both name the cards", hint="leave one of them out")
    if products:
        yield from (slot_named(label, facts) for label in products)
    elif from_ is not None:
        yield from _of_cluster(from_, assumed, release, facts)
    else:
        yield from (slot_of(gpu, facts) for gpu in facts.gpus.cards)


def _of_cluster(from_: str, assumed: tuple[str, ...], release: str | None, facts: Facts) -> Iterator[Slot]:
    from ragstow.cli.cluster import open_cluster

    cluster = open_cluster(from_, assumed=assumed, release=release)
    seen: set[tuple[str, int | None]] = set()
    for node in cluster.inventory.nodes:
        if node.product is None or (node.product, node.memory_mib_per_card) in seen:
            continue
        seen.add((node.product, node.memory_mib_per_card))
        gpu = facts.gpus.find(node.product)
        if gpu is not None:
            yield slot_of(gpu, facts, label_mib=node.memory_mib_per_card)
        elif node.memory_mib_per_card is not None:
            yield Slot(facts.gpus.visible_of_label(node.memory_mib_per_card).mib * _MIB, node.product)
    if not seen:
        raise InputError("no-gpu", "no node names the product of its GPUs", hint="--assume NODE=PRODUCT, or --gpu PRODUCT")


def _source(from_: str | None) -> dict[str, Any] | None:
    return None if from_ is None else {"path": from_, "takenAt": None}
