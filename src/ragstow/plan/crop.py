"""Fewer nodes for a large problem: of each kind of node as many as any layout needs, then of all kinds in turn.

An answer on fewer nodes is an answer, and best where it meets the simple bound; that none was found there says nothing. Kinds
are told apart by cards, slots and what a node could become; of one kind those with most CPU and memory come first.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragstow.plan.problem import Component, NodeSupply

_SPARE = 2
"""Nodes of a kind beyond those that are needed: one may be lost, and replicas are kept on two."""


def crop(
    nodes: Sequence[NodeSupply], components: Sequence[Component], used: set[str], most: int
) -> tuple[tuple[NodeSupply, ...], bool]:
    """At most so many nodes that matter (more where there are more kinds), in the order given; and whether any is missing.

    Args:
        nodes: all nodes.
        components: what is to be placed.
        used: slots that some component may get.
        most: how many are kept.
    """
    if len(nodes) <= most:
        return tuple(nodes), False
    kinds: dict[object, list[NodeSupply]] = {}
    for node in _roomiest(nodes, components):
        kinds.setdefault(_kind(node, used), []).append(node)
    wanted = [group[: _needed(group[0], components)] for group in kinds.values()]
    kept: set[str] = set()
    for turn in range(max(map(len, wanted))):
        if turn and len(kept) >= most:
            break
        kept.update(group[turn].name for group in wanted if turn < len(group))
    return tuple(node for node in nodes if node.name in kept), len(kept) < len(nodes)


def _kind(node: NodeSupply, used: set[str]) -> object:
    free = tuple(sorted((key, number) for key, number in node.free.items() if number and key in used))
    if not free and not node.configs:
        return node.closed
    return free, node.cards, node.configs, node.disturbs, node.pooled, node.closed


def _roomiest(nodes: Sequence[NodeSupply], components: Sequence[Component]) -> list[NodeSupply]:
    """Nodes with most room first, as far as the service can use it; then in the order given."""
    cpu = sum(item.cpu_milli * item.replicas for item in components)
    memory = sum(item.memory_bytes * item.replicas for item in components)
    pods = sum(item.replicas for item in components)
    return sorted(nodes, key=lambda node: (-min(node.cpu_milli, cpu), -min(node.memory_bytes, memory), -min(node.pods, pods)))


def _needed(node: NodeSupply, components: Sequence[Component]) -> int:
    """Nodes like this one that hold every component, each on nodes of its own with whatever slots it may get there."""
    number = 0
    for component in components:
        room = [each for option in component.options if (each := _most(node, option.slot) // option.count)]
        if not component.options or room:
            each = min([*room, *_hosted(node, component)])
            number += -(-component.replicas // max(each, 1))
    return number + _SPARE


def _most(node: NodeSupply, key: str) -> int:
    cuts = [cut.number(key) for config in node.configs for cut in config.cuts]
    found = [number for number in (node.free.get(key, 0), *(node.cards * count for count in cuts)) if number]
    return min(found, default=0)


def _hosted(node: NodeSupply, component: Component) -> list[int]:
    has = ((node.cpu_milli, component.cpu_milli), (node.memory_bytes, component.memory_bytes), (node.pods, 1))
    return [amount // need for amount, need in has if need]
