"""How the claims of a pod get their volumes on a node: matched to existing ones, or left to a provisioner.

Claims are matched smallest first, each to the smallest free volume that fits; what is left goes to provisioning, which needs a
real provisioner, allowed topologies and, where the driver tracks it, storage capacity. Source: FindPodVolumes of
pkg/scheduler/framework/plugins/volumebinding/binder.go and FindMatchingVolume of k8s.io/component-helpers/storage/volume.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragstow.cluster.objects import Node
from ragstow.quantity import Quantity
from ragstow.scheduling.volumes.cluster import VolumeCluster
from ragstow.scheduling.volumes.model import WAIT, StorageCapacity, StorageClass, Volume, VolumeClaim

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
VOLUME_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

NO_PROVISIONER = "kubernetes.io/no-provisioner"


class BindingError(Exception):
    """An error (not a refusal) of the binder; the text is upstream's."""


@dataclass(frozen=True, slots=True)
class PodClaims:
    """A pod's claims by what must happen to them."""

    bound: tuple[VolumeClaim, ...]
    delayed: tuple[VolumeClaim, ...]
    immediate: tuple[VolumeClaim, ...]


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """What would be done for a pod on a node."""

    static: tuple[tuple[VolumeClaim, Volume], ...] = ()
    dynamic: tuple[tuple[VolumeClaim, StorageCapacity | None], ...] = ()


def sort_claims(claims: Sequence[VolumeClaim], cluster: VolumeCluster) -> PodClaims:
    """Bound claims, those that wait for a node, and those that should have been bound already."""
    bound: list[VolumeClaim] = []
    delayed: list[VolumeClaim] = []
    immediate: list[VolumeClaim] = []
    for claim in claims:
        known = cluster.classes.get(claim.class_name) if claim.class_name else None
        if claim.bound:
            bound.append(claim)
        elif known is not None and known.binding_mode == WAIT and not claim.volume_name:
            delayed.append(claim)
        else:
            immediate.append(claim)
    return PodClaims(tuple(bound), tuple(delayed), tuple(immediate))


def find(claims: PodClaims, node: Node, cluster: VolumeCluster) -> PodVolumes | tuple[str, ...]:
    """What can be done on the node, or why not (upstream's texts in its order).

    Raises:
        BindingError: a claim has no usable class.
    """
    satisfied, found = _check_bound(claims.bound, node, cluster)
    reasons = [] if satisfied else [NODE_CONFLICT]
    if any(claim.selected_node not in (None, node.name) for claim in claims.delayed):
        return (*reasons, BIND_CONFLICT, *([] if found else [VOLUME_MISSING]))
    to_provision = [claim for claim in claims.delayed if claim.selected_node is not None]
    static, unmatched = _match([claim for claim in claims.delayed if claim.selected_node is None], node, cluster)
    provisioned = _provision([*to_provision, *unmatched], node, cluster)
    if isinstance(provisioned, str):
        reasons.append(provisioned)
        provisioned = []
    if not found:
        reasons.append(VOLUME_MISSING)
    return tuple(reasons) if reasons else PodVolumes(tuple(static), tuple(provisioned))


def matching(claim: VolumeClaim, node: Node, taken: set[str], cluster: VolumeCluster) -> Volume | None:
    """The volume that was bound for the claim before, if the node reaches it, else the smallest free one that fits."""
    best: Volume | None = None
    asked = claim.requested.nano if claim.requested else 0
    for item in cluster.candidates(claim, node):
        if item.name in taken or item.deleted or (item.claim is not None and not item.claimed_by(claim)):
            continue
        if item.capacity.nano < asked or item.mode != claim.mode or item.attributes_class != claim.attributes_class:
            continue
        reachable = item.nodes is None or item.nodes.matches(node)
        if item.claimed_by(claim):
            return item if reachable else None
        if item.phase != "Available" or not reachable or not set(claim.access_modes) <= set(item.access_modes):
            continue
        if claim.selector is not None and not claim.selector.matches(item.labels):
            continue
        if best is None or item.capacity.nano < best.capacity.nano:
            best = item
    return best


def _check_bound(claims: Sequence[VolumeClaim], node: Node, cluster: VolumeCluster) -> tuple[bool, bool]:
    for claim in claims:
        item = cluster.volume(claim.volume_name)
        if item is None:
            return True, False
        if item.nodes is not None and not item.nodes.matches(node):
            return False, True
    return True, True


def _match(
    claims: Sequence[VolumeClaim], node: Node, cluster: VolumeCluster
) -> tuple[list[tuple[VolumeClaim, Volume]], list[VolumeClaim]]:
    matched: list[tuple[VolumeClaim, Volume]] = []
    unmatched: list[VolumeClaim] = []
    taken: set[str] = set()
    for claim in sorted(claims, key=lambda entry: entry.requested.nano if entry.requested else 0):
        item = matching(claim, node, taken, cluster)
        if item is None:
            unmatched.append(claim)
        else:
            taken.add(item.name)
            matched.append((claim, item))
    return matched, unmatched


def _provision(
    claims: Sequence[VolumeClaim], node: Node, cluster: VolumeCluster
) -> list[tuple[VolumeClaim, StorageCapacity | None]] | str:
    made: list[tuple[VolumeClaim, StorageCapacity | None]] = []
    for claim in claims:
        if not claim.class_name:
            raise BindingError(f'no class for claim "{claim.key}"')
        known = cluster.classes.get(claim.class_name)
        if known is None:
            raise BindingError(f'failed to find storage class "{claim.class_name}"')
        if known.provisioner in ("", NO_PROVISIONER) or not _in_topology(known, node):
            return BIND_CONFLICT
        enough, capacity = _capacity(claim, known, node, cluster)
        if not enough:
            return NOT_ENOUGH_SPACE
        made.append((claim, capacity))
    return made


def _in_topology(known: StorageClass, node: Node) -> bool:
    if not known.topologies:
        return True
    return any(term and all(node.labels.get(key) in values for key, values in term) for term in known.topologies)


def _capacity(
    claim: VolumeClaim, known: StorageClass, node: Node, cluster: VolumeCluster
) -> tuple[bool, StorageCapacity | None]:
    driver = cluster.drivers.get(known.provisioner)
    if claim.requested is None or driver is None or not driver.checks_capacity:
        return True, None
    for capacity in cluster.capacities_of(known.name):
        limit: Quantity | None = capacity.largest if capacity.largest is not None else capacity.capacity
        if limit is not None and limit.value >= claim.requested.value and capacity.nodes.matches(node.labels):
            return True, capacity
    return False, None
