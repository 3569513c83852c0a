"""The node's own count of resources, after devices were allocated (lifecycle/predicate.go; the scheduler's request rules).

Requests of the other active pods plus this one must fit into the allocatable that the node object shows; if the pod holds
devices, allocatable of every resource is raised to at least what is marked as allocated. Extended resources that the node
does not name at all are left out of the check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ragstow.scheduling.kubelet.model import PodAsk
from ragstow.scheduling.kubelet.picking import Picker

if TYPE_CHECKING:
    from ragstow.scheduling.kubelet.node import Kubelet


_FIRST = ("cpu", "memory", "ephemeral-storage")


def pod_devices(pod: PodAsk) -> dict[str, int]:
    """Devices of the whole pod by resource: what runs at once, or an init container with the sidecars started before it."""
    return _combine(pod, [container.devices for container in pod.containers])


def pod_requests(pod: PodAsk) -> dict[str, int]:
    """All requests of the pod: cpu in millicores, memory in bytes, devices and others in whole units."""
    asked = [{**c.devices, "cpu": c.cpu_milli, "memory": c.memory_bytes} for c in pod.containers]
    total = _combine(pod, asked)
    total["cpu"] = total.get("cpu", 0) + pod.overhead_cpu_milli
    total["memory"] = total.get("memory", 0) + pod.overhead_memory_bytes
    for name, amount in pod.others.items():
        total[name] = total.get(name, 0) + amount
    return total


def check(node: Kubelet, pod: PodAsk, others: Iterable[PodAsk], picker: Picker, calls: int) -> tuple[str, str] | None:
    """The first refusal (reason, message) in the original's order: pods, cpu, memory, ephemeral-storage, then extended
    resources in map order, for which the picker is asked (`calls` to plugins were made so far)."""
    counted = list(others)
    used: dict[str, int] = {}
    for other in counted:
        for name, amount in pod_requests(other).items():
            used[name] = used.get(name, 0) + amount
    limits = _limits(node)
    if node.devices.held_by(pod.name):
        for resource, ids in node.devices.allocated.items():
            limits[resource] = max(limits.get(resource, 0), len(ids))
    if len(counted) + 1 > node.settings.max_pods:
        return _refuse("pods", 1, len(counted), node.settings.max_pods)
    asked = pod_requests(pod)
    extended = picker.order("", [name for name in asked if name not in _FIRST], calls)
    for name in (*_FIRST, *extended):
        amount = asked.get(name, 0)
        if amount > 0 and name in limits and amount > limits[name] - used.get(name, 0):
            return _refuse(name, amount, used.get(name, 0), limits[name])
    return None


def _limits(node: Kubelet) -> dict[str, int]:
    limits = {**node.others, **node.allocatable}
    cpus = sum(len(numa.cpus) for numa in node.numa)
    memory = sum(numa.memory_bytes for numa in node.numa)
    if cpus:
        limits.setdefault("cpu", (cpus - node.settings.reserved_cpus) * 1000)
    if memory:
        limits.setdefault("memory", memory - sum(node.settings.reserved_memory_bytes.values()))
    return limits


def _refuse(name: str, requested: int, used: int, capacity: int) -> tuple[str, str]:
    return f"OutOf{name}", (
        f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
    )


def _combine(pod: PodAsk, asked: Sequence[Mapping[str, int]]) -> dict[str, int]:
    sidecars: dict[str, int] = {}
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container, wants in zip(pod.containers, asked, strict=True):
        for name, amount in wants.items():
            if container.sidecar:
                sidecars[name] = sidecars.get(name, 0) + amount
                peak[name] = max(peak.get(name, 0), sidecars[name])
            elif container.init:
                peak[name] = max(peak.get(name, 0), sidecars.get(name, 0) + amount)
            else:
                running[name] = running.get(name, 0) + amount
    names = dict.fromkeys((*sidecars, *running, *peak))
    return {name: max(peak.get(name, 0), sidecars.get(name, 0) + running.get(name, 0)) for name in names}
