"""By which labels pods are steered to a kind of slot, so that they reach no other.

Two nodes are told apart by resource name and labels only: the product label (GPU feature discovery's, else the cloud's), and
where that is not enough one more label whose values differ (sharing strategy, node pool, machine type). The labels are those
that exist after the layout: under a rename the product loses `-SHARED`, under strategy single it names the profile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ragstow.cluster.objects import Node
from ragstow.facts import Facts
from ragstow.facts.gpus import split_product
from ragstow.plan.kinds import SHARED_GPU, Kind

PRODUCT_LABEL = "nvidia.com/gpu.product"
Labels = tuple[tuple[str, tuple[str, ...]], ...]
"""(label, allowed values), sorted."""


def product_labels(node: Node, kind: Kind, facts: Facts, *, changed: bool) -> Labels:
    """The label that names the product of a node for this kind of slot; empty where no label does.

    Args:
        node: the node.
        kind: the slot.
        facts: clouds and their accelerator labels.
        changed: whether the node is changed by the plan, so that its label will be another.
    """
    if kind.mode == "dra":
        return ()  # the claim says it
    value = node.labels.get(PRODUCT_LABEL)
    if value:
        if changed:
            value = split_product(value).base
            if kind.mode == "mig" and kind.profile and kind.resource == "nvidia.com/gpu":
                value = f"{value}-MIG-{kind.profile.replace('+', '.')}"
        return ((PRODUCT_LABEL, (value,)),)
    for label in dict.fromkeys(row.label for row in facts.clouds.gpus):
        if label in node.labels:
            return ((label, (node.labels[label],)),)
    return ()


def separator(groups: Mapping[str, Iterable[Node]], facts: Facts) -> tuple[str, dict[str, tuple[str, ...]]] | None:
    """A label that all nodes have and whose values tell these groups of nodes apart: (label, values by group)."""
    nodes = {name: tuple(members) for name, members in groups.items()}
    for label in _candidates(facts):
        values = {name: {node.labels.get(label) for node in members} for name, members in nodes.items()}
        if any(None in found for found in values.values()):
            continue
        if sum(map(len, values.values())) == len(set().union(*values.values())):
            return label, {name: tuple(sorted(str(value) for value in found)) for name, found in values.items()}
    return None


def identity(resource: str | None, labels: Labels) -> str:
    """What steering sees of a slot."""
    return " ".join([resource or "claim", *(f"{label}={'|'.join(values)}" for label, values in labels)])


def renamed(kind: Kind) -> bool:
    """Whether the slot has a resource name of its own."""
    return kind.resource == SHARED_GPU


def _candidates(facts: Facts) -> list[str]:
    found = ["nvidia.com/gpu.sharing-strategy", "nvidia.com/gpu.replicas"]
    strategies = (cloud.sharing.strategy for cloud in facts.clouds.rows if cloud.sharing is not None)
    found += [label for label in strategies if label]
    for cloud in facts.clouds.rows:
        found += [label for label in cloud.node_labels if "pool" in label or "group" in label]
    return list(dict.fromkeys([*found, "node.kubernetes.io/instance-type"]))
