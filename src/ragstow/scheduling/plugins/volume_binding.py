"""VolumeBinding: a node must reach the bound volumes and be able to get the others (plugins/volumebinding).

The work is in `volumes.binding`. What the scheduler decided is carried out at once: a later pod sees the claims bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragstow.errors import Reason
from ragstow.scheduling.behaviours import VOLUME_SCORE
from ragstow.scheduling.framework import (
    SKIP,
    CycleState,
    FilterPlugin,
    Handle,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
    StateKey,
    Status,
    failure,
    unresolvable,
)
from ragstow.scheduling.nodeinfo import NodeInfo
from ragstow.scheduling.podinfo import PodInfo
from ragstow.scheduling.volumes import binding
from ragstow.scheduling.volumes.binding import BindingError, PodClaims, PodVolumes
from ragstow.scheduling.volumes.cluster import VolumeCluster
from ragstow.scheduling.volumes.model import VolumeClaim, claims_of
from ragstow.scheduling.volumes.scoring import Shape, score, shape_of

UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"


@dataclass(slots=True)
class _Cycle:
    claims: PodClaims
    nodes: dict[str, PodVolumes] = field(default_factory=dict)


_KEY: StateKey[_Cycle] = StateKey("VolumeBinding")


class VolumeBinding(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, ReservePlugin):
    """See the module."""

    name = "VolumeBinding"
    zero_without_filter = True

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._cluster = handle.world.view(VolumeCluster)
        self._provisioned = False
        self._shape: Shape | None = shape_of(args.get("shape")) if VOLUME_SCORE.at(handle.release) else None

    def assumptions(self) -> Iterable[str]:
        """How volumes come about that nobody made before."""
        return ("volumes are provisioned at once, for the zone of the chosen node",) if self._provisioned else ()

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """All claims must exist, and those that bind at once must be bound; Skip for a pod without claims."""
        claims = self._claims(pod)
        if isinstance(claims, Status):
            return claims
        if not claims:
            return SKIP
        found = binding.sort_claims(claims, self._cluster)
        if found.immediate:
            return unresolvable(UNBOUND_IMMEDIATE)
        state.write(_KEY, _Cycle(found))
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Finds the volumes on this node."""
        cycle = state.read(_KEY)
        try:
            found = binding.find(cycle.claims, node.node, self._cluster)
        except BindingError as error:
            return failure(str(error))
        if not isinstance(found, PodVolumes):
            return unresolvable(*found)
        cycle.nodes[node.name] = found
        return None

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """Skip in releases that do not score volumes."""
        return SKIP if self._shape is None else None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int | Status:
        """Prefers nodes with much room for what the claims ask for."""
        cycle = state.find(_KEY)
        found = cycle.nodes.get(node.name) if cycle is not None else None
        return 0 if found is None or self._shape is None else score(found, self._shape)

    def reserve(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Binds the chosen volumes and has the others made."""
        cycle = state.find(_KEY)
        found = cycle.nodes.get(node.name) if cycle is not None else None
        if found is not None:
            for claim, volume in found.static:
                self._cluster.bind(claim, volume)
            for claim, _ in found.dynamic:
                self._cluster.provision(claim, node.node)
                self._provisioned = True
        return None

    def outcome(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Mapping[str, Any]:
        """Which volume each claim has now."""
        volumes = {}
        for item in claims_of(pod.pod):
            claim = self._cluster.claim(pod.namespace, item.claim)
            if claim is not None and claim.volume_name:
                volumes[claim.name] = claim.volume_name
        return {"volumes": volumes} if volumes else {}

    def explain(self, state: CycleState, pod: PodInfo, node: NodeInfo, status: Status) -> tuple[Reason, ...]:
        """Which claims are meant."""
        claims = state.read(_KEY).claims
        codes = {
            binding.NODE_CONFLICT: ("volume-node-conflict", claims.bound),
            binding.BIND_CONFLICT: ("volume-unavailable", claims.delayed),
            binding.NOT_ENOUGH_SPACE: ("volume-capacity", claims.delayed),
            binding.VOLUME_MISSING: ("volume-missing", claims.bound),
        }
        made = []
        for text in status.texts:
            code, meant = codes.get(text, ("volume-binding", ()))
            names = ", ".join(f"{claim.name} ({claim.volume_name or claim.class_name})" for claim in meant)
            made.append(Reason(code, f"{node.name}: {text}: {names}" if names else f"{node.name}: {text}"))
        return tuple(made)

    def _claims(self, pod: PodInfo) -> list[VolumeClaim] | Status:
        found: list[VolumeClaim] = []
        for item in claims_of(pod.pod):
            claim = self._cluster.claim(pod.namespace, item.claim)
            if claim is None:
                wait = "waiting for ephemeral volume controller to create the " if item.ephemeral else ""
                ending = "" if item.ephemeral else " not found"
                return unresolvable(f'{wait}persistentvolumeclaim "{item.claim}"{ending}')
            if claim.phase == "Lost":
                text = f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{claim.volume_name}"'
                return unresolvable(text)
            if claim.deleted:
                return unresolvable(f'persistentvolumeclaim "{claim.name}" is being deleted')
            if item.ephemeral and claim.owner_uid != pod.pod.uid:
                return unresolvable(f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)")
            found.append(claim)
        return found
