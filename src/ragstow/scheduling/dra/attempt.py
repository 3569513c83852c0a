"""One pod's cycle: its claims, and the attempt to serve them on a node.

A selector that cannot be evaluated here, and a search that takes too long, end the pod's cycle with an Error that says so (a
release that calls the second unschedulable refuses the node).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ragstow.errors import Reason
from ragstow.scheduling.dra import extended, results
from ragstow.scheduling.dra.cel import NotEvaluated
from ragstow.scheduling.dra.cluster import DraCluster
from ragstow.scheduling.dra.model import Allocation, Claim
from ragstow.scheduling.dra.requests import AllocationError, NodeFailure
from ragstow.scheduling.dra.search import Inputs, Search, SearchTooLong
from ragstow.scheduling.framework import Status, failure, unresolvable
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo


@dataclass(slots=True)
class Served:
    """How a node can serve the pod: an allocation for each claim that had none."""

    allocations: tuple[Allocation, ...]
    extended: extended.NodeClaim | None


@dataclass(slots=True)
class Cycle:
    """What is known of a pod's claims while it is scheduled."""

    claims: tuple[Claim, ...]
    """The pod's own claims, then the one for its extended resources (without requests)."""
    own: int
    resources: Mapping[str, int]
    inputs: Inputs | None
    """None where every claim has its devices already."""
    nodes: dict[str, Served] = field(default_factory=dict)
    unavailable: set[int] = field(default_factory=set)
    """Places of the claims that kept the pod from some node."""
    problems: dict[str, Reason] = field(default_factory=dict)
    """Why a selector was not evaluated, by node."""

    @property
    def extended(self) -> Claim | None:
        """The claim for the extended resources, if one may be needed."""
        return self.claims[self.own] if self.own < len(self.claims) else None

    @property
    def to_allocate(self) -> Iterable[tuple[int, Claim]]:
        """Claims without an allocation, with their place."""
        return ((index, claim) for index, claim in enumerate(self.claims) if claim.allocation is None)


def on_node(cycle: Cycle, pod: PodInfo, node: NodeInfo, cluster: DraCluster) -> Status | None:
    """Checks where the claims with devices can be used, and allocates the others for this node."""
    made: extended.NodeClaim | None = None
    if cycle.extended is not None:
        if cycle.extended.requests:
            return unresolvable("cannot schedule extended resource claim")
        served = extended.served_by_claim(cycle.resources, node, cluster)
        if served is None:
            return unresolvable("cannot fit resource")
        if not served and not cycle.own:
            return None
        made = extended.node_claim(cycle.extended, pod.pod, served, cluster)
    missing = [
        index
        for index, claim in enumerate(cycle.claims)
        if claim.allocation and claim.allocation.scope and not claim.allocation.scope.compiled.matches(node.node)
    ]
    allocations: tuple[Allocation, ...] = ()
    if cycle.inputs is not None:
        wanted = [made.claim if made and claim is cycle.extended else claim for _, claim in cycle.to_allocate]
        found = _allocate(cycle, cycle.inputs, node, wanted, cluster)
        if isinstance(found, Status):
            return found
        allocations = found
    if missing:
        cycle.unavailable.update(missing)
        return unresolvable("resourceclaim not available on the node")
    if cycle.inputs is not None:
        cycle.nodes[node.name] = Served(allocations, made)
    return None


def _allocate(
    cycle: Cycle, inputs: Inputs, node: NodeInfo, claims: Sequence[Claim], cluster: DraCluster
) -> tuple[Allocation, ...] | Status:
    search = Search(inputs, node.node, cluster.pools.on(node.node), claims)
    try:
        if not search.run():
            return unresolvable("cannot allocate all claims")
        return tuple(results.allocation(taken, node.node) for taken in search.result)
    except NodeFailure as refusal:
        return unresolvable(str(refusal))
    except AllocationError as error:
        return failure(str(error))
    except NotEvaluated as error:
        cycle.problems[node.name] = error.reason
        return failure(f"not evaluated: {error.reason.text}")
    except SearchTooLong:
        text = "timed out trying to allocate devices"
        return failure(f"node {node.name}: {text}") if cluster.rules.timeout_is_error else unresolvable(text)
