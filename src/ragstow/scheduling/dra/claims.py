"""The claims of one pod: which objects they are, and whether the scheduler may go on with them. Texts as upstream.

Source: foreachPodResourceClaim and PreFilter of pkg/scheduler/framework/plugins/dynamicresources, and resourceclaim.Name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstow.cluster.objects import Pod
from ragstow.scheduling.dra.cluster import MAX_USERS, DraCluster
from ragstow.scheduling.dra.model import Claim
from ragstow.scheduling.framework import failure, unresolvable


class ClaimProblem(Exception):
    """Keeps the pod from being scheduled anywhere; the text is the reason."""

    def __init__(self, text: str, *, fatal: bool = False) -> None:
        super().__init__(text)
        self.status = failure(text) if fatal else unresolvable(text)


def names(pod: Pod) -> Iterator[str]:
    """The names of the pod's claims; entries for which no claim was meant to be made are left out.

    Raises:
        ClaimProblem: a claim was not created yet.
    """
    made = {str(item.get("name")): item for item in pod.status.get("resourceClaimStatuses") or ()}
    for entry in pod.spec.get("resourceClaims") or ():
        name = _name(pod, entry, made)
        if name is not None:
            yield name


def of_pod(pod: Pod, cluster: DraCluster) -> tuple[Claim, ...]:
    """The pod's claims in its order.

    Raises:
        ClaimProblem: a claim is missing, being deleted, or another pod's.
    """
    found: list[Claim] = []
    made = {str(item.get("name")): item for item in pod.status.get("resourceClaimStatuses") or ()}
    for entry in pod.spec.get("resourceClaims") or ():
        name = _name(pod, entry, made)
        if name is None:
            continue
        claim = cluster.claim(pod.namespace, name)
        if claim is None:
            raise ClaimProblem(f'could not find ResourceClaim "{pod.namespace}/{name}"')
        if claim.deleted:
            raise ClaimProblem(f'resourceclaim "{name}" is being deleted')
        if not entry.get("resourceClaimName") and claim.owner_uid != pod.uid:
            raise ClaimProblem(f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)")
        found.append(claim)
    return tuple(found)


def check(claim: Claim, pod: Pod, cluster: DraCluster) -> None:
    """Whether the scheduler may use the claim for the pod.

    Raises:
        ClaimProblem: too many users, or a class that does not exist.
    """
    if claim.allocation is not None:
        if len(claim.reserved_for) >= MAX_USERS and not any(user[2] == pod.uid for user in claim.reserved_for):
            raise ClaimProblem("resourceclaim in use")
        return
    for request in claim.requests:
        if request.exactly is not None:
            _check_class(cluster, request.exactly.class_name, request.name)
        elif request.alternatives:
            for alternative in request.alternatives:
                _check_class(cluster, alternative.class_name, f"{request.name}/{alternative.name}")
        else:
            raise ClaimProblem(f"resource claim {claim.key}, request {request.name}: unknown request type")


def _name(pod: Pod, entry: Mapping[str, Any], made: Mapping[str, Mapping[str, Any]]) -> str | None:
    if entry.get("resourceClaimName"):
        return str(entry["resourceClaimName"])
    if not entry.get("resourceClaimTemplateName"):
        raise ClaimProblem(f'pod "{pod.key}", spec.resourceClaim "{entry.get("name")}": none of the supported fields are set')
    status = made.get(str(entry.get("name")))
    if status is None:
        raise ClaimProblem(f'pod "{pod.key}": ResourceClaim not created yet')
    name = status.get("resourceClaimName")
    return None if name is None else str(name)


def _check_class(cluster: DraCluster, class_name: str, request: str) -> None:
    if not class_name:
        raise ClaimProblem(f"request {request}: unsupported request type", fatal=True)
    if class_name not in cluster.classes:
        raise ClaimProblem(f"request {request}: device class {class_name} does not exist")
