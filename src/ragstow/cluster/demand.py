"""What a pod asks of a node: the formula of kube-scheduler and the kubelet, for any resource.

Source: k8s.io/component-helpers `resource.PodRequests` and the documentation "Resource sharing within containers": a pod asks
for the larger of (a) all containers and sidecars together and (b) each ordinary init container together with the sidecars
started before it; its overhead comes on top. Where only a limit is given, it is the request too (defaulted by the API server).
"""

from __future__ import annotations

from ragstow.cluster.objects import Container, Pod


def requested(container: Container, resource: str) -> int:
    """What one container asks for; a limit without a request counts as one."""
    amount = container.requests.get(resource)
    return container.limits.get(resource, 0) if amount is None else amount


def pod_demand(pod: Pod, resource: str) -> int:
    """What the pod asks of its node, in the unit of `Resources`."""
    running = sum(requested(container, resource) for container in pod.containers)
    sidecars = peak = 0
    for container in pod.init_containers:
        if container.restart_policy == "Always":
            sidecars += requested(container, resource)
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + requested(container, resource))
    return max(running + sidecars, peak) + pod.overhead.get(resource, 0)


def resource_names(pod: Pod) -> set[str]:
    """Every resource that some container of the pod names; a set, so not for output in its order."""
    names: set[str] = set()
    for container in (*pod.containers, *pod.init_containers):
        names.update(container.requests, container.limits)
    return names
