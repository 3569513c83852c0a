"""One pod's cycle: its claims, and the attempt to serve them on a node.

A selector that cannot be evaluated here, and a search that takes too long, end the pod's cycle with an Error that says so (a
release that calls the second unschedulable refuses the node).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ragstow.errors import Reason
from ragstow.scheduling.dra import extended, results
from ragstow.scheduling.dra.cel import NotEvaluated
from ragstow.scheduling.dra.cluster import DraCluster
from ragstow.scheduling.dra.model import Allocation, Claim
from ragstow.scheduling.dra.remembered import Outcome, shape
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be allocated on nodes that serve the same extended resources through a claim."""

    claims: tuple[Claim, ...]
    shape: str
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
    wanted: dict[tuple[str, ...], Wanted] = field(default_factory=dict)
    """By the extended resources that a node serves through a claim."""
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
    served: tuple[str, ...] = ()
    if cycle.extended is not None:
        if cycle.extended.requests:
            return unresolvable("cannot schedule extended resource claim")
        found = extended.served_by_claim(cycle.resources, node, cluster)
        if found is None:
            return unresolvable("cannot fit resource")
        if not found and not cycle.own:
            return None
        served = tuple(found)
    missing = [
        index
        for index, claim in enumerate(cycle.claims)
        if claim.allocation and claim.allocation.scope and not claim.allocation.scope.compiled.matches(node.node)
    ]
    allocations: tuple[Allocation, ...] = ()
    wanted = cycle.wanted.get(served) or _wanted(cycle, pod, served, cluster)
    if cycle.inputs is not None:
        outcome = _allocate(cycle, cycle.inputs, node, wanted, cluster)
        if isinstance(outcome, Status):
            return outcome
        allocations = outcome
    if missing:
        cycle.unavailable.update(missing)
        return unresolvable("resourceclaim not available on the node")
    if cycle.inputs is not None:
        cycle.nodes[node.name] = Served(allocations, wanted.extended)
    return None


def _wanted(cycle: Cycle, pod: PodInfo, served: tuple[str, ...], cluster: DraCluster) -> Wanted:
    made = None if cycle.extended is None else extended.node_claim(cycle.extended, pod.pod, served, cluster)
    claims = tuple(made.claim if made and claim is cycle.extended else claim for _, claim in cycle.to_allocate)
    cycle.wanted[served] = Wanted(claims, shape(claims), made)
    return cycle.wanted[served]


def _allocate(cycle: Cycle, inputs: Inputs, node: NodeInfo, wanted: Wanted, cluster: DraCluster) -> Outcome:
    pools = cluster.pools.on(node.node)
    known = cluster.remembered.find(node.name, wanted.shape, pools)
    if known is not None:
        return known
    search = Search(inputs, node.node, pools, wanted.claims)
    outcome: Outcome
    try:
        if search.run():
            outcome = tuple(results.allocation(taken, node.node) for taken in search.result)
        else:
            outcome = unresolvable("cannot allocate all claims")
    except NodeFailure as refusal:
        return unresolvable(str(refusal))
    except AllocationError as error:
        return failure(str(error))
    except NotEvaluated as error:
        cycle.problems[node.name] = error.reason
        return failure(f"not evaluated: {error.reason.text}")
    except SearchTooLong:
        text = "timed out trying to allocate devices"
        outcome = failure(f"node {node.name}: {text}") if cluster.rules.timeout_is_error else unresolvable(text)
    cluster.remembered.keep(node.name, wanted.shape, pools, outcome)
    return outcome
