"""What a pod on a node counts while its size is changed in place (KEP-1287, KEP-5419).

Source: k8s.io/component-helpers/resource/helpers.go. Up to 1.36 the largest of spec, status.resources and allocatedResources
counts per container; since 1.37 the pod is summed up three times and the largest sum per resource counts. A resize that the
kubelet calls Infeasible leaves the spec out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragstow.scheduling.amounts import Item, Nano, container_total, largest, nano, pod_level

Status = Mapping[str, Any]


def is_resizing(status: Status, items: Sequence[Item]) -> bool:
    """Whether the status says anything about the pod's size that the spec does not say too."""
    if status.get("resources") is not None or status.get("allocatedResources") is not None:
        return True
    found = _statuses(status)
    infeasible = bool(found) and is_infeasible(status)
    for item in items:
        state = found.get(item.name)
        if state is None:
            if infeasible:
                return True
            continue
        actual, allocated = state.get("resources"), state.get("allocatedResources")
        if infeasible and actual is None and allocated is None:
            return True
        if actual is not None and nano(actual.get("requests")) != item.requests:
            return True
        if allocated is not None and nano(allocated) != item.requests:
            return True
    return False


def is_infeasible(status: Status) -> bool:
    """Whether the kubelet has said that the resize cannot be."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False


def per_container(status: Status, containers: Sequence[Item], inits: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """Up to 1.36: containers and sidecars with the largest of their sizes, where status.resources is set."""
    found, infeasible = _statuses(status), is_infeasible(status)

    def seen(item: Item) -> Item:
        state = found.get(item.name)
        if state is None or state.get("resources") is None:
            return item
        parts = [nano(state["resources"].get("requests")), nano(state.get("allocatedResources"))]
        return item.asking(largest(parts if infeasible else [item.requests, *parts]))

    return [seen(item) for item in containers], [seen(item) if item.sidecar else item for item in inits]


def whole_pod(
    status: Status, containers: Sequence[Item], inits: Sequence[Item], missing: Mapping[str, int], *, own: bool
) -> Nano:
    """Since 1.37: the largest of the pod as specified, as allocated and as actuated.

    Args:
        status: the pod's.
        containers: its containers.
        inits: its init containers.
        missing: defaults for entries that a container does not have.
        own: whether the pod's own status.resources and allocatedResources count: both together stand for all containers.
    """
    found, infeasible = _statuses(status), is_infeasible(status)

    def allocated(item: Item) -> Item:
        given = (found.get(item.name) or {}).get("allocatedResources")
        if given is not None:
            return item.asking(nano(given))
        return item.asking({}) if infeasible else item

    def actuated(item: Item) -> Item:
        given = ((found.get(item.name) or {}).get("resources") or {}).get("requests")
        return allocated(item) if given is None else item.asking(nano(given))

    sums = [] if infeasible else [container_total(containers, inits, missing)]
    requests = (status.get("resources") or {}).get("requests")
    if own and status.get("allocatedResources") is not None and requests is not None:
        sums += [nano(status["allocatedResources"]), nano(requests)]
    else:
        for view in (allocated, actuated):
            sums.append(container_total([view(item) for item in containers], [view(item) for item in inits], missing))
    return largest(sums)


def own_level(status: Status, level: Nano) -> Nano:
    """The pod-level requests in force: the largest of spec and status, where the pod's status has any."""
    resources = status.get("resources")
    if not level or resources is None:
        return level
    spec = {} if is_infeasible(status) else level
    return largest([spec, pod_level(resources.get("requests")), pod_level(status.get("allocatedResources"))])


def _statuses(status: Status) -> dict[str, Mapping[str, Any]]:
    listed = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return {str(item.get("name") or ""): item for item in listed}
