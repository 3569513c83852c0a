"""Node by node, where a filter must be asked itself: those with columns answer from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ragstow.scheduling.framework import CycleState, FilterPlugin, Status, failure
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo
from ragstow.simulate.vector.arrays import Bools
from ragstow.simulate.vector.entry import Refusals
from ragstow.simulate.vector.search import Search

Ask = Callable[[NodeInfo], Status | None]


class Walker:
    """Asks one node for one pod.

    Args:
        state: the pod's cycle state.
        pod: the pod.
        filters: all filters in calling order.
        slow: names of those to be asked themselves.
        refusals: the columns of the others.
        count: how many nodes there are.
    """

    def __init__(
        self,
        state: CycleState,
        pod: PodInfo,
        filters: Sequence[FilterPlugin],
        slow: frozenset[str],
        refusals: Mapping[str, Refusals],
        count: int,
    ) -> None:
        names = [plugin.name for plugin in filters]
        start = min((names.index(name) for name in slow), default=len(names))
        self.state, self.pod, self.slow = state, pod, slow
        self.columns = {name: (said.codes, said) for name, said in refusals.items()}
        self.rest = [plugin for plugin in filters[start:] if plugin.name in slow or plugin.name in refusals]
        self.open: Bools = np.ones(count, dtype=np.bool_)
        """Where no filter before the first slow one refuses."""
        for name in names[:start]:
            if name in self.columns:
                self.open &= self.columns[name][0] == 0

    def ask(self, node: NodeInfo) -> Status | None:
        """The first refusal of an open node from the first slow filter on."""
        for plugin in self.rest:
            if plugin.name in self.slow:
                status = plugin.filter(self.state, self.pod, node)
                if status is not None and not status.rejected:
                    status = failure(f'running "{plugin.name}" filter plugin: {status.message}')
            else:
                codes, said = self.columns[plugin.name]
                code = int(codes[node.index])
                status = said.status(code) if code else None
            if status is not None:
                return status.by(plugin.name)
        return None


def walk(
    search: Search, nodes: Sequence[NodeInfo], walker: Walker, expected: Mapping[int, Ask], wanted: int, *, stop: bool
) -> None:
    """Fill in a search whose `looked_at` says which nodes to ask, in order.

    Args:
        search: filled in: feasible nodes, single refusals, the error, and how far it went.
        nodes: all nodes.
        walker: asks those that no column refuses.
        expected: how to ask the nodes to which other pods are nominated.
        wanted: the search ends at the first feasible node beyond so many.
        stop: whether an error ends it.
    """
    order = search.looked_at
    feasible: list[int] = []
    for position, number in enumerate(order.tolist()):
        node = nodes[number]
        if number in expected:
            status = expected[number](node)
        elif walker.open[number]:
            status = walker.ask(node)
        else:
            continue
        if status is None:
            if len(feasible) == wanted:
                search.looked_at = order[:position]
                break
            feasible.append(number)
            continue
        search.single[number] = status
        if not status.rejected:
            search.error = search.error or status
            if stop:
                search.looked_at = order[: position + 1]
                break
    search.feasible = np.array(feasible, dtype=np.int64)
