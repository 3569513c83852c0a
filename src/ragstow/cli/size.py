"""`ragstow size`: what each component of a service takes of a card, term by term."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragstow.cli import live
from ragstow.cli.options import cluster_options, facts_option, output_option
from ragstow.cli.output import document, emit, note, plain
from ragstow.errors import InputError, UsageError
from ragstow.facts import Facts, load
from ragstow.sizing import ComponentSizing, Slot, size, slot_of
from ragstow.spec import load as load_service
from ragstow.spec.model import Service

if TYPE_CHECKING:
    from ragstow.inventory.model import Inventory

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
      ragstow size service.yaml --gpu PRODUCT     (kubectl get nodes -L nvidia.com/gpu.product)
      ragstow size service.yaml --from cluster/
      ragstow size service.yaml --component llm -o json
    """
    if products and (from_ is not None or live.given()):
        raise UsageError("gpu-and-from", "--gpu and a cluster both name the cards", hint="leave one of them out")
    known = load(Path(facts) if facts is not None else None)
    service = load_service(Path(spec), known)
    chosen = [item for item in service.components if only in (None, item.name)]
    if not chosen:
        names = ", ".join(item.name for item in service.components)
        raise UsageError("no-component", f"{service.name} has no component {only}", hint=f"components: {names}")
    source = None
    if from_ is not None or live.given():
        from ragstow.cli.cluster import open_cluster

        cluster = open_cluster(from_, facts=facts, assumed=assumed, release=release)
        slots, source = of_cluster(cluster.inventory, known), cluster.snapshot.source
    else:
        slots = [slot_named(label, known) for label in products] or [slot_of(gpu, known) for gpu in known.gpus.cards]
    answers = [answer for item in chosen for slot in slots if (answer := size(item, slot, known)) is not None]
    for line in service.notes:
        note(f"note: {line}")
    if output in ("json", "yaml"):
        emit(sizing_document(service, answers, source), output)
        return
    from ragstow.cli.size_text import one_card, table, without_gpu
    from ragstow.cli.table import width

    for item in chosen:
        rows = [answer for answer in answers if answer.name == item.name]
        if not rows:
            click.echo(without_gpu(item))
        elif len(slots) == 1:
            click.echo(one_card(item, rows[0], wide=output == "wide", room=width()))
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


def of_cluster(inventory: Inventory, facts: Facts) -> list[Slot]:
    """The whole cards of a cluster, each product and memory once, in the order of the nodes.

    Raises:
        InputError: no node names the product or the memory of its cards.
    """
    found: dict[tuple[str, int | None], Slot] = {}
    for node in inventory.nodes:
        key = (node.product or "", node.memory_mib_per_card)
        gpu = facts.gpus.find(node.product) if node.product is not None else None
        if key in found or not node.cards:
            continue
        if gpu is not None:
            found[key] = slot_of(gpu, facts, label_mib=node.memory_mib_per_card)
        elif node.memory_mib_per_card is not None:
            found[key] = Slot(facts.gpus.visible_of_label(node.memory_mib_per_card).mib * _MIB, node.product)
    if not found:
        raise InputError("no-gpu", "no node names the product of its GPUs", hint="--assume NODE=PRODUCT, or --gpu PRODUCT")
    return list(found.values())
