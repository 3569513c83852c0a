"""DynamicResources: claims are allocated, or were allocated on nodes that reach their devices (plugins/dynamicresources).

The work is done in `dra`; this module is the order of calls, the statuses and what a pod's cycle hands on. A selector that
cannot be evaluated here, and a search that takes too long, end the pod's cycle with an Error that says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragstow.errors import Reason
from ragstow.scheduling.behaviours import NO_CLAIMS_TEXT
from ragstow.scheduling.dra import claims as pod_claims
from ragstow.scheduling.dra import extended, results, score
from ragstow.scheduling.dra.cel import NotEvaluated
from ragstow.scheduling.dra.cluster import DraCluster
from ragstow.scheduling.dra.model import Allocation, Claim, DeviceResult
from ragstow.scheduling.dra.requests import AllocationError, NodeFailure
from ragstow.scheduling.dra.search import Inputs, Search, SearchTooLong
from ragstow.scheduling.framework import (
    SKIP,
    Code,
    CycleState,
    FilterPlugin,
    Handle,
    PostFilterPlugin,
    PostFilterResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
    StateKey,
    Status,
    failure,
    unresolvable,
    unschedulable,
)
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.normalize import default_normalize
from ragstow.scheduling.podinfo import PodInfo

EXTENDED_KEY = "extended-resources"
"""What the claim for extended resources is called in the answer."""


@dataclass(slots=True)
class _Node:
    """What the filter found out for a node: an allocation for each claim that had none."""

    allocations: tuple[Allocation, ...]
    extended: extended.NodeClaim | None


@dataclass(slots=True)
class _Cycle:
    claims: tuple[Claim, ...]
    """The pod's own claims, then the one for its extended resources (without requests)."""
    own: int
    resources: Mapping[str, int]
    inputs: Inputs | None
    nodes: dict[str, _Node] = field(default_factory=dict)
    unavailable: set[int] = field(default_factory=set)

    @property
    def extended(self) -> Claim | None:
        """The claim for the extended resources, if one may be needed."""
        return self.claims[self.own] if self.own < len(self.claims) else None

    @property
    def to_allocate(self) -> Iterable[tuple[int, Claim]]:
        """Claims without an allocation, with their place."""
        return ((index, claim) for index, claim in enumerate(self.claims) if claim.allocation is None)


_KEY: StateKey[_Cycle] = StateKey("DynamicResources")


class DynamicResources(
    PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, PostFilterPlugin, PreScorePlugin, ScorePlugin, ReservePlugin
):
    """See the module."""

    name = "DynamicResources"
    zero_without_filter = True

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._cluster = handle.world.view(DraCluster)
        self._rules = self._cluster.rules
        if self._rules.extended:
            handle.extended = self

    # --- ExtendedResources, for NodeResourcesFit ---

    def backs(self, resource: str) -> bool:
        """Whether a device class provides this extended resource."""
        return extended.is_candidate(resource) and self._cluster.class_of(resource) is not None

    def capacity(self, node: NodeInfo, resource: str) -> tuple[int, int]:
        """Devices of the class that reach the node, and those of them in use."""
        return extended.counts(node, resource, self._cluster)

    # --- extension points ---

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """All claims must exist."""
        try:
            pod_claims.of_pod(pod.pod, self._cluster)
        except pod_claims.ClaimProblem as problem:
            return unresolvable(str(problem))
        return None

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """Finds the claims; Skip for a pod without any."""
        try:
            own = pod_claims.of_pod(pod.pod, self._cluster)
            for claim in own:
                pod_claims.check(claim, pod.pod, self._cluster)
        except pod_claims.ClaimProblem as problem:
            return unresolvable(str(problem))
        resources = extended.wanted(pod.sums.plain, self._cluster) if self._rules.extended else None
        claims = own
        if resources is not None:
            claims += (self._cluster.extended_claim(pod.pod.uid or pod.key) or extended.template(pod.pod),)
        if not claims:
            return SKIP
        pending = any(claim.allocation is None for claim in claims)
        state.write(_KEY, _Cycle(claims, len(own), resources or {}, self._cluster.inputs() if pending else None))
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Allocates for this node, and checks where the other claims can be used."""
        cycle = state.read(_KEY)
        made: extended.NodeClaim | None = None
        if cycle.extended is not None:
            if cycle.extended.requests:
                return unresolvable("cannot schedule extended resource claim")
            served = extended.served_by_claim(cycle.resources, node, self._cluster)
            if served is None:
                return unresolvable("cannot fit resource")
            if not served and not cycle.own:
                return None
            made = extended.node_claim(cycle.extended, pod.pod, served, self._cluster)
        missing = [
            index
            for index, claim in enumerate(cycle.claims)
            if claim.allocation and claim.allocation.scope and not claim.allocation.scope.compiled.matches(node.node)
        ]
        allocations: tuple[Allocation, ...] = ()
        if cycle.inputs is not None:
            wanted = [made.claim if made and claim is cycle.extended else claim for _, claim in cycle.to_allocate]
            found = self._allocate(cycle.inputs, node, wanted)
            if isinstance(found, Status):
                return found
            allocations = found
        if missing:
            cycle.unavailable.update(missing)
            return unresolvable("resourceclaim not available on the node")
        if cycle.inputs is not None:
            cycle.nodes[node.name] = _Node(allocations, made)
        return None

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status], absent: Status
    ) -> tuple[PostFilterResult | None, Status]:
        """Takes the devices of an unused claim away when the claim kept the pod from a node."""
        cycle = state.find(_KEY)
        talkative = NO_CLAIMS_TEXT.at(self.handle.release)
        if cycle is None:
            return None, unschedulable(*(["no new claims to deallocate"] if talkative else []))
        for index in sorted(cycle.unavailable):
            claim = cycle.claims[index]
            users = claim.reserved_for
            if claim is not cycle.extended and (not users or (len(users) == 1 and users[0][2] == pod.pod.uid)):
                self._cluster.deallocate(claim)
                return None, unschedulable("deallocation of ResourceClaim completed")
        return None, unschedulable(*(["still not schedulable"] if talkative else []))

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """Skip in releases that do not score claims."""
        return SKIP if self._rules.scorer == "none" else None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int | Status:
        """Prefers nodes where the better alternatives of prioritised lists could be taken."""
        cycle = state.find(_KEY)
        found = cycle.nodes.get(node.name) if cycle is not None else None
        if cycle is None or found is None:
            return 0
        try:
            return score.of_node(cycle.claims, found.allocations, self._rules.scorer)
        except ValueError as error:
            return failure(str(error))

    def normalize(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], scores: list[int]) -> Status | None:
        """By the largest score."""
        default_normalize(scores)
        return None

    def reserve(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Writes the allocations to the claims and notes the pod as their user."""
        cycle = state.find(_KEY)
        if cycle is None:
            return None
        found = cycle.nodes.get(node.name)
        if found is not None:
            for (_, claim), allocation in zip(cycle.to_allocate, found.allocations, strict=True):
                written = claim
                if claim is cycle.extended:
                    if found.extended is None or not found.extended.claim.requests:
                        continue
                    written = replace(found.extended.claim, name=f"{pod.name}-{EXTENDED_KEY}")
                self._cluster.allocate(written, allocation)
        for claim in cycle.claims[: cycle.own]:
            self._cluster.reserve(claim, pod.name, pod.pod.uid)
        return None

    def outcome(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Mapping[str, Any]:
        """The devices of every claim of the pod, as written to the claims."""
        cycle = state.find(_KEY)
        if cycle is None:
            return {}
        answer: dict[str, Any] = {}
        devices: dict[str, Any] = {}
        for claim in cycle.claims[: cycle.own]:
            now = self._cluster.claim(claim.namespace, claim.name)
            if now is not None and now.allocation is not None:
                devices[claim.name] = _shown(now.allocation)
        found = cycle.nodes.get(node.name)
        if found is not None and found.extended is not None and found.extended.claim.requests:
            devices[EXTENDED_KEY] = _shown(found.allocations[-1])
            requests = (request.exactly for request in found.extended.claim.requests)
            answer["extended_requests"] = [f"{item.name}={item.class_name} x{item.count}" for item in requests if item]
            answer["extended_mappings"] = [
                {"containerName": item.container, "resourceName": item.resource, "requestName": item.request}
                for item in found.extended.mappings
            ]
        if devices:
            answer["devices"] = devices
        return answer

    def pod_removed(self, pod: PodInfo, node: str) -> None:
        """Frees what only this pod used."""
        try:
            used = list(pod_claims.names(pod.pod))
        except pod_claims.ClaimProblem:
            used = []
        self._cluster.release(pod.namespace, pod.name, pod.pod.uid, used)

    def explain(self, state: CycleState, pod: PodInfo, node: NodeInfo, status: Status) -> tuple[Reason, ...]:
        """Which claim, and for an unevaluated selector what would help."""
        cycle = state.find(_KEY)
        names = ", ".join(claim.name for claim in cycle.claims) if cycle is not None else ""
        code = "devices-error" if status.code is Code.ERROR else "devices-unavailable"
        if "not evaluated" in status.message:
            return (Reason("cel-not-evaluated", f"{node.name}: {status.message}", "pip install 'ragstow[cel]'"),)
        return (Reason(code, f"{node.name}: {status.message} (claims of {pod.key}: {names})"),)

    def _allocate(self, inputs: Inputs, node: NodeInfo, claims: Sequence[Claim]) -> tuple[Allocation, ...] | Status:
        search = Search(inputs, node.node, self._cluster.pools.on(node.node), claims)
        try:
            if not search.run():
                return unresolvable("cannot allocate all claims")
            return tuple(results.allocation(taken, node.node) for taken in search.result)
        except NodeFailure as refusal:
            return unresolvable(str(refusal))
        except AllocationError as error:
            return failure(str(error))
        except NotEvaluated as error:
            return failure(f"not evaluated: {error.reason.text}")
        except SearchTooLong:
            text = "timed out trying to allocate devices"
            return failure(f"node {node.name}: {text}") if self._rules.timeout_is_error else unresolvable(text)


def _shown(allocation: Allocation) -> Mapping[str, Any]:
    shown: dict[str, Any] = {"results": [_result(item) for item in allocation.results]}
    if allocation.scope is not None:
        shown["nodeSelector"] = allocation.scope.raw
    return shown


def _result(item: DeviceResult) -> Mapping[str, Any]:
    shown: dict[str, Any] = {
        "request": item.request,
        "driver": item.device.driver,
        "pool": item.device.pool,
        "device": item.device.device,
    }
    if item.admin:
        shown["adminAccess"] = True
    if item.shared:
        shown["shared"] = True
    if item.consumed is not None:
        shown["consumedCapacity"] = {name: str(amount) for name, amount in item.consumed.items()}
    if item.tolerations:
        shown["tolerations"] = len(item.tolerations)
    return shown
