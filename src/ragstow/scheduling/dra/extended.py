"""Extended resources that device classes back (KEP-5004): what a pod needs of them on a node, and how many there are.

On a node that advertises the resource the device plugin serves it; elsewhere the scheduler makes one claim for the pod with a
request for each container and resource. Ordinary init containers reuse what later long-lived containers ask for, and only the
largest remainder is added. Source: extendeddynamicresources.go of pkg/scheduler/framework/plugins/dynamicresources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ragstow.cluster.objects import Container, Pod
from ragstow.scheduling.amounts import is_extended
from ragstow.scheduling.dra.cluster import IMPLICIT_PREFIX, DraCluster
from ragstow.scheduling.dra.model import Claim, DeviceRequest, Request
from ragstow.scheduling.nodeinfo import NodeInfo

CLAIM_NAME = "<extended-resources>"
"""The claim's name until it is written: no valid name, so it cannot clash."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """Which request serves a container's resource."""

    container: str
    resource: str
    request: str


@dataclass(frozen=True, slots=True)
class NodeClaim:
    """The claim for the extended resources of a pod on one node."""

    claim: Claim
    mappings: tuple[Mapped, ...] = field(default=())


def is_candidate(resource: str) -> bool:
    """Whether the name may be backed by a class (IsDRAExtendedResourceName)."""
    return is_extended(resource) or resource.startswith(IMPLICIT_PREFIX)


def wanted(amounts: Mapping[str, int], cluster: DraCluster) -> Mapping[str, int] | None:
    """The extended resources that a pod asks for; None where no class backs any of them."""
    found = {name: amount for name, amount in amounts.items() if amount and is_candidate(name)}
    return found if any(cluster.class_of(name) is not None for name in found) else None


def template(pod: Pod) -> Claim:
    """The claim for a pod's extended resources before a node is known: without requests."""
    return Claim(
        pod.namespace, CLAIM_NAME, f"extended:{pod.uid or pod.key}", (), owner_uid=pod.uid, extended_for=pod.uid or pod.key
    )


def served_by_claim(resources: Mapping[str, int], node: NodeInfo, cluster: DraCluster) -> list[str] | None:
    """The resources that the node must serve through a claim, sorted; None where it cannot serve one at all."""
    found = []
    for name in resources:
        if not node.allocatable.get(name) and cluster.class_of(name) is not None:
            found.append(name)
        elif name not in node.allocatable:
            return None
    return sorted(found)


def node_claim(base: Claim, pod: Pod, resources: Iterable[str], cluster: DraCluster) -> NodeClaim:
    """The claim with the requests that serve `resources` (sorted names, all backed by a class)."""
    containers = (*pod.init_containers, *pod.containers)
    first_main = len(pod.init_containers)
    short = [index for index, item in enumerate(containers) if index < first_main and item.restart_policy != "Always"]
    requests: list[DeviceRequest] = []
    mappings: list[Mapped] = []
    for resource in resources:
        device_class = cluster.class_of(resource)
        if device_class is None:
            continue
        made, mapped = _of_resource(containers, short, resource, device_class.name)
        requests.extend(made)
        mappings.extend(mapped)
    requests.sort(key=lambda item: item.name)
    return NodeClaim(replace(base, requests=tuple(requests)), tuple(mappings))


def counts(node: NodeInfo, resource: str, cluster: DraCluster) -> tuple[int, int]:
    """Devices of the class in the slices that reach the node, and those of them in use; pools need not be complete or valid."""
    device_class = cluster.class_of(resource)
    if device_class is None:
        return 0, 0
    total = used = 0
    for device in cluster.pools.devices_on(node.node):
        if all(cluster.selectors.verdict(expression, device) is True for expression in device_class.selectors):
            total += 1
            used += cluster.allocated.any(device.id)
    return total, used


def _of_resource(
    containers: Sequence[Container], short: Sequence[int], resource: str, class_name: str
) -> tuple[list[DeviceRequest], list[Mapped]]:
    long_lived: list[DeviceRequest | None] = [None] * len(containers)
    mapped: list[Mapped] = []
    for index, container in enumerate(containers):
        if index not in short:
            long_lived[index], found = _of_container(index, container, resource, class_name, ())
            mapped.extend(found)
    largest: DeviceRequest | None = None
    names: set[str] = set()
    reused: list[Mapped] = []
    for index in short:
        made, found = _of_container(index, containers[index], resource, class_name, long_lived[index:])
        reused.extend(found)
        if made is not None:
            names.add(made.name)
            if largest is None or _count(largest) < _count(made):
                largest = made
    if largest is not None:
        shared = largest.name
        reused = [replace(item, request=shared) if item.request in names else item for item in reused]
    requests = ([largest] if largest is not None else []) + [item for item in long_lived if item is not None]
    return requests, mapped + reused


def _of_container(
    index: int, container: Container, resource: str, class_name: str, reusable: Sequence[DeviceRequest | None]
) -> tuple[DeviceRequest | None, list[Mapped]]:
    amount = container.requests.get(resource, 0)
    if not amount:
        return None, []
    mapped: list[Mapped] = []
    covered = 0
    for request in reusable:
        if request is None:
            continue
        covered += _count(request)
        mapped.append(Mapped(container.name, resource, request.name))
        if covered >= amount:
            return None, mapped
    name = f"container-{index}-request-{sorted(container.requests).index(resource)}"
    mapped.append(Mapped(container.name, resource, name))
    return DeviceRequest(name, Request(name, class_name, count=amount - covered)), mapped


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0
