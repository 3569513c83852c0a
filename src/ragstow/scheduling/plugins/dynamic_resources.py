"""DynamicResources: claims are allocated, or were allocated on nodes that reach their devices (plugins/dynamicresources).

The work is done in `dra`; this module is the order of calls, and what a pod's cycle leaves behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragstow.errors import Reason
from ragstow.scheduling.behaviours import NO_CLAIMS_TEXT
from ragstow.scheduling.dra import claims as pod_claims
from ragstow.scheduling.dra import extended, score, shown
from ragstow.scheduling.dra.attempt import Cycle, on_node
from ragstow.scheduling.dra.cluster import DraCluster
from ragstow.scheduling.dra.lacking import Lack, lacking
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
    Statuses,
    failure,
    unschedulable,
)
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.normalize import default_normalize
from ragstow.scheduling.podinfo import PodInfo

_KEY: StateKey[Cycle] = StateKey("DynamicResources")


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
        self._asked = False

    # --- ExtendedResources, for NodeResourcesFit ---

    def backs(self, resource: str) -> bool:
        """Whether a device class provides this extended resource."""
        return extended.is_candidate(resource) and self._cluster.class_of(resource) is not None

    def capacity(self, node: NodeInfo, resource: str) -> tuple[int, int]:
        """Devices of the class that reach the node, and those of them in use."""
        return extended.counts(node, resource, self._cluster)

    def assumptions(self) -> Iterable[str]:
        """What is dropped, ordered and waited for, once a pod asked for devices."""
        return self._cluster.assumptions() if self._asked else ()

    # --- extension points ---

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """All claims must exist."""
        try:
            pod_claims.of_pod(pod.pod, self._cluster)
        except pod_claims.ClaimProblem as problem:
            return problem.status
        return None

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """Finds the claims; Skip for a pod without any."""
        try:
            own = pod_claims.of_pod(pod.pod, self._cluster)
            for claim in own:
                pod_claims.check(claim, pod.pod, self._cluster)
        except pod_claims.ClaimProblem as problem:
            return problem.status
        resources = extended.wanted(pod.sums.plain, self._cluster) if self._rules.extended else None
        claims = own
        if resources is not None:
            claims += (self._cluster.extended_claim(pod.pod.uid or pod.key) or extended.template(pod.pod),)
        if not claims:
            return SKIP
        self._asked = True
        pending = any(claim.allocation is None for claim in claims)
        state.write(_KEY, Cycle(claims, len(own), resources or {}, self._cluster.inputs() if pending else None))
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Allocates for this node, and checks where the other claims can be used."""
        return on_node(state.read(_KEY), pod, node, self._cluster)

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Statuses, absent: Status
    ) -> tuple[PostFilterResult | None, Status]:
        """Takes the devices of an unused claim away when the claim kept the pod from a node.

        Where an earlier plugin's pre-filter ended the cycle the original misses what its own would have noted: its error takes
        the place of what preemption says.
        """
        if self.name in state.unasked:
            return None, failure("not found")
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
                    written = replace(found.extended.claim, name=f"{pod.name}-{shown.EXTENDED_KEY}")
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
                devices[claim.name] = shown.devices(now.allocation)
        found = cycle.nodes.get(node.name)
        if found is not None and found.extended is not None and found.extended.claim.requests:
            devices[shown.EXTENDED_KEY] = shown.devices(found.allocations[-1])
            answer.update(shown.extended_requests(found.extended))
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

    def lacking(self, state: CycleState, node: NodeInfo) -> tuple[Lack, ...]:
        """What the node lacks for the pod's claims, after the filter refused it."""
        cycle = state.find(_KEY)
        return () if cycle is None or cycle.inputs is None else lacking(cycle, node.node, self._cluster)

    def explain(self, state: CycleState, pod: PodInfo, node: NodeInfo, status: Status) -> tuple[Reason, ...]:
        """Which claim, and for an unevaluated selector what would help."""
        cycle = state.find(_KEY)
        problem = cycle.problems.get(node.name) if cycle is not None else None
        if problem is not None:
            return (replace(problem, text=f"{node.name}: {problem.text}"),)
        names = ", ".join(claim.name for claim in cycle.claims) if cycle is not None else ""
        code = "devices-error" if status.code is Code.ERROR else "devices-unavailable"
        return (Reason(code, f"{node.name}: {status.message} (claims of {pod.key}: {names})"),)
