"""How many physical cards the service may sit on at most, whatever the scheduler and the kubelet choose.

Pods with a card for themselves count their cards. The others may spread over every card that offers their slot and that they
can reach: the most cards they can touch is a maximum flow from pods over the free slots of each node to its cards.
"""

from __future__ import annotations

from collections.abc import Mapping

from ragstow.plan.after import After
from ragstow.plan.problem import Steering

_Vertex = tuple[object, ...]
_SOURCE: _Vertex = ("source",)
_SINK: _Vertex = ("sink",)
_Network = dict[_Vertex, dict[_Vertex, int]]


def most_cards(after: After, steering: Mapping[str, Steering]) -> int:
    """The greatest number of cards that may hold a pod of the service.

    Args:
        after: the cluster after the design.
        steering: constraints of the pods; one that must be beside another's pod on a node with one such card adds no card.
    """
    alone = 0
    network: _Network = {_SOURCE: {}, _SINK: {}}
    for group in after.groups:
        if group.slot.alone or group.option.bundle:
            alone += group.pods * group.option.count
            continue
        if any(steering.get(member.name, Steering()).beside for member in group.members):
            continue
        pods: _Vertex = ("pods", group.name)
        _edge(network, _SOURCE, pods, group.pods)
        for node in after.reach[group.name]:
            free: _Vertex = ("free", node.name, group.slot.key)
            used: _Vertex = ("used", node.name, group.slot.key)
            if free not in network:
                _edge(network, free, used, node.free[group.slot.key])
                for number, (cut, count) in enumerate(node.cuts):
                    if cut.number(group.slot.key):
                        cards: _Vertex = ("cards", node.name, number)
                        _edge(network, used, cards, count)
                        _edge(network, cards, _SINK, count)
            _edge(network, pods, free, group.pods)
    return alone + _flow(network)


def _edge(network: _Network, start: _Vertex, end: _Vertex, capacity: int) -> None:
    network.setdefault(start, {})[end] = capacity
    network.setdefault(end, {}).setdefault(start, 0)


def _flow(network: _Network) -> int:
    """Maximum flow by shortest augmenting paths; changes the network."""
    total = 0
    while True:
        came: dict[_Vertex, _Vertex] = {_SOURCE: _SOURCE}
        queue = [_SOURCE]
        for vertex in queue:
            for end, capacity in network[vertex].items():
                if capacity > 0 and end not in came:
                    came[end] = vertex
                    queue.append(end)
        if _SINK not in came:
            return total
        path = [_SINK]
        while path[-1] != _SOURCE:
            path.append(came[path[-1]])
        steps = list(zip(path[1:], path, strict=False))
        pushed = min(network[start][end] for start, end in steps)
        for start, end in steps:
            network[start][end] -= pushed
            network[end][start] += pushed
        total += pushed
