"""--assume NODE=PRODUCT[:CARDS]: cards that no label names, as the user knows them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import RagstowError, UsageError
from ragstow.facts import Facts
from ragstow.inventory.identity import Assumption


def parse(texts: Sequence[str], snapshot: Snapshot, facts: Facts) -> tuple[Assumption, ...]:
    """The assumptions, checked against the cluster and the table of cards.

    Raises:
        UsageError: one of them has another form, names no node of the cluster, or a card that facts do not know.
    """
    made = tuple(_one(text, snapshot, facts) for text in texts)
    twice = {item.node for item in made if sum(other.node == item.node for other in made) > 1}
    if twice:
        raise UsageError("assume-twice", f"--assume names {min(twice)} more than once", hint="a node has cards of one product")
    return made


def _one(text: str, snapshot: Snapshot, facts: Facts) -> Assumption:
    name, equals, rest = text.partition("=")
    product, colon, count = rest.partition(":")
    if not (name and equals and product) or (colon and not (count.isascii() and count.isdigit() and int(count) > 0)):
        raise UsageError(
            "assume-form", f"--assume {text}: expected NODE=PRODUCT[:CARDS]", hint="CARDS is a whole number of physical cards"
        )
    nodes = {node.name: node for node in snapshot.nodes}
    if name not in nodes:
        raise _unknown("node", name, list(nodes), "the cluster has no such node")
    gpu = facts.gpus.find(product)
    if gpu is None or gpu.kind == "slice":
        known = [row.product for row in facts.gpus.rows if row.kind != "slice"]
        raise _unknown("product", product, known, "no card of that name is known; --facts DIR can add one")
    node = nodes[name]
    if not count and not any(amount for resource, amount in node.capacity.items() if resource.startswith("nvidia.com/")):
        raise UsageError(
            "assume-cards",
            f"--assume {text}: {name} offers no GPU, so how many cards it has must be said",
            hint=f"--assume {name}={gpu.product}:CARDS",
        )
    return Assumption(name, gpu.product, int(count) if count else None)


def _unknown(what: str, given: str, known: Sequence[str], why: str) -> RagstowError:
    folded = {_bare(name): name for name in known}
    like = [folded[name] for name in difflib.get_close_matches(_bare(given), folded, n=3, cutoff=0.5)]
    hint = f"did you mean {' or '.join(like)}?" if like else f"one of {', '.join(sorted(known)[:8])}" if known else ""
    return UsageError(f"assume-{what}", f"--assume: {given}: {why}", hint=hint)


def _bare(name: str) -> str:
    return name.casefold().removeprefix("nvidia-")
